//! Where a worker is: its lanes, what is outstanding in each slot, and the step under way.

use std::sync::Arc;

use super::protocol::{Before, StepPlan};
use crate::recorder::Recorder;
use crate::units::{Bytes, Nanos};
use crate::workload::{Arrivals, Operation, RequestStream};

#[derive(Debug)]
pub struct Lane {
    pub stream: RequestStream,
    pub active: bool,
    /// Left to issue of an exact stop; without meaning for a timed one.
    pub left: u64,
    /// Of an open loop: when I/Os are due, and the slots for them.
    pub arrivals: Arrivals,
    pub free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub lane: u32,
    /// Position in the lane's queue: used while below the queue depth.
    pub depth: u32,
    pub busy: bool,
    /// Number of the step that counts this I/O; bridge I/Os have none.
    pub step: Option<u64>,
    pub operation: Operation,
    pub bytes: Bytes,
    pub lba: u64,
    /// When it was issued; in an open loop, when it was due.
    pub due: Nanos,
}

/// The step under way, as one worker sees it.
pub struct Current {
    pub plan: Arc<StepPlan>,
    /// Gone once the step is reported.
    pub recorder: Option<Box<Recorder>>,
    pub began: Nanos,
    /// This worker's I/Os of earlier steps still outstanding; the window opens when no worker has any.
    pub foreign: u64,
    pub open: bool,
    /// Slots are empty because the hand-over took too long; to be filled when it is over.
    pub held: bool,
    /// `Nanos::MAX` until the window is open, and for exact stops.
    pub window_end: Nanos,
    /// I/Os of this step not completed yet.
    pub pending: u64,
    pub submitted_ios: u64,
    /// Open loop: due, but never issued; and whether they were counted already.
    pub missed_ios: u64,
    pub given_up: bool,
    pub before: Before,
    pub first_submit: Option<Nanos>,
    pub bridge_ios_before: u64,
    pub reported: bool,
}

impl Current {
    pub fn open(&mut self, at: Nanos) {
        self.open = true;
        if let Some(ns) = self.plan.stop.window_ns() {
            self.window_end = Nanos(at.0 + ns);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.open(at, self.window_end);
        }
    }
}
