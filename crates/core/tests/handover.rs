//! The hand-over between timed steps: a window opens when the I/Os of the step before have returned in all threads.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

use flashgauge_core::engine::{Completion, Device, Limits, Session, StopReason, monotonic};
use flashgauge_core::error::DeviceError;
use flashgauge_core::units::{Bytes, Nanos};
use flashgauge_core::workload::{ArrivalKind, Rate, Request, Stimulus};

use crate::support::*;

const DEPTH: u32 = 8;
/// Of each I/O that is not held.
const LATENCY_NS: u64 = 100_000;
const WINDOW_S: f64 = 0.03;

/// What one thread's device is told, and what it tells.
#[derive(Default)]
struct Gate {
    holds: AtomicBool,
    fails: AtomicBool,
    completed: AtomicU64,
}

/// Answers after a while; nothing while its gate holds.
struct Gated {
    gate: Arc<Gate>,
    outstanding: Vec<(u32, Nanos)>,
}

impl Device for Gated {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    fn submit(&mut self, slot: u32, _request: &Request) -> Result<(), DeviceError> {
        self.outstanding.push((slot, Nanos(monotonic().0 + LATENCY_NS)));
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.gate.fails.load(SeqCst) {
            return Err(DeviceError { errno: libc::EIO, context: "gate".into(), problem: "it fails".into() });
        }
        let at = monotonic();
        if self.gate.holds.load(SeqCst) || !self.outstanding.iter().any(|&(_, due)| due <= at) {
            sleep(Duration::from_nanos(until.since(at).min(LATENCY_NS)));
            return Ok(());
        }
        let due = self.outstanding.extract_if(.., |&mut (_, due)| due <= at);
        done.extend(due.map(|(slot, _)| Completion { slot, at, result: Ok(()) }));
        self.gate.completed.fetch_add(done.len() as u64, SeqCst);
        Ok(())
    }

    fn set_entropy(&mut self, _percent: u8) {}
}

fn gated(threads: u32) -> (Session, Vec<Arc<Gate>>) {
    let gates: Vec<Arc<Gate>> = (0..threads).map(|_| Arc::default()).collect();
    let own = gates.clone();
    let limits = Limits { threads, queue_depth: DEPTH, block: Bytes(MIB) };
    let make = move |thread: u32| Ok(Gated { gate: Arc::clone(&own[thread as usize]), outstanding: vec![] });
    (Session::on(Bytes(64 << 20), 1, limits, make).unwrap(), gates)
}

fn stimulus_of(threads: u32) -> Stimulus {
    at(random(4096, 100.0), threads, DEPTH)
}

fn hold(gates: &[Arc<Gate>], held: bool) {
    gates.iter().for_each(|gate| gate.holds.store(held, SeqCst));
}

fn completed(gates: &[Arc<Gate>]) -> u64 {
    gates.iter().map(|gate| gate.completed.load(SeqCst)).sum()
}

/// The step after `from` threads, with `to`, while the gates `held` hold for so many ms.
fn change(from: u32, to: Stimulus, held: std::ops::Range<usize>, ms: u64) {
    let (mut session, gates) = gated(4);
    step(&mut session, &stimulus_of(from), seconds(WINDOW_S));
    hold(&gates[held.clone()], true);
    let began = monotonic();
    session.start(to, seconds(WINDOW_S), SECOND, true).unwrap();
    sleep(Duration::from_millis(ms));
    assert!(session.wait(Duration::ZERO).unwrap().is_none(), "the window is not open, so it cannot have ended");
    let handed_over = monotonic().since(began);
    hold(&gates[held], false);
    let result = finish(&mut session);
    let recorder = &result.recorder;
    assert_eq!(result.submitted_ios, recorder.ios() + recorder.handover_ios + recorder.error_ios());
    assert_eq!(result.window_ns, (WINDOW_S * 1e9) as u64);
    assert!(recorder.ios() > 0 && recorder.handover_ios > 0);
    // A thread may take the step over a little after it was told to.
    assert!(result.handover_ns > handed_over / 2, "{} ns of {handed_over}", result.handover_ns);
    let window_ios = recorder.read.window_ios;
    let most = u64::from(4 * DEPTH) * (result.window_ns / LATENCY_NS + 2);
    assert!(window_ios <= most, "{window_ios} completions in the window, at most {most} fit in it");
}

#[test]
fn threads_that_leave_are_waited_for() {
    change(4, stimulus_of(1), 1..4, 150);
}

#[test]
fn new_threads_wait_for_the_old_one() {
    change(1, stimulus_of(4), 0..1, 150);
}

#[test]
fn an_open_loop_waits_as_well() {
    let rate = Some(Rate { ios_per_s: 5000.0, arrivals: ArrivalKind::Fixed });
    change(4, Stimulus { rate, ..stimulus_of(1) }, 1..4, 150);
}

/// After 5 s nothing more is issued, and all goes on when the old I/Os have returned.
#[test]
fn a_long_hand_over_is_waited_for_without_load() {
    let (mut session, gates) = gated(2);
    step(&mut session, &stimulus_of(2), seconds(WINDOW_S));
    hold(&gates[1..], true);
    session.start(stimulus_of(1), seconds(WINDOW_S), SECOND, true).unwrap();
    sleep(Duration::from_millis(6000));
    let before = completed(&gates[..1]);
    sleep(Duration::from_millis(300));
    assert_eq!(completed(&gates[..1]), before, "nothing is issued any more");
    hold(&gates, false);
    let result = finish(&mut session);
    assert!(result.recorder.ios() > 0 && result.handover_ns > 5 * SECOND);
}

#[test]
fn a_worker_that_fails_is_not_waited_for() {
    let (mut session, gates) = gated(4);
    step(&mut session, &stimulus_of(4), seconds(WINDOW_S));
    hold(&gates[1..], true);
    session.start(stimulus_of(1), seconds(WINDOW_S), SECOND, true).unwrap();
    sleep(Duration::from_millis(20));
    gates[3].fails.store(true, SeqCst);
    // Whether the step still gets its result depends on who is first; it must end.
    assert!(!matches!(session.wait(Duration::from_secs(30)), Ok(None)), "the step ends");
    hold(&gates, false);
    session.close();

    let (mut session, gates) = gated(4);
    step(&mut session, &stimulus_of(1), seconds(WINDOW_S));
    hold(&gates[..1], true);
    session.start(stimulus_of(4), seconds(WINDOW_S), SECOND, true).unwrap();
    gates[0].fails.store(true, SeqCst);
    assert!(session.wait(Duration::from_secs(30)).is_err());
}

#[test]
fn an_interrupt_ends_a_hand_over() {
    let (mut session, gates) = gated(4);
    step(&mut session, &stimulus_of(4), seconds(WINDOW_S));
    hold(&gates[1..], true);
    session.start(stimulus_of(1), seconds(WINDOW_S), SECOND, true).unwrap();
    sleep(Duration::from_millis(20));
    session.interrupt();
    let result = session.wait(Duration::from_secs(30)).unwrap().expect("the step ends");
    assert_eq!((result.reason, result.recorder.ios()), (StopReason::Interrupted, 0));
    // The next step waits for what is left of all before it.
    session.start(stimulus_of(2), seconds(WINDOW_S), SECOND, true).unwrap();
    sleep(Duration::from_millis(100));
    assert!(session.wait(Duration::ZERO).unwrap().is_none());
    hold(&gates, false);
    assert!(finish(&mut session).recorder.ios() > 0);
}
