//! Little's law at every test point of IOPS, TP and LAT: outstanding = rate x mean response time, within 0.1 %.
//!
//! The rate counts what ends in the window, the mean what begins in it: the two differ by a part of what is outstanding,
//! of which a window must have thousands of times as much.

mod support;

use flashgauge_core::engine::Session;
use flashgauge_core::workload::{Stimulus, Stop};

use crate::support::*;

/// Block size, and how long a test point of it is measured.
const SIZES: [(u64, f64); 8] = [
    (512, 10.0),
    (4 * KIB, 10.0),
    (8 * KIB, 10.0),
    (16 * KIB, 15.0),
    (32 * KIB, 25.0),
    (64 * KIB, 40.0),
    (128 * KIB, 60.0),
    (MIB, 480.0),
];

fn filled(threads: u32, depth: u32) -> Session {
    let mut session = Session::simulated(drive(r#"{"capacity_bytes": 1000000000}"#), 1, threads, depth).unwrap();
    step(&mut session, &at(sequential(128 * KIB, 0.0), 1, depth), Stop::Bytes { bytes: 2 * 953 * MIB });
    session
}

fn check(session: &mut Session, stimulus: Stimulus, window_s: f64, what: &str) {
    let result = step(session, &stimulus, seconds(window_s));
    let outstanding = f64::from(stimulus.thread_count * stimulus.queue_depth);
    let off = iops(&result) / 1e9 * mean_latency_ns(&result) / outstanding - 1.0;
    println!("{what}: {:+.4} % of {} I/Os", 100.0 * off, result.recorder.ios());
    assert!(off.abs() < 0.001, "{what}: {off:+.5} off");
}

#[test]
fn at_every_test_point_of_iops_outstanding_is_rate_times_response_time() {
    let mut session = filled(4, 32);
    for read_percent in [100.0, 95.0, 65.0, 50.0, 35.0, 5.0, 0.0] {
        for (bytes, window_s) in SIZES.iter().rev() {
            let what = format!("{bytes} bytes, {read_percent} % reads");
            check(&mut session, at(random(*bytes, read_percent), 4, 32), *window_s, &what);
        }
    }
}

#[test]
fn at_every_test_point_of_tp_and_lat_outstanding_is_rate_times_response_time() {
    let mut session = filled(1, 32);
    for read_percent in [100.0, 0.0] {
        for (bytes, window_s) in [(MIB, 120.0), (128 * KIB, 30.0)] {
            let what = format!("TP, {bytes} bytes, {read_percent} % reads");
            check(&mut session, at(sequential(bytes, read_percent), 1, 32), window_s, &what);
        }
    }
    for read_percent in [100.0, 65.0, 0.0] {
        for bytes in [512, 4 * KIB, 8 * KIB] {
            let what = format!("LAT, {bytes} bytes, {read_percent} % reads");
            check(&mut session, random(bytes, read_percent), 10.0, &what);
        }
    }
}
