//! The result of a step: what its workers report, merged.

use super::device::Conditions;
use super::protocol::{Before, StopReason, WorkerReport};
use crate::recorder::Recorder;

/// The result of one step, all workers merged.
#[derive(Debug)]
pub struct StepResult {
    pub recorder: Recorder,
    pub window_ns: u64,
    /// From the step's begin until the last I/O of the step before had come back; the slowest thread's.
    pub handover_ns: u64,
    pub submitted_ios: u64,
    /// Open loop: due in the step, issued or not.
    pub intended_ios: Option<u64>,
    /// Issued before this step to keep the device loaded.
    pub bridge_ios: u64,
    /// Written to the device since the step before was reported, whatever step it belongs to.
    pub written_bytes: u64,
    /// Time the device had nothing outstanding before the step's first I/O; `None` for a first step.
    pub gap_ns: Option<u64>,
    pub reason: StopReason,
    /// Of the device over the step, if it knows by itself.
    pub conditions: Option<Conditions>,
}

pub(super) fn merge(reports: Vec<WorkerReport>, reason: StopReason) -> StepResult {
    let gap_ns = gap(&reports);
    let missed: u64 = reports.iter().map(|report| report.missed_ios).sum();
    let mut reports = reports.into_iter();
    let first = reports.next().expect("a session has a worker");
    let mut result = StepResult {
        window_ns: first.window_end.since(first.recorder.start()),
        handover_ns: first.handover_ns,
        submitted_ios: first.submitted_ios,
        intended_ios: None,
        bridge_ios: first.bridge_ios,
        written_bytes: first.written_bytes,
        recorder: *first.recorder,
        gap_ns,
        reason,
        // A device with several workers is a real one, and says nothing.
        conditions: first.conditions,
    };
    for report in reports {
        result.window_ns = result.window_ns.max(report.window_end.since(report.recorder.start()));
        result.handover_ns = result.handover_ns.max(report.handover_ns);
        result.submitted_ios += report.submitted_ios;
        result.bridge_ios += report.bridge_ios;
        result.written_bytes += report.written_bytes;
        result.recorder.merge(&report.recorder);
    }
    result.intended_ios = result.recorder.lateness.is_some().then_some(result.submitted_ios + missed);
    result
}

/// How long no worker had anything outstanding before the step's first I/O.
fn gap(reports: &[WorkerReport]) -> Option<u64> {
    let first_submit = reports.iter().filter_map(|report| report.first_submit).min()?;
    if reports.iter().any(|report| report.before == Before::Busy) {
        return Some(0);
    }
    let idle_since = reports.iter().filter_map(|report| match report.before {
        Before::IdleSince(at) => Some(at),
        _ => None,
    });
    idle_since.max().map(|at| first_submit.since(at))
}
