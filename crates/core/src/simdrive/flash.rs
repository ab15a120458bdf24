//! Dies and channels: each die does one thing at a time, reads first where the parameters say so.
//!
//! A page read holds the die for tR, then its channel for the transfer. A program holds the channel for the
//! transfer, then the die for tPROG. Limits: no suspend of programs, no cache reads.
//!
//! Work of the drive's own that waits on a die is folded into the work queued behind it: nobody waits for its end,
//! and one event does for both. Where nothing may overtake, that changes no time but the channel's.

use std::collections::VecDeque;

use super::divisor::Divisor;

/// What a die is doing, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Data for the host command in this slot.
    HostRead { slot: u32, units: u32 },
    /// Data that is being collected, or read to be modified.
    InnerRead { units: u32 },
    /// A page of host data; `page` is its physical page number.
    HostProgram { page: u32 },
    /// A page of collected data or of the mapping table.
    InnerProgram,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    job: Job,
    die_ns: u64,
    /// Pages that go over the channel before the die begins.
    programs: u32,
}

#[derive(Debug, Default)]
struct Die {
    channel: usize,
    current: Option<Job>,
    reads: VecDeque<Queued>,
    others: VecDeque<Queued>,
}

/// Times of one operation, in ns.
#[derive(Debug, Clone, Copy)]
pub struct FlashTimes {
    pub read_ns: u64,
    pub program_ns: u64,
    pub erase_ns: u64,
    /// Transfer of one unit over the channel.
    pub unit_transfer_ns: u64,
    /// Transfer of a full page.
    pub page_transfer_ns: u64,
    pub rmw_ns: u64,
}

pub struct Flash {
    dies: Vec<Die>,
    /// `None` for a single die.
    die_count: Option<Divisor>,
    /// When each channel is free.
    channels: Vec<u64>,
    times: FlashTimes,
    read_priority: bool,
}

impl Flash {
    pub fn new(dies: u32, channels: u32, times: FlashTimes, read_priority: bool) -> Self {
        Self {
            dies: (0..dies).map(|die| Die { channel: (die % channels) as usize, ..Die::default() }).collect(),
            die_count: (dies > 1).then(|| Divisor::new(u64::from(dies))),
            channels: vec![0; channels as usize],
            times,
            read_priority,
        }
    }

    pub fn die_of(&self, page: u32) -> u32 {
        match self.die_count {
            Some(count) => count.remainder(page),
            None => 0,
        }
    }

    /// Queue a read of `pages` pages on `die`. Returns when the die is done, if it begins at once.
    #[inline]
    pub fn read(&mut self, die: u32, pages: u32, job: Job, now: u64) -> Option<u64> {
        let queued = Queued { job, die_ns: self.times.read_ns * u64::from(pages), programs: 0 };
        let host = matches!(job, Job::HostRead { .. });
        self.queue(die, queued, host && self.read_priority, now)
    }

    /// Queue a read-modify-write's read.
    pub fn modify(&mut self, die: u32, now: u64) -> Option<u64> {
        let die_ns = self.times.read_ns + self.times.rmw_ns;
        self.queue(die, Queued { job: Job::InnerRead { units: 1 }, die_ns, programs: 0 }, false, now)
    }

    /// Queue a program, after an erase if `erase`.
    #[inline]
    pub fn program(&mut self, die: u32, job: Job, erase: bool, now: u64) -> Option<u64> {
        let die_ns = self.times.program_ns + if erase { self.times.erase_ns } else { 0 };
        self.queue(die, Queued { job, die_ns, programs: 1 }, false, now)
    }

    /// Inlined, so that what is queued is made in its place: its copying cost more than all else here.
    #[inline(always)]
    fn queue(&mut self, die: u32, queued: Queued, first: bool, now: u64) -> Option<u64> {
        let state = &mut self.dies[die as usize];
        if state.current.is_none() {
            return Some(self.begin(die, queued, now));
        }
        if first {
            state.reads.push_back(queued);
            return None;
        }
        match state.others.back_mut() {
            Some(last) if folds(last.job, self.read_priority) => {
                if let Job::InnerRead { units } = last.job {
                    self.channels[state.channel] += self.times.unit_transfer_ns * u64::from(units);
                }
                *last = Queued {
                    job: queued.job,
                    die_ns: last.die_ns + queued.die_ns,
                    programs: last.programs + queued.programs,
                };
            }
            _ => state.others.push_back(queued),
        }
        None
    }

    #[inline(always)]
    fn begin(&mut self, die: u32, queued: Queued, now: u64) -> u64 {
        self.dies[die as usize].current = Some(queued.job);
        if queued.programs == 0 {
            return now + queued.die_ns;
        }
        let channel = &mut self.channels[self.dies[die as usize].channel];
        *channel = now.max(*channel) + self.times.page_transfer_ns * u64::from(queued.programs);
        *channel + queued.die_ns
    }

    /// Programs that wait on the die, and one for what it is doing.
    pub fn backlog(&self, die: u32) -> u32 {
        let die = &self.dies[die as usize];
        u32::from(die.current.is_some()) + die.others.iter().map(|queued| queued.programs).sum::<u32>()
    }

    /// Whether the die programs a page of host data.
    #[inline]
    pub fn programs_host_data(&self, die: u32) -> bool {
        matches!(self.dies[die as usize].current, Some(Job::HostProgram { .. }))
    }

    /// The die's job is done at `now`: returns it, and when the next one on the die will be.
    #[inline(always)]
    pub fn finish(&mut self, die: u32, now: u64) -> (Job, Option<u64>) {
        let state = &mut self.dies[die as usize];
        let job = state.current.take().expect("a die finishes what it began");
        let next = state.reads.pop_front().or_else(|| state.others.pop_front());
        (job, next.map(|queued| self.begin(die, queued, now)))
    }

    /// Move `units` units read on `die` over its channel; returns when they are across.
    #[inline]
    pub fn transfer(&mut self, die: u32, units: u32, now: u64) -> u64 {
        let channel = &mut self.channels[self.dies[die as usize].channel];
        *channel = now.max(*channel) + self.times.unit_transfer_ns * u64::from(units);
        *channel
    }
}

/// Whether a waiting job may be folded into the next. A program may not where reads would have gone before the next.
fn folds(job: Job, read_priority: bool) -> bool {
    matches!(job, Job::InnerRead { .. }) || (job == Job::InnerProgram && !read_priority)
}
