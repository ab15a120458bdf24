//! The hand-over from one timed step to the next: the window opens when no worker has an I/O of the step before left.
//!
//! It is the device that must be rid of the old I/Os, not the thread: 16 threads that the new step does without may
//! still have gigabytes of writes outstanding. So all workers count theirs, and the last one's last opens the window
//! for all. A worker learns of it with its next completions and opens its window at that time, but not before the last
//! completion it has already recorded: what was recorded while the window was closed is in no counter of it.

use super::Worker;
use crate::engine::device::Device;
use crate::units::Nanos;

/// A hand-over that takes longer stops issuing until it is over: a device that serves the new step's I/Os first
/// might otherwise never return the old ones.
pub(super) const HANDOVER_LIMIT_NS: u64 = 5_000_000_000;
/// How long a worker with nothing to issue waits before it looks again whether the window is open.
const LOOK_NS: u64 = 1_000_000;

impl<D: Device> Worker<D> {
    /// An I/O of an earlier step has returned, to be waited for if it is the step's.
    #[inline]
    pub(super) fn foreign_returned(&mut self, at: Nanos) {
        let Some(current) = self.current.as_mut().filter(|current| current.foreign > 0) else { return };
        current.foreign -= 1;
        if current.foreign == 0 {
            current.plan.returned(at);
            self.open_in_turn();
        }
    }

    /// Open the window if it is time: the old I/Os have returned everywhere, or a worker is gone that will not say so.
    pub(super) fn open_in_turn(&mut self) {
        let Some(current) = self.current.as_mut().filter(|current| !current.open) else { return };
        let opened = current.plan.opened();
        let Some(opened) = opened.or_else(|| self.shared.one_is_gone().then(|| self.device.now())) else { return };
        let recorded = current.submitted_ios > current.pending;
        let last = self.last_completion.filter(|_| recorded).unwrap_or(opened);
        // Held back, the queue is empty until now.
        let empty = current.held && self.outstanding == 0 && !self.setup.virtual_time;
        let now = if empty { self.device.now() } else { opened };
        current.open(opened.max(last).max(now));
    }

    /// Whether the step under way waits for its window.
    #[inline]
    pub(super) fn awaits_window(&self) -> bool {
        self.current.as_ref().is_some_and(|current| !current.open && !current.reported)
    }

    /// When to look again, of a worker that may not issue and has nothing outstanding.
    #[inline]
    pub(super) fn next_look(&self, until: Nanos, now: Nanos) -> Nanos {
        let held = self.current.as_ref().is_some_and(|current| current.held);
        if held && self.outstanding == 0 && self.awaits_window() { Nanos(now.0 + LOOK_NS) } else { until }
    }
}
