//! What a session and its workers say to each other: steps and other commands one way, reports the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::device::{Conditions, Control};
use super::iolog::LogEnd;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::units::{Bytes, Nanos};
use crate::workload::{Stimulus, Stop};

/// What a worker is for: its lanes, and the random streams they draw from.
pub struct WorkerSetup {
    pub first_thread: u32,
    pub lanes: u32,
    pub max_queue_depth: u32,
    pub seed: u64,
    pub range: Bytes,
    pub virtual_time: bool,
}

/// A step as all workers see it.
#[derive(Debug)]
pub struct StepPlan {
    pub number: u64,
    pub stimulus: Stimulus,
    pub stop: Stop,
    pub stop_on_error: bool,
    /// When an open loop's schedule begins, the same for all threads; `None` on a device with a clock of its own.
    pub origin: Option<Nanos>,
}

#[derive(Debug)]
pub enum Command {
    /// With a recorder, made beforehand: the device does not wait for its memory.
    Step(Arc<StepPlan>, Box<Recorder>),
    /// Drain, then send nothing for so many ns.
    Idle(u64),
    /// Drain, then change the device's state.
    Control(Control),
    /// Log every I/O from now on.
    Log(LogEnd),
    /// Prepare for steps to come.
    GetReady,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    Complete = 0,
    Interrupted = 1,
    IoError = 2,
}

/// What the session and its workers share beside the commands.
#[derive(Debug, Default)]
pub struct Shared {
    /// A `StopReason`; not `Complete`: the step under way must end early.
    stop: AtomicU8,
}

impl Shared {
    pub fn ask_to_stop(&self, reason: StopReason) {
        // The first reason stays.
        let _ = self.stop.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn clear(&self) {
        self.stop.store(0, Ordering::Release);
    }

    pub fn reason(&self) -> StopReason {
        match self.stop.load(Ordering::Acquire) {
            0 => StopReason::Complete,
            1 => StopReason::Interrupted,
            _ => StopReason::IoError,
        }
    }
}

/// One worker's mailbox flag and progress, read by the session while the worker runs.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// Commands sent and not taken yet. Raised before a command is sent and lowered after it is taken, so that
    /// a worker which sees 0 has none, and one which sees more will get it.
    pub pending: AtomicU32,
    pub ios: AtomicU64,
    pub elapsed_ns: AtomicU64,
}

/// How busy the worker was just before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nothing was ever issued, or the device was idle on purpose.
    Fresh,
    Busy,
    IdleSince(Nanos),
}

/// One worker's part of a step.
#[derive(Debug)]
pub struct WorkerReport {
    pub recorder: Box<Recorder>,
    pub submitted_ios: u64,
    /// Open loop: due in the step, but not issued.
    pub missed_ios: u64,
    pub bridge_ios: u64,
    /// Of all writes that succeeded since the last report.
    pub written_bytes: u64,
    pub before: Before,
    pub first_submit: Option<Nanos>,
    /// From taking over the step to the window's begin.
    pub handover_ns: u64,
    pub window_end: Nanos,
    /// From the step's begin until its last I/O came back.
    pub conditions: Option<Conditions>,
}

#[derive(Debug)]
pub enum Reply {
    Step(Box<WorkerReport>),
    Done(Result<(), Error>),
    Failed(Error),
}
