//! Sessions on the null device and on a simulated drive: what is asked comes back, exactly, step after step.

mod support;

use std::time::{Duration, Instant};

use flashgauge_core::engine::{Control, Session, StepResult, StopReason};
use flashgauge_core::error::{Error, StimulusError};
use flashgauge_core::units::Bytes;
use flashgauge_core::workload::{Access, BlockShare, Stimulus, Stop};

use crate::support::*;

const GIB: u64 = 1 << 30;

fn null(threads: u32, depth: u32) -> Session {
    Session::null(Bytes(GIB), 1, threads, depth).unwrap()
}

/// A simulated drive of 1 GB.
fn simulated(seed: u64, threads: u32, depth: u32) -> Session {
    Session::simulated(drive(r#"{"capacity_bytes": 1000000000}"#), seed, threads, depth).unwrap()
}

/// What holds for every result: submitted = recorded, the parts add up to the whole.
fn assert_sound(result: &StepResult) {
    let recorder = &result.recorder;
    assert_eq!(result.submitted_ios, recorder.ios() + recorder.handover_ios + recorder.error_ios());
    assert_eq!(
        (recorder.read.histogram().len(), recorder.write.histogram().len()),
        (recorder.read.ios, recorder.write.ios)
    );
    let sums = |of: fn(&flashgauge_core::recorder::Interval) -> u64| recorder.intervals.iter().map(of).sum::<u64>();
    assert_eq!(sums(|i| i.read_ios), recorder.read.window_ios);
    assert_eq!(sums(|i| i.write_ios), recorder.write.window_ios);
    assert_eq!(sums(|i| i.read_bytes + i.write_bytes), recorder.read.window_bytes + recorder.write.window_bytes);
    assert_eq!(recorder.intervals.len() as u64, result.window_ns.div_ceil(recorder.interval_ns()));
}

// Exact stops

#[test]
fn a_prime_number_of_ios_comes_back_from_the_null_device() {
    for threads in 1..=4 {
        let mut session = null(4, 8);
        // Twice on one session: nothing is left over from the first.
        for _ in 0..2 {
            let result = step(&mut session, &at(random(4096, 65.0), threads, 7), Stop::Ios { ios: PRIME });
            assert_sound(&result);
            assert_eq!((result.submitted_ios, result.recorder.ios()), (PRIME, PRIME), "{threads} threads");
            let bytes = result.recorder.read.bytes + result.recorder.write.bytes;
            assert_eq!((bytes, result.reason), (PRIME * 4096, StopReason::Complete));
        }
    }
}

#[test]
fn a_prime_number_of_ios_comes_back_from_the_simulated_drive() {
    let mut session = simulated(1, 4, 32);
    for (threads, depth, read_percent) in [(4, 32, 0.0), (4, 32, 65.0), (3, 5, 100.0), (1, 1, 50.0)] {
        let result = step(&mut session, &at(random(4096, read_percent), threads, depth), Stop::Ios { ios: PRIME });
        assert_sound(&result);
        let recorder = &result.recorder;
        assert_eq!((result.submitted_ios, recorder.ios()), (PRIME, PRIME));
        assert_eq!((recorder.handover_ios, recorder.late_ios, recorder.error_ios()), (0, 0, 0));
        assert_eq!(recorder.read.window_ios + recorder.write.window_ios, PRIME, "the window is all of an exact step");
        assert_share(recorder.read.ios, PRIME, read_percent / 100.0, "reads");
    }
}

/// Also after a timed step, whose last I/Os are then still under way, and which are none of this one's.
#[test]
fn exact_steps_after_timed_ones_count_their_own_only() {
    let mut session = simulated(1, 4, 32);
    for _ in 0..3 {
        step(&mut session, &at(random(128 * KIB, 0.0), 4, 32), seconds(0.1));
        let result = step(&mut session, &at(random(4096, 100.0), 4, 32), Stop::Ios { ios: PRIME });
        assert_sound(&result);
        assert_eq!((result.recorder.read.ios, result.recorder.write.ios), (PRIME, 0));
        assert_eq!(result.recorder.read.bytes, PRIME * 4096);
    }
}

#[test]
fn fewer_ios_than_threads_are_possible() {
    for ios in 1..=5 {
        let result = step(&mut null(4, 8), &at(random(4096, 0.0), 4, 8), Stop::Ios { ios });
        assert_eq!(result.recorder.ios(), ios);
        let result = step(&mut simulated(1, 4, 8), &at(random(4096, 0.0), 4, 8), Stop::Ios { ios });
        assert_eq!(result.recorder.ios(), ios);
    }
}

#[test]
fn bytes_are_exact_also_when_no_block_divides_them() {
    for bytes in [512, 4096, 4096 * PRIME, 10 * MIB + 512, 7 * 512] {
        for access in [Access::Random, Access::Sequential { restart: false }] {
            for threads in [1, 3, 4] {
                let stimulus = at(stimulus(access.clone(), 24 * KIB, 0.0), threads, 5);
                for mut session in [null(4, 8), simulated(1, 4, 8)] {
                    let result = step(&mut session, &stimulus, Stop::Bytes { bytes });
                    assert_sound(&result);
                    assert_eq!(result.recorder.write.bytes, bytes, "{threads} threads, {access:?}");
                }
            }
        }
    }
}

/// A precondition of whole passes, by several threads, writes every unit of the range that often: the drive's
/// units all read from flash afterwards, which a hole would not.
#[test]
fn a_sequential_pass_by_four_threads_leaves_no_hole() {
    let parameters = drive(r#"{"capacity_bytes": 1000000000}"#);
    let (capacity, tr_ns) = (parameters.capacity_bytes, (parameters.read_us * 1e3) as u64);
    let mut session = Session::simulated(parameters, 1, 4, 32).unwrap();
    step(&mut session, &at(sequential(128 * KIB, 0.0), 4, 32), Stop::Bytes { bytes: capacity });
    // The last pages are on their way from the buffer to the flash.
    session.control(Control::WriteCache(true)).unwrap();
    let pass = step(&mut session, &sequential(4096, 100.0), Stop::Bytes { bytes: capacity });
    assert_eq!(pass.recorder.read.bytes, capacity);
    assert!(pass.recorder.read.histogram().min() > tr_ns, "a hole would be answered without a die");
}

// Timed steps

#[test]
fn the_window_of_a_timed_step_is_what_was_asked() {
    let mut session = simulated(1, 4, 32);
    for ns in [1, 999, MILLISECOND, 250 * MILLISECOND, 2 * SECOND + 1] {
        let result = step(&mut session, &at(random(4096, 65.0), 4, 32), Stop::Time { ns });
        assert_sound(&result);
        assert_eq!((result.window_ns, result.reason), (ns, StopReason::Complete));
        // 128 outstanding at the end, except those that end with it.
        assert!(result.recorder.late_ios <= 128);
    }
    let mut session = null(2, 4);
    for ns in [5 * MILLISECOND, 20 * MILLISECOND] {
        let began = Instant::now();
        let result = step(&mut session, &at(random(4096, 65.0), 2, 4), Stop::Time { ns });
        assert_sound(&result);
        assert_eq!(result.window_ns, ns);
        assert!(began.elapsed() >= Duration::from_nanos(ns));
    }
}

/// Little's law, a check of everything at once: outstanding = rate x mean response time. It fails if the queues run
/// below or above their depth, if I/Os are lost or counted twice, or if a latency misses a part.
#[test]
fn outstanding_is_rate_times_response_time() {
    let mut session = simulated(1, 8, 64);
    step(&mut session, &at(sequential(128 * KIB, 0.0), 8, 64), Stop::Bytes { bytes: 500 * MIB });
    for (threads, depth) in [(1, 1), (1, 32), (4, 32), (8, 64), (3, 7), (2, 1), (8, 1)] {
        for read_percent in [100.0, 65.0, 0.0] {
            // The rate counts what ends in the window, the mean what begins in it: a share of latency / window is open.
            let long_enough = seconds(f64::max(12.0, 0.06 * f64::from(threads * depth)));
            let result = step(&mut session, &at(random(4096, read_percent), threads, depth), long_enough);
            assert_sound(&result);
            let outstanding = iops(&result) / 1e9 * mean_latency_ns(&result);
            let off = outstanding / f64::from(threads * depth) - 1.0;
            println!("T{threads}Q{depth}, {read_percent} % reads: {:+.4} %", 100.0 * off);
            assert!(off.abs() < 0.001, "T{threads}Q{depth}, {read_percent} % reads: {outstanding:.4} outstanding");
        }
    }
}

/// The change of depth takes effect within the step: neither the old nor the new one lingers.
#[test]
fn depth_and_threads_change_from_step_to_step() {
    let mut session = simulated(1, 8, 64);
    let alone = mean_latency_ns(&step(&mut session, &random(4096, 100.0), seconds(0.5)));
    // The preset's link: 4.7 us and 506 MB/s.
    let service = 4700.0 + 4096.0 * 1e3 / 506.0;
    for (threads, depth) in [(8, 64), (1, 1), (2, 1), (1, 2), (4, 8), (1, 1)] {
        let result = step(&mut session, &at(random(4096, 100.0), threads, depth), seconds(0.5));
        assert_sound(&result);
        let max = result.recorder.read.histogram().max() as f64;
        // Nothing was written: the link serves one read after the other, so the longest waits for all others.
        let longest = alone + f64::from(threads * depth) * service;
        assert!(max <= longest * 1.002, "T{threads}Q{depth}: {max} ns, not {longest}");
        let outstanding = iops(&result) / 1e9 * mean_latency_ns(&result);
        assert!((outstanding / f64::from(threads * depth) - 1.0).abs() < 0.002, "{outstanding} outstanding");
    }
}

/// Promise 1. The first step has nothing before it; after an idle the gap is the idle time.
#[test]
fn timed_steps_follow_without_a_gap() {
    let mut session = simulated(1, 4, 32);
    let first = step(&mut session, &at(random(4096, 0.0), 4, 32), seconds(0.2));
    assert_eq!((first.gap_ns, first.bridge_ios, first.handover_ns), (None, 0, 0));
    for (threads, depth, block) in [(4, 32, 4096), (1, 1, MIB), (4, 32, 512), (2, 16, 128 * KIB)] {
        let result = step(&mut session, &at(random(block, 35.0), threads, depth), seconds(0.2));
        assert_eq!(result.gap_ns, Some(0));
        assert!(result.bridge_ios > 0, "the device was kept loaded until the step before had reported");
        assert!(result.handover_ns > 0, "the window waits for them");
        assert_sound(&result);
    }
    session.idle(SECOND).unwrap();
    let after = step(&mut session, &at(random(4096, 0.0), 4, 32), seconds(0.2));
    assert_eq!((after.gap_ns, after.handover_ns), (Some(SECOND), 0));
}

/// HIR: nothing is sent after a burst, on either clock, and the idle time runs from the last completion.
#[test]
fn nothing_follows_a_burst() {
    let mut session = simulated(1, 4, 32);
    let burst = Stop::Burst { ns: SECOND / 10 };
    for number in 0..3 {
        let result = step(&mut session, &at(random(4096, 0.0), 4, 32), burst);
        assert_eq!((result.window_ns, result.bridge_ios, result.handover_ns), (SECOND / 10, 0, 0));
        assert_eq!(result.submitted_ios, result.recorder.ios(), "every I/O is the burst's own");
        assert_eq!(result.gap_ns, (number > 0).then_some(5 * SECOND));
        assert_sound(&result);
        session.idle(5 * SECOND).unwrap();
    }
    let mut session = null(2, 4);
    for _ in 0..3 {
        step(&mut session, &at(random(4096, 0.0), 2, 4), Stop::Burst { ns: 5 * MILLISECOND });
        std::thread::sleep(Duration::from_millis(5));
        session.idle(5 * MILLISECOND).unwrap();
        let after = step(&mut session, &at(random(4096, 0.0), 2, 4), Stop::Burst { ns: MILLISECOND });
        assert_eq!(after.bridge_ios, 0);
        assert!(after.gap_ns.unwrap() >= 10 * MILLISECOND, "{:?}", after.gap_ns);
        assert_sound(&after);
    }
}

/// Total bytes written are exact whatever the windows leave out.
#[test]
fn written_bytes_add_up_over_steps() {
    let mut session = simulated(1, 4, 32);
    let mut written = 0;
    for (threads, depth, reads) in [(4, 32, 0.0), (1, 1, 50.0), (4, 8, 0.0)] {
        written += step(&mut session, &at(random(4096, reads), threads, depth), seconds(0.1)).written_bytes;
    }
    let last = step(&mut session, &at(sequential(4096, 0.0), 1, 1), Stop::Bytes { bytes: 4096 * 1009 });
    written += last.written_bytes;
    let mut other = simulated(1, 4, 32);
    let mut counted = 0;
    for (threads, depth, reads) in [(4, 32, 0.0), (1, 1, 50.0), (4, 8, 0.0)] {
        let result = step(&mut other, &at(random(4096, reads), threads, depth), seconds(0.1));
        counted += result.recorder.write.window_bytes;
    }
    assert!(written > counted + 4096 * 1009, "the windows leave out what is handed over");
    assert!(last.written_bytes >= 4096 * 1009);
    let alone = step(&mut simulated(1, 1, 1), &at(random(4096, 0.0), 1, 1), Stop::Ios { ios: 1009 });
    assert_eq!(alone.written_bytes, 1009 * 4096);
}

/// Tables 13-1 and 13-2 can be verified: every I/O of a step is counted under what it was drawn as.
#[test]
fn draws_are_counted_by_block_size_and_lba_group() {
    let groups = vec![group(0.0, 5.0, 50.0), group(5.0, 20.0, 30.0), group(20.0, 100.0, 20.0)];
    let share = |bytes, weight| BlockShare { bytes, weight };
    let stimulus = Stimulus {
        access: Access::Groups { groups },
        block_sizes: vec![share(512, 4), share(1024, 0), share(4096, 86), share(65536, 10)],
        ..random(4096, 40.0)
    };
    let ios = 100_003;
    for mut session in [simulated(1, 4, 32), null(4, 8)] {
        let result = step(&mut session, &at(stimulus.clone(), 4, 8), Stop::Ios { ios });
        for (counts, percents) in
            [(&result.recorder.size_ios, [4.0, 86.0, 10.0]), (&result.recorder.group_ios, [50.0, 30.0, 20.0])]
        {
            assert_eq!(counts.iter().sum::<u64>(), ios);
            for (&count, percent) in counts.iter().zip(percents) {
                assert_share(count, ios, percent / 100.0, "drawn");
            }
        }
    }
    let plain = step(&mut simulated(1, 1, 1), &at(random(4096, 0.0), 1, 1), Stop::Ios { ios: 7 });
    assert!(plain.recorder.size_ios.is_empty() && plain.recorder.group_ios.is_empty());
}

/// The real clock: bridge I/Os keep the device busy while the next step is being thought about.
#[test]
fn the_null_device_is_kept_loaded_between_steps() {
    let mut session = null(2, 4);
    step(&mut session, &at(random(4096, 0.0), 2, 4), Stop::Time { ns: 5 * MILLISECOND });
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(5));
        let result = step(&mut session, &at(random(4096, 0.0), 2, 4), Stop::Time { ns: 5 * MILLISECOND });
        assert_eq!(result.gap_ns, Some(0));
        assert!(result.bridge_ios > 100);
        assert_sound(&result);
    }
}

// Interruption and misuse

#[test]
fn an_interrupted_step_ends_at_once_and_says_so() {
    for mut session in [null(4, 32), simulated(1, 4, 32)] {
        // Both would run for hours.
        for stop in [seconds(1e6), Stop::Ios { ios: 1 << 50 }] {
            session.start(at(random(4096, 65.0), 4, 32), stop, SECOND, true).unwrap();
            assert!(session.wait(Duration::from_millis(20)).unwrap().is_none(), "it is under way");
            let began = Instant::now();
            session.interrupt();
            let result = finish(&mut session);
            assert!(began.elapsed() < Duration::from_millis(200));
            assert_eq!(result.reason, StopReason::Interrupted);
            assert!(result.recorder.ios() > 0 && result.window_ns > 0);
            assert_sound(&result);
        }
        // And is over: the next one runs to its end.
        let next = step(&mut session, &at(random(4096, 65.0), 4, 32), Stop::Ios { ios: PRIME });
        assert_eq!((next.reason, next.recorder.ios()), (StopReason::Complete, PRIME));
    }
}

#[test]
fn a_session_is_dropped_in_the_middle_of_a_step() {
    for mut session in [null(4, 32), simulated(1, 4, 32)] {
        session.start(at(random(4096, 65.0), 4, 32), seconds(1e6), SECOND, true).unwrap();
        let began = Instant::now();
        drop(session);
        assert!(began.elapsed() < Duration::from_millis(200));
    }
}

#[test]
fn progress_is_seen_while_a_step_runs() {
    let mut session = null(2, 4);
    session.start(at(random(4096, 65.0), 2, 4), seconds(1e6), SECOND, true).unwrap();
    let mut seen = (0, 0);
    for _ in 0..3 {
        // On a busy machine it may take a while until both threads run.
        let until = Instant::now() + Duration::from_secs(20);
        let mut now = session.progress();
        while (now.0 <= seen.0 || now.1 <= seen.1) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            now = session.progress();
        }
        assert!(now.0 > seen.0 && now.1 > seen.1, "{now:?} after {seen:?}");
        seen = now;
    }
    session.interrupt();
    let result = finish(&mut session);
    assert!(result.recorder.ios() >= seen.0);
}

#[test]
fn one_step_at_a_time() {
    let mut session = simulated(1, 1, 1);
    let stimulus = random(4096, 0.0);
    session.start(stimulus.clone(), seconds(1e6), SECOND, true).unwrap();
    assert!(matches!(session.start(stimulus.clone(), seconds(1.0), SECOND, true), Err(Error::Busy)));
    assert!(matches!(session.idle(1), Err(Error::Busy)));
    assert!(matches!(session.control(Control::Purge), Err(Error::Busy)));
    session.interrupt();
    assert_eq!(finish(&mut session).reason, StopReason::Interrupted);
    assert!(session.wait(Duration::ZERO).is_err(), "there is nothing to wait for");
    step(&mut session, &stimulus, Stop::Ios { ios: 3 });
    session.close();
    assert!(matches!(session.start(stimulus, seconds(1.0), SECOND, true), Err(Error::Closed)));
    assert!(matches!(session.idle(1), Err(Error::Closed)));
}

#[test]
fn what_the_session_was_not_opened_for_is_refused() {
    let mut session = null(2, 4);
    let good = at(random(4096, 50.0), 2, 4);
    let mut refused = |stimulus: Stimulus, stop, interval_ns| match session.start(stimulus, stop, interval_ns, true) {
        Err(Error::Stimulus(error)) => error,
        other => panic!("{other:?}"),
    };
    let over = |what, asked, limit| StimulusError::OverLimit { what, asked, limit };
    let second = seconds(1.0);
    assert_eq!(refused(at(good.clone(), 3, 4), second, SECOND), over("thread_count", 3, 2));
    assert_eq!(refused(at(good.clone(), 2, 5), second, SECOND), over("queue_depth", 5, 4));
    assert_eq!(refused(good.clone(), second, 0), StimulusError::Zero("interval_ns"));
    for (stop, name) in [
        (Stop::Time { ns: 0 }, "the step's time"),
        (Stop::Ios { ios: 0 }, "the step's number of I/Os"),
        (Stop::Bytes { bytes: 0 }, "the step's number of 512-byte sectors"),
    ] {
        assert_eq!(refused(good.clone(), stop, SECOND), StimulusError::Zero(name));
    }
    assert_eq!(refused(good.clone(), Stop::Bytes { bytes: 1000 }, SECOND), StimulusError::BlockSize(1000));
    assert_eq!(refused(at(good.clone(), 0, 1), second, SECOND), StimulusError::Zero("thread_count"));
    // Every thread's region must hold a block.
    let wide = at(sequential(GIB * 3 / 4, 0.0), 2, 1);
    assert!(matches!(refused(wide, second, SECOND), StimulusError::RangeTooSmall { .. }));
    assert!(matches!(refused(random(2 * GIB, 0.0), second, SECOND), StimulusError::RangeTooSmall { .. }));
    // After all these it still works.
    assert_eq!(step(&mut session, &good, Stop::Ios { ios: PRIME }).recorder.ios(), PRIME);
    assert!(matches!(session.control(Control::Purge), Err(Error::Target(_))), "the null device has no state");
    assert_eq!(step(&mut session, &good, Stop::Ios { ios: PRIME }).recorder.ios(), PRIME);
}

/// Durations past the end of the clock: refused, or run; but no worker may be lost to them.
#[test]
fn absurd_durations_lose_no_worker() {
    let mut session = simulated(1, 1, 1);
    let stimulus = random(4096, 100.0);
    step(&mut session, &stimulus, Stop::Ios { ios: 10 });
    if session.start(stimulus.clone(), Stop::Time { ns: u64::MAX }, SECOND, true).is_ok() {
        session.interrupt();
        let ended = session.wait(Duration::from_secs(10));
        assert!(matches!(ended, Ok(Some(_))), "{:?}", ended.err());
    }
    assert_eq!(step(&mut session, &stimulus, Stop::Ios { ios: 10 }).recorder.ios(), 10);
}

// Determinism and state

/// A sequence with everything in it; all that can be told of its results.
fn history(seed: u64) -> Vec<String> {
    let mut session = simulated(seed, 4, 32);
    let mut mixed = at(random(4096, 65.0), 4, 32);
    mixed.block_sizes.extend([512, 65536].map(|bytes| BlockShare { bytes, weight: 2 }));
    let groups = vec![group(0.0, 5.0, 50.0), group(5.0, 20.0, 30.0), group(20.0, 100.0, 20.0)];
    let steps = [
        (at(sequential(128 * KIB, 0.0), 4, 32), Stop::Bytes { bytes: 1_000_000_000 / 512 * 512 }),
        (mixed, seconds(1.5)),
        (at(stimulus(Access::Groups { groups }, 8192, 5.0), 2, 7), seconds(1.0)),
        (random(4096, 50.0), Stop::Ios { ios: PRIME }),
    ];
    let mut results = vec![];
    for (index, (stimulus, stop)) in steps.iter().enumerate() {
        let result = step(&mut session, stimulus, *stop);
        assert_sound(&result);
        let times = (result.window_ns, result.handover_ns, result.submitted_ios, result.bridge_ios, result.gap_ns);
        let recorder = &result.recorder;
        let histogram = |tally: &flashgauge_core::recorder::Tally| {
            let histogram = tally.histogram();
            let counts = histogram.iter_recorded();
            let counts: Vec<_> = counts.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
            format!("{counts:?} {} {} {}", tally.bytes, tally.window_ios, tally.latency_sum_ns)
        };
        let (read, write) = (histogram(&recorder.read), histogram(&recorder.write));
        let rest = (&recorder.intervals, recorder.handover_ios, recorder.late_ios, recorder.start());
        results.push(format!("{times:?} {read} {write} {rest:?}"));
        match index {
            1 => session.idle(SECOND / 3).unwrap(),
            2 => session.control(Control::WriteCache(false)).unwrap(),
            _ => {}
        }
    }
    results
}

/// Promise 10: same seed, same result, to the last bit.
#[test]
fn the_same_seed_gives_the_same_results() {
    let first = history(7);
    assert_eq!(history(7), first);
    let other = history(8);
    assert_eq!(other[0], first[0], "sequential writes draw nothing");
    assert!(other[1..].iter().zip(&first[1..]).all(|(other, first)| other != first));
}

#[test]
fn a_purge_makes_the_drive_fresh_again() {
    let mut session = simulated(1, 1, 1);
    let reads = random(4096, 100.0);
    let longest = |session: &mut Session| step(session, &reads, Stop::Ios { ios: 100 }).recorder.read.histogram().max();
    let fresh = longest(&mut session);
    step(&mut session, &sequential(MIB, 0.0), Stop::Bytes { bytes: 1_000_000_000 / 512 * 512 });
    let used = longest(&mut session);
    assert!(used > fresh + 40_000, "a written drive reads from flash: {used} ns, fresh {fresh} ns");
    session.control(Control::Purge).unwrap();
    assert_eq!(longest(&mut session), fresh);
}

#[test]
fn the_write_cache_is_switched() {
    let parameters = drive(r#"{"capacity_bytes": 1000000000, "power_loss_protection": false}"#);
    let program_ns = parameters.program_us * 1e3;
    let mut session = Session::simulated(parameters, 1, 1, 1).unwrap();
    let mut mean = |enabled| {
        session.control(Control::WriteCache(enabled)).unwrap();
        mean_latency_ns(&step(&mut session, &random(4096, 0.0), Stop::Ios { ios: 500 }))
    };
    let (on, off, again) = (mean(true), mean(false), mean(true));
    assert!(off > program_ns, "{off} ns");
    assert!(on < program_ns / 10.0 && again < program_ns / 10.0, "{on} and {again} ns");
}

/// An idle is time on the device's clock: programs under way end in it, so the buffer is empty after it.
#[test]
fn idling_lets_the_drive_finish() {
    let mut session = simulated(1, 4, 32);
    let burst = at(random(4096, 0.0), 4, 32);
    // The rate of a burst that fits the buffer, on an empty one, on a full one, and after a rest.
    let rate = |session: &mut Session| iops(&step(session, &burst, Stop::Ios { ios: 200 }));
    let empty = rate(&mut session);
    step(&mut session, &at(random(4096, 0.0), 4, 32), seconds(1.0));
    let full = rate(&mut session);
    session.idle(SECOND).unwrap();
    let rested = rate(&mut session);
    assert!(rested > 0.98 * empty && full < 0.9 * empty, "empty {empty}, full {full}, rested {rested}");
}

/// Pre-conditioning: its bytes are exact, and the device is kept loaded after them.
#[test]
fn a_fill_counts_exactly_its_bytes_and_leaves_no_gap() {
    let mut session = null(2, 4);
    let fill = step(&mut session, &at(sequential(4096, 0.0), 2, 4), Stop::Fill { bytes: 10_007 * 4096 });
    assert_eq!((fill.recorder.write.ios, fill.recorder.write.bytes), (10_007, 10_007 * 4096));
    std::thread::sleep(Duration::from_millis(5));
    let next = step(&mut session, &at(random(4096, 0.0), 2, 4), Stop::Ios { ios: 100 });
    assert!(next.bridge_ios > 100);
    assert_eq!(next.gap_ns, Some(0));
    assert_eq!(next.recorder.write.ios, 100);
}

/// A drive that serves reads first, and has reads without end, would never return the writes of the step before.
#[test]
fn a_hand_over_ends_also_when_the_old_ios_are_starved() {
    let parameters =
        drive(r#"{"capacity_bytes": 67108864, "dies": 1, "channels": 1, "read_priority": true, "queue_slots": 200}"#);
    let mut session = Session::simulated(parameters, 1, 4, 32).expect("a small drive");
    step(&mut session, &at(sequential(128 * KIB, 0.0), 4, 32), Stop::Bytes { bytes: 67_108_864 });
    for (block, read) in [(4096, 0.0), (MIB, 100.0), (64 * KIB, 0.0), (MIB, 100.0)] {
        let result = step(&mut session, &at(random(block, read), 4, 32), seconds(1.0));
        assert!(result.handover_ns < 60 * SECOND, "the hand-over took {} ns", result.handover_ns);
        assert!(result.recorder.read.window_ios + result.recorder.write.window_ios > 0);
    }
}

/// A ring without a device: all goes through the kernel, and comes back.
#[test]
fn no_ops_come_back_from_the_ring() {
    let mut session = match Session::nop(Bytes(GIB), 1, 2, 32) {
        Ok(session) => session,
        Err(why) => return println!("skipped: {why}"),
    };
    for (threads, depth) in [(1, 1), (2, 7), (2, 32)] {
        let result = step(&mut session, &at(random(4096, 65.0), threads, depth), Stop::Ios { ios: PRIME });
        assert_sound(&result);
        assert_eq!((result.submitted_ios, result.recorder.ios()), (PRIME, PRIME));
    }
    let timed = step(&mut session, &at(random(4096, 100.0), 1, 32), seconds(0.05));
    assert_sound(&timed);
    assert!(timed.recorder.ios() > 0);
}
