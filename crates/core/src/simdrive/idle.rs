//! Garbage collection while the host is idle.
//!
//! It begins when the drive has had no command for a while, and keeps every die busy until enough superblocks are
//! free or the host is back; what the dies have been given by then they finish, and the host's commands wait for it
//! as they would on a real drive. There is no timer: time without commands passes inside `wait`, which replays it.

use super::drive::SimDrive;

/// Programs of collected data that a die is given ahead: one under way, one to follow.
const AHEAD: u32 = 2;

/// When the drive collects of its own accord.
#[derive(Debug)]
pub struct IdleCollection {
    /// Time without commands before it begins; `None`: never.
    after_ns: Option<u64>,
    /// Free superblocks at which it ends.
    enough: u64,
    /// No command has been there since.
    pub since: u64,
    pub running: bool,
}

impl IdleCollection {
    pub fn new(after_ms: f64, enough: u64, since: u64) -> Self {
        let after_ns = (after_ms > 0.0).then_some((after_ms * 1e6).round() as u64);
        Self { after_ns, enough, since, running: false }
    }
}

impl SimDrive {
    /// The drive has no command: begin to collect if the time for it comes at `until` or before, and before all else
    /// that is to happen.
    #[cold]
    pub(super) fn idle(&mut self, until: u64) {
        let Some(after) = self.idle_collection.after_ns else { return };
        let start = self.now.max(self.idle_collection.since + after);
        if !self.idle_collection.running && start <= until && self.calendar.nothing_until(start) {
            self.now = start;
            self.idle_collection.running = true;
            self.collect_idly();
        }
    }

    /// Give the dies as much as they take.
    #[cold]
    pub(super) fn collect_idly(&mut self) {
        while self.flash.backlog(self.flash.die_of(self.ftl.open_collector_page())) < AHEAD {
            if !self.ftl.collect_idly(self.idle_collection.enough, &mut self.work) {
                return;
            }
            self.start_work();
        }
    }
}
