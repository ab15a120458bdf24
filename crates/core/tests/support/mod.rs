//! What several of the tests need: stimuli in one line, steps run to their end, and a chi-square test.
// Each test binary uses its own part of this.
#![allow(dead_code)]

pub mod host;
pub mod judge;

use std::time::Duration;

use flashgauge_core::engine::{Session, StepResult};
use flashgauge_core::simdrive::DriveParameters;
use flashgauge_core::units::Bytes;
use flashgauge_core::workload::{Access, ActiveRange, BlockShare, LbaGroup, RequestStream, Stimulus, Stop};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const SECOND: u64 = 1_000_000_000;
pub const MILLISECOND: u64 = 1_000_000;

/// The known workload: a prime number of I/Os, so that no wrong division can hide.
pub const PRIME: u64 = 10_007;

/// One block size over the whole range, one thread at queue depth 1.
pub fn stimulus(access: Access, block: u64, read_percent: f64) -> Stimulus {
    Stimulus {
        access,
        block_sizes: vec![BlockShare { bytes: block, weight: 1 }],
        read_percent,
        active_range: ActiveRange { start_percent: 0.0, end_percent: 100.0 },
        thread_count: 1,
        queue_depth: 1,
        entropy_percent: 100,
        alignment_bytes: None,
        rate: None,
    }
}

pub fn random(block: u64, read_percent: f64) -> Stimulus {
    stimulus(Access::Random, block, read_percent)
}

pub fn sequential(block: u64, read_percent: f64) -> Stimulus {
    stimulus(Access::Sequential { restart: false }, block, read_percent)
}

pub fn group(start_percent: f64, end_percent: f64, probability_percent: f64) -> LbaGroup {
    LbaGroup { start_percent, end_percent, probability_percent }
}

/// With `threads` threads at `depth`.
pub fn at(mut stimulus: Stimulus, threads: u32, depth: u32) -> Stimulus {
    (stimulus.thread_count, stimulus.queue_depth) = (threads, depth);
    stimulus
}

pub fn within(mut stimulus: Stimulus, start_percent: f64, end_percent: f64) -> Stimulus {
    stimulus.active_range = ActiveRange { start_percent, end_percent };
    stimulus
}

pub fn stream(seed: u64, thread: u32, stimulus: &Stimulus, capacity: u64) -> RequestStream {
    let mut stream = RequestStream::new(seed, thread);
    stream.set(stimulus, Bytes(capacity)).unwrap();
    stream
}

pub fn drive(overrides: &str) -> DriveParameters {
    DriveParameters::preset("sata-enterprise", overrides).unwrap()
}

pub fn seconds(seconds: f64) -> Stop {
    Stop::Time { ns: (seconds * 1e9) as u64 }
}

/// Run one step to its end, with one-second intervals.
pub fn step(session: &mut Session, stimulus: &Stimulus, stop: Stop) -> StepResult {
    session.start(stimulus.clone(), stop, SECOND, true).unwrap();
    finish(session)
}

pub fn finish(session: &mut Session) -> StepResult {
    // No step of the tests takes a minute of real time.
    session.wait(Duration::from_secs(60)).unwrap().expect("the step ends")
}

/// I/Os per second, by the counters of the window.
pub fn iops(result: &StepResult) -> f64 {
    (result.recorder.read.window_ios + result.recorder.write.window_ios) as f64 * 1e9 / result.window_ns as f64
}

/// Average response time, reads and writes together.
pub fn mean_latency_ns(result: &StepResult) -> f64 {
    let (read, write) = (&result.recorder.read, &result.recorder.write);
    (read.latency_sum_ns + write.latency_sum_ns) as f64 / result.recorder.ios() as f64
}

/// `count` successes of `draws` with this probability: at most five standard deviations off.
pub fn assert_share(count: u64, draws: u64, probability: f64, what: &str) {
    let sigma = (draws as f64 * probability * (1.0 - probability)).sqrt();
    let off = (count as f64 - draws as f64 * probability).abs();
    assert!(off <= 5.0 * sigma, "{what}: {count} of {draws} is {:.1} sigma off {probability}", off / sigma);
}

/// Pearson's statistic against the limits that a chi-square variable of that many degrees of freedom exceeds on
/// either side about once in 30,000 (4 sigma, by Wilson and Hilferty's cube root). Too regular fails as well.
pub fn assert_chi_square(observed: &[u64], expected: &[f64], what: &str) {
    assert_eq!(observed.len(), expected.len());
    assert!(expected.iter().all(|&count| count >= 5.0), "{what}: too few draws for the test");
    let terms = observed.iter().zip(expected).map(|(&seen, &wanted)| (seen as f64 - wanted).powi(2) / wanted);
    let (statistic, freedom) = (terms.sum::<f64>(), observed.len() as f64 - 1.0);
    let limit = |z: f64| freedom * (1.0 - 2.0 / (9.0 * freedom) + z * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    let fits = (limit(-4.0)..limit(4.0)).contains(&statistic);
    assert!(fits, "{what}: chi-square {statistic:.1} is not in {:.1}..{:.1}", limit(-4.0), limit(4.0));
}
