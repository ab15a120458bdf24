//! Garbage collection, and folding of the SLC cache, while the host is idle.
//!
//! Each begins when the drive has had no command for a while, and keeps every die busy until enough superblocks are
//! free, the cache is empty, or the host is back; what the dies have been given by then they finish, and the host's commands wait for it
//! as they would on a real drive. There is no timer: time without commands passes inside `wait`, which replays it.

use super::drive::SimDrive;
use super::params::DriveParameters;

/// Programs of collected data that a die is given ahead: one under way, one to follow.
const AHEAD: u32 = 2;

/// What the drive does of its own accord.
#[derive(Debug, Clone, Copy)]
enum IdleWork {
    Fold,
    Collect,
}

/// When the drive works of its own accord.
#[derive(Debug)]
pub struct IdleCollection {
    /// Time without commands before each kind of work begins, the shortest first.
    after_ns: Vec<(u64, IdleWork)>,
    /// Free superblocks at which collection ends, by pool.
    enough: [u64; 2],
    /// No command has been there since.
    pub since: u64,
    /// Kinds of work that have begun since then.
    pub begun: usize,
    /// Superblocks that went bad, by pool: spare capacity less.
    retired: [u64; 2],
}

impl IdleCollection {
    pub fn new(p: &DriveParameters, since: u64) -> Self {
        let work = [(p.slc_fold_after_ms, IdleWork::Fold), (p.idle_collect_after_ms, IdleWork::Collect)];
        let set = work.into_iter().filter(|(ms, _)| *ms > 0.0);
        let mut after_ns: Vec<_> = set.map(|(ms, work)| ((ms * 1e6).round() as u64, work)).collect();
        after_ns.sort_by_key(|(ns, _)| *ns);
        let retired = [0; 2];
        Self { after_ns, enough: p.idle_free_superblocks(retired), since, begun: 0, retired }
    }

    /// A superblock of this pool is out of use for good.
    pub fn retired(&mut self, p: &DriveParameters, pool: usize) {
        self.retired[pool] += 1;
        self.enough = p.idle_free_superblocks(self.retired);
    }
}

impl SimDrive {
    /// The drive has no command: begin what there is to do if the time for it comes at `until` or before, and before
    /// all else that is to happen. A kind that finds nothing to do leaves nothing that is to happen: the next is due.
    #[cold]
    pub(super) fn idle(&mut self, until: u64) {
        if self.extras.counters.gone {
            return;
        }
        while let Some((after, _)) = self.idle_collection.after_ns.get(self.idle_collection.begun) {
            let start = self.now.max(self.idle_collection.since + after);
            if start > until || !self.calendar.nothing_until(start) {
                return;
            }
            self.now = start;
            self.idle_collection.begun += 1;
            self.work_idly();
        }
    }

    /// Give the dies as much as they take.
    #[cold]
    pub(super) fn work_idly(&mut self) {
        for pool in 0..self.ftl.pools() {
            self.ftl.select_pool(pool);
            while self.flash.backlog(self.flash.die_of(self.ftl.open_collector_page())) < AHEAD {
                let IdleCollection { after_ns, enough, begun, .. } = &self.idle_collection;
                let more = after_ns[..*begun].iter().any(|(_, kind)| match kind {
                    IdleWork::Fold => self.ftl.fold_idly(&mut self.work),
                    IdleWork::Collect => self.ftl.collect_idly(enough[pool], &mut self.work),
                });
                if !more {
                    break;
                }
                self.start_work();
            }
        }
    }
}
