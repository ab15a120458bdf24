//! The open loop: I/Os come when they are due, are counted from then, and their schedule drifts with nothing.

mod support;

use flashgauge_core::engine::{Session, StepResult};
use flashgauge_core::error::{Error, StimulusError};
use flashgauge_core::units::{Bytes, Nanos};
use flashgauge_core::workload::{ArrivalKind, Arrivals, Rate, Stimulus, Stop};

use crate::support::*;

const KINDS: [ArrivalKind; 2] = [ArrivalKind::Fixed, ArrivalKind::Poisson];

fn rated(stimulus: Stimulus, ios_per_s: f64, arrivals: ArrivalKind) -> Stimulus {
    Stimulus { rate: Some(Rate { ios_per_s, arrivals }), ..stimulus }
}

fn simulated(threads: u32, depth: u32) -> Session {
    Session::simulated(drive(r#"{"capacity_bytes": 1000000000}"#), 1, threads, depth).unwrap()
}

fn null(threads: u32) -> Session {
    Session::null(Bytes(1 << 30), 1, threads, 32).unwrap()
}

/// Every I/O was due, issued or missed, and each issued one has a lateness.
fn assert_sound(result: &StepResult) -> u64 {
    let recorder = &result.recorder;
    let lateness = recorder.lateness.as_ref().expect("an open loop");
    assert_eq!(lateness.len(), result.submitted_ios);
    assert_eq!(result.submitted_ios, recorder.ios() + recorder.handover_ios + recorder.error_ios());
    let intended = result.intended_ios.expect("an open loop");
    assert!(intended >= result.submitted_ios);
    intended - result.submitted_ios
}

#[test]
fn as_many_ios_as_are_due() {
    for threads in [1, 3, 4] {
        for rate in [1000.0, 12_345.0, 40_000.0] {
            let mut session = simulated(threads, 32);
            let stimulus = rated(at(random(4096, 100.0), threads, 32), rate, ArrivalKind::Fixed);
            let result = step(&mut session, &stimulus, seconds(2.0));
            assert_eq!(assert_sound(&result), 0, "the drive keeps up");
            // The first is due at 0, the last before the end.
            assert_eq!(result.intended_ios, Some((2.0 * rate).ceil() as u64), "{threads} threads, {rate}");
            assert_eq!(result.recorder.lateness.as_ref().unwrap().max(), 0, "virtual time is on time");
            assert_eq!((result.recorder.handover_ios, result.window_ns), (0, 2 * SECOND));
        }
    }
}

/// A second answer: what the drive does with one I/O at a time is known from the closed loop.
#[test]
fn far_below_its_limit_a_drive_answers_as_at_queue_depth_1() {
    let alone = mean_latency_ns(&step(&mut simulated(1, 1), &random(4096, 100.0), Stop::Ios { ios: 5000 }));
    for kind in KINDS {
        let stimulus = rated(at(random(4096, 100.0), 1, 32), 100.0, kind);
        let open = mean_latency_ns(&step(&mut simulated(1, 32), &stimulus, Stop::Ios { ios: 5000 }));
        assert!((open / alone - 1.0).abs() < 0.02, "{kind:?}: {open} ns, alone {alone} ns");
    }
}

/// At twice what the drive can do, half of the I/Os due are issued, and the last ones wait for half of the time.
#[test]
fn beyond_the_limit_latency_counts_from_when_an_io_was_due() {
    let most = iops(&step(&mut simulated(1, 32), &at(random(4096, 100.0), 1, 32), seconds(1.0)));
    for kind in KINDS {
        let stimulus = rated(at(random(4096, 100.0), 1, 32), 2.0 * most, kind);
        let result = step(&mut simulated(1, 32), &stimulus, seconds(1.0));
        let (missed, intended) = (assert_sound(&result) as f64, result.intended_ios.unwrap() as f64);
        assert!((intended / (2.0 * most) - 1.0).abs() < 0.02, "{intended} of {}", 2.0 * most);
        assert!((missed / intended - 0.5).abs() < 0.01, "{missed} of {intended}");
        let read = &result.recorder.read;
        let longest = read.latency_max_ns as f64 / 1e9;
        assert!((0.48..0.53).contains(&longest), "{longest} s");
        let mean = mean_latency_ns(&result) / 1e9;
        assert!((0.24..0.27).contains(&mean), "{mean} s");
        assert!((iops(&result) / most - 1.0).abs() < 0.01, "the queue is full all the time");
    }
}

/// A pause of the device is made up for: what came due meanwhile is issued, and the rate over the step is kept.
#[test]
fn what_came_due_in_a_pause_is_issued_after_it() {
    let parameters = drive(r#"{"capacity_bytes": 1000000000, "power_loss_protection": false}"#);
    let mut session = Session::simulated(parameters, 1, 1, 1).unwrap();
    session.control(flashgauge_core::engine::Control::WriteCache(false)).unwrap();
    // A write takes about a millisecond, and one in ten I/Os is one: at queue depth 1 reads wait behind it.
    let stimulus = rated(random(4096, 90.0), 2000.0, ArrivalKind::Fixed);
    let result = step(&mut session, &stimulus, seconds(1.0));
    assert!(assert_sound(&result) <= 2, "only the very end can miss");
    let lateness = result.recorder.lateness.as_ref().unwrap();
    assert!(lateness.max() > 100_000, "{} ns", lateness.max());
    let latencies = &result.recorder.read.histogram();
    assert!(latencies.max() >= lateness.value_at_quantile(0.9), "the wait is in the latency");
}

#[test]
fn exact_stops_are_exact_and_steps_follow_each_other() {
    let mut session = simulated(4, 32);
    let open = |kind| rated(at(random(4096, 65.0), 4, 8), 30_000.0, kind);
    for kind in KINDS {
        let result = step(&mut session, &open(kind), Stop::Ios { ios: PRIME });
        assert_eq!((assert_sound(&result), result.recorder.ios()), (0, PRIME));
        let result = step(&mut session, &open(kind), Stop::Bytes { bytes: PRIME * 4096 + 512 });
        let bytes = result.recorder.read.bytes + result.recorder.write.bytes;
        assert_eq!((assert_sound(&result), bytes), (0, PRIME * 4096 + 512));
        let closed = step(&mut session, &at(random(4096, 65.0), 4, 32), Stop::Ios { ios: PRIME });
        assert_eq!((closed.recorder.ios(), closed.intended_ios), (PRIME, None));
        assert!(closed.recorder.lateness.is_none());
        let timed = step(&mut session, &open(kind), Stop::Burst { ns: SECOND / 2 });
        assert_eq!(assert_sound(&timed), 0);
        assert!((14_000..16_000).contains(&timed.submitted_ios), "{}", timed.submitted_ios);
    }
}

/// Real time: whatever else the machine does, the number of I/Os due follows from the time alone.
#[test]
fn the_schedule_is_kept_in_real_time() {
    let mut session = null(3);
    let stimulus = rated(at(random(4096, 100.0), 3, 32), 10_000.0, ArrivalKind::Fixed);
    let result = step(&mut session, &stimulus, seconds(0.2));
    // On a busy machine some wait for a CPU when the window ends; but not most of them, and not for as long as a
    // schedule would that waits for each answer or begins anew after a delay.
    let missed = assert_sound(&result);
    assert!(missed < 1000, "{missed} of 2000 given up");
    assert_eq!(result.intended_ios, Some(2000));
    assert_eq!(result.recorder.handover_ios, 0);
    let lateness = result.recorder.lateness.as_ref().unwrap();
    let median = lateness.value_at_quantile(0.5);
    assert!(median < result.window_ns / 10, "half of the I/Os were issued later than {median} ns after their time");
    // Latency contains the lateness: no I/O was answered before it was issued, the latest one neither.
    assert!(result.recorder.read.latency_max_ns >= lateness.value_at_quantile(0.999));
    // The schedule goes on until the next step, which has one of its own.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let next = step(&mut session, &stimulus, Stop::Ios { ios: PRIME / 10 });
    assert!(next.bridge_ios > 0);
    assert_eq!((next.recorder.ios(), next.gap_ns.unwrap_or(0)), (PRIME / 10, 0));
}

#[test]
fn the_same_seed_gives_the_same_arrivals() {
    let run = || {
        let mut session = simulated(4, 32);
        let stimulus = rated(at(random(4096, 65.0), 4, 8), 20_000.0, ArrivalKind::Poisson);
        let results: Vec<_> = (0..3).map(|_| step(&mut session, &stimulus, seconds(0.5))).collect();
        let told = |result: &StepResult| {
            let recorder = &result.recorder;
            format!("{:?} {:?} {}", result.intended_ios, recorder.intervals, recorder.read.latency_sum_ns)
        };
        results.iter().map(told).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(run(), first);
    assert!(first[0] != first[1], "a schedule goes on, it does not repeat");
}

#[test]
fn rates_that_are_none_are_refused() {
    let mut session = null(1);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
        let stimulus = rated(random(4096, 100.0), rate, ArrivalKind::Fixed);
        let refused = session.start(stimulus, seconds(1.0), SECOND, true);
        assert!(matches!(refused, Err(Error::Stimulus(StimulusError::Rate(_)))), "{rate}");
    }
}

// The schedule alone

fn arrivals(kind: ArrivalKind, rate: f64, thread: u32, threads: u32) -> Arrivals {
    let mut arrivals = Arrivals::new(7, thread);
    arrivals.begin(Rate { ios_per_s: rate, arrivals: kind }, threads, Nanos(1000));
    arrivals
}

/// By whole numbers: the k-th I/O of all threads is due at k / rate, however long it goes on.
#[test]
fn fixed_arrivals_do_not_drift() {
    for (rate, threads) in [(1000u64, 1), (10_007, 3), (1_000_000, 4), (3, 2)] {
        for thread in 0..threads {
            let mut schedule = arrivals(ArrivalKind::Fixed, rate as f64, thread, threads);
            for number in 0..2_000_000u64 {
                let k = u128::from(number * u64::from(threads) + u64::from(thread));
                let exact = 1000 + (k * 1_000_000_000 / u128::from(rate)) as u64;
                assert!(schedule.next().0.abs_diff(exact) <= 1, "{rate}: {number}");
                schedule.take();
            }
        }
    }
}

/// Times between arrivals of all threads together are exponential: their mean, and the shares beyond four times.
#[test]
fn poisson_arrivals_are_memoryless_at_the_rate() {
    const N: usize = 400_000;
    for threads in [1, 4] {
        let mut times: Vec<u64> = vec![];
        for thread in 0..threads {
            let mut schedule = arrivals(ArrivalKind::Poisson, 10_000.0, thread, threads);
            for _ in 0..N / threads as usize * 11 / 10 {
                times.push(schedule.next().0);
                schedule.take();
            }
        }
        times.sort_unstable();
        let gaps: Vec<f64> = times[..N].windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 100_000.0).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        // Five standard deviations of a mean of so many.
        assert!((mean - 1.0).abs() < 5.0 / (N as f64).sqrt(), "mean {mean}");
        for limit in [0.1, 0.5, 1.0, 3.0] {
            let expected = f64::exp(-limit);
            let beyond = gaps.iter().filter(|&&gap| gap > limit).count() as u64;
            assert_share(beyond, gaps.len() as u64, expected, "gaps beyond the limit");
        }
        // Neighbouring gaps have nothing to do with each other.
        let product: f64 = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum::<f64>() / N as f64;
        assert!(product.abs() < 5.0 / (N as f64).sqrt(), "correlation {product}");
    }
}
