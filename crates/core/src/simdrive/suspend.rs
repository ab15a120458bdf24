//! Suspension of programs and erases: a host read does not wait for them, but interrupts them.
//!
//! The die takes some time to suspend, reads, and goes on where it was: the program ends later by exactly that time,
//! and that of the reads. Reads that come meanwhile go before it goes on. Only so many reads may go before a program;
//! then it is left alone, and reads wait for its end. A program whose data is still on its way has not begun: reads
//! go before it in no more than their own time. (Kim et al., ATC 2019; Wu and He, FAST 2012.)

use super::flash::{Flash, Job};

/// A die's program, for those who may interrupt it.
#[derive(Debug, Clone, Default)]
pub struct Suspension {
    /// When its data is there, and when it ends.
    begins: u64,
    ends: u64,
    /// Reads that may still go before it.
    reads_left: u32,
    /// It is suspended, and so much of it is left.
    held: Option<(Job, u64)>,
}

impl Suspension {
    pub fn is_on(&self) -> bool {
        self.held.is_some()
    }
}

impl Flash {
    /// A program holds the die: its data is there at `begins`.
    #[inline]
    pub(super) fn may_suspend(&mut self, die: u32, begins: u64, ends: u64) {
        if let Some(state) = self.suspensions.get_mut(die as usize) {
            *state = Suspension { begins, ends, reads_left: self.suspends_per_program, held: None };
        }
    }

    /// Programs under way end so much later, and those whose data is still coming begin as much later.
    pub(super) fn postpone_programs(&mut self, now: u64, ns: u64) {
        for state in &mut self.suspensions {
            state.begins += if state.begins > now { ns } else { 0 };
            state.ends += if state.ends > now { ns } else { 0 };
        }
    }

    /// Interrupt the program on the die for a read; returns when the read may begin, `None` if it may not.
    pub(super) fn suspend(&mut self, die: u32, now: u64) -> Option<u64> {
        let state = self.suspensions.get_mut(die as usize)?;
        let current = &mut self.dies[die as usize].current;
        if !matches!(current, Some(Job::HostProgram { .. } | Job::InnerProgram)) || state.reads_left == 0 {
            return None;
        }
        let job = current.take().expect("there is one");
        state.reads_left -= 1;
        state.held = Some((job, state.ends - now.max(state.begins)));
        Some(if now < state.begins { now } else { now + self.suspend_ns })
    }

    /// The die has read what it was suspended for: whether another read may go before it goes on.
    pub(super) fn stays_suspended(&mut self, die: u32) -> bool {
        let state = &mut self.suspensions[die as usize];
        let stays = state.reads_left > 0 && !self.dies[die as usize].reads.is_empty();
        state.reads_left -= u32::from(stays);
        stays
    }

    /// The suspended program goes on; returns when it ends.
    pub(super) fn resume(&mut self, die: u32, now: u64) -> u64 {
        let state = &mut self.suspensions[die as usize];
        let (job, left) = state.held.take().expect("a suspended program");
        state.begins = state.begins.max(now);
        state.ends = state.begins + left;
        self.dies[die as usize].current = Some(job);
        state.ends
    }
}
