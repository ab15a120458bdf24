//! The recorder against raw latencies, sorted and counted by hand.

mod support;

use flashgauge_core::recorder::{ErrorTally, Interval, Recorder, latency_histogram};
use flashgauge_core::units::{Bytes, Nanos};
use flashgauge_core::workload::Operation::{self, Read, Write};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::support::*;

/// One completion, as the engine reports it.
#[derive(Debug, Clone, Copy)]
struct Io {
    operation: Operation,
    bytes: u64,
    submitted: u64,
    completed: u64,
}

fn recorder(start: u64, end: u64, interval: u64) -> Recorder {
    let mut recorder = Recorder::new(interval);
    recorder.open(Nanos(start), Nanos(end));
    recorder
}

fn record(recorder: &mut Recorder, io: Io) {
    recorder.record(io.operation, Bytes(io.bytes), Nanos(io.submitted), Nanos(io.completed));
}

fn read(submitted: u64, completed: u64) -> Io {
    Io { operation: Read, bytes: 4096, submitted, completed }
}

/// What must be the same in two records, in a form that compares.
fn contents(recorder: &Recorder) -> impl PartialEq + std::fmt::Debug + use<> {
    let tally = |tally: &flashgauge_core::recorder::Tally| {
        let counters = (tally.ios, tally.bytes, tally.window_ios, tally.window_bytes, tally.latency_sum_ns);
        let counts: Vec<_> =
            tally.histogram().iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        (counters, tally.histogram().min(), tally.histogram().max(), counts)
    };
    let mut errors: Vec<_> = recorder.errors.iter().map(|e| (e.operation == Read, e.errno, e.ios)).collect();
    errors.sort_unstable();
    let others = (recorder.handover_ios, recorder.late_ios, recorder.interval_ns());
    (tally(&recorder.read), tally(&recorder.write), recorder.intervals.clone(), errors, others)
}

/// Latencies of one kind of drive: most near the middle, a tail, a few stalls.
fn latencies(seed: u64, count: usize, middle_ns: f64, spread: f64) -> Vec<u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let one = |_| {
        // The sum of twelve uniform numbers is nearly normal; its exponential has the long tail of real latencies.
        let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let stall = if uniform() < 1e-4 { 1000.0 } else { 1.0 };
        (middle_ns * (spread * normal).exp() * stall) as u64 + 1
    };
    (0..count).map(one).collect()
}

#[test]
fn quantiles_are_those_of_the_sorted_latencies() {
    for (seed, middle, spread) in [(1, 90e3, 0.3), (2, 2e6, 1.5), (3, 300.0, 0.5), (4, 5e9, 2.0)] {
        let raw = latencies(seed, 200_000, middle, spread);
        let mut recorder = recorder(0, u64::MAX, SECOND);
        let mut clock = raw.iter().max().copied().unwrap();
        for &latency in &raw {
            clock += 1;
            record(&mut recorder, read(clock - latency, clock));
        }
        let mut sorted = raw.clone();
        sorted.sort_unstable();
        let histogram = &recorder.read.histogram();
        for quantile in [0.0, 1e-4, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0] {
            let rank = ((quantile * raw.len() as f64).ceil() as usize).max(1);
            let (exact, ours) = (sorted[rank - 1] as f64, histogram.value_at_quantile(quantile) as f64);
            assert!((ours / exact - 1.0).abs() <= 1e-3, "quantile {quantile}: {ours} for {exact} (seed {seed})");
        }
        assert!((histogram.max() as f64 / sorted[raw.len() - 1] as f64 - 1.0).abs() <= 1e-3, "MRT");
        // The average comes from the sum and is exact.
        assert_eq!(recorder.read.latency_sum_ns, raw.iter().sum::<u64>());
        assert_eq!((recorder.read.ios, histogram.len()), (200_000, 200_000));
        assert_eq!((recorder.write.ios, recorder.write.histogram().len()), (0, 0));
    }
}

/// 2.4.1 asks for five nines of the window: from merged histograms, which must not lose the tail of any part.
#[test]
fn quantiles_of_merged_threads_are_those_of_all_latencies() {
    let parts: Vec<Vec<u64>> = (0..5).map(|seed| latencies(seed, 50_021, 1e5 * (1 + seed) as f64, 0.4)).collect();
    let mut merged = recorder(0, u64::MAX, SECOND);
    for part in &parts {
        let mut own = recorder(0, u64::MAX, SECOND);
        part.iter().for_each(|&latency| record(&mut own, read(SECOND, SECOND + latency)));
        merged.merge(&own);
    }
    let mut sorted = parts.concat();
    sorted.sort_unstable();
    assert_eq!(merged.read.histogram().len(), 5 * 50_021);
    for quantile in [0.01, 0.5, 0.99, 0.99999] {
        let exact = sorted[(quantile * sorted.len() as f64).ceil() as usize - 1] as f64;
        let ours = merged.read.histogram().value_at_quantile(quantile) as f64;
        assert!((ours / exact - 1.0).abs() <= 1e-3, "quantile {quantile}: {ours} for {exact}");
    }
}

#[test]
fn long_latencies_do_not_saturate() {
    let minute = 60 * SECOND;
    let mut long = recorder(0, u64::MAX, minute);
    // The histogram begins with ten minutes of room: at, just above, hours, days above.
    let latencies = [1, 10 * minute, 10 * minute + SECOND, 3 * 60 * minute, 40 * 24 * 60 * minute];
    let mut clock = 0;
    for latency in latencies {
        clock += latency;
        record(&mut long, read(clock - latency, clock));
    }
    assert_eq!(long.read.histogram().len(), 5);
    for (rank, latency) in latencies.into_iter().enumerate() {
        let ours = long.read.histogram().value_at_quantile((rank + 1) as f64 / 5.0) as f64;
        assert!((ours / latency as f64 - 1.0).abs() <= 1e-3, "{ours} for {latency}");
    }
    assert_eq!(long.read.latency_sum_ns, latencies.iter().sum::<u64>());
    // A histogram that has grown and one that has not merge both ways.
    let mut short = recorder(0, u64::MAX, minute);
    record(&mut short, read(5, 10));
    let mut both = short.clone();
    both.merge(&long);
    long.merge(&short);
    assert_eq!(contents(&both), contents(&long));
    assert_eq!(both.read.histogram().len(), 6);
    assert!(latency_histogram().is_auto_resize());
}

#[test]
fn a_latency_of_zero_counts() {
    let mut recorder = recorder(0, u64::MAX, SECOND);
    record(&mut recorder, read(7, 7));
    assert_eq!((recorder.read.ios, recorder.read.histogram().len(), recorder.read.latency_sum_ns), (1, 1, 0));
}

/// Which I/Os belong to a window of 1000..=2000 ns: each case at both sides of each bound.
#[test]
fn the_windows_bounds() {
    // submitted, completed; measured (in the histogram), in the window, hand-over, late
    let cases = [
        (900, 999, [0, 0, 1, 0]),
        (999, 1000, [0, 1, 1, 0]),
        (999, 2000, [0, 1, 1, 0]),
        (999, 2001, [0, 0, 1, 0]),
        (1000, 1000, [1, 1, 0, 0]),
        (1000, 1500, [1, 1, 0, 0]),
        (1500, 2000, [1, 1, 0, 0]),
        (1500, 2001, [1, 0, 0, 1]),
        (2000, 9000, [1, 0, 0, 1]),
    ];
    for (submitted, completed, expected) in cases {
        for operation in [Read, Write] {
            let mut recorder = recorder(1000, 2000, 100);
            record(&mut recorder, Io { operation, bytes: 512, submitted, completed });
            let (own, other) =
                if operation == Read { (&recorder.read, &recorder.write) } else { (&recorder.write, &recorder.read) };
            let counted = [own.ios, own.window_ios, recorder.handover_ios, recorder.late_ios];
            assert_eq!(counted, expected, "{operation:?} from {submitted} to {completed}");
            assert_eq!([own.bytes, own.window_bytes], [512 * own.ios, 512 * own.window_ios]);
            assert_eq!(own.histogram().len(), own.ios);
            assert_eq!((other.ios, other.window_ios, recorder.ios()), (0, 0, own.ios));
            let window: u64 = recorder.intervals.iter().map(|i| i.read_ios + i.write_ios).sum();
            assert_eq!(window, own.window_ios, "the series is the window's");
        }
    }
}

/// What completes before the window opens is of the hand-over, although nobody knows yet when it will open.
#[test]
fn before_the_window_opens_nothing_is_counted_in_it() {
    let mut recorder = Recorder::new(100);
    record(&mut recorder, read(10, 90));
    assert_eq!((recorder.start(), recorder.handover_ios, recorder.ios()), (Nanos::MAX, 1, 0));
    recorder.open(Nanos(100), Nanos(300));
    record(&mut recorder, read(50, 150));
    record(&mut recorder, read(150, 250));
    recorder.finish(Nanos(300));
    assert_eq!((recorder.handover_ios, recorder.ios(), recorder.read.window_ios), (2, 1, 2));
    let handed_over = Interval { read_ios: 1, read_bytes: 4096, ..Default::default() };
    let measured = Interval { latency_ios: 1, latency_sum_ns: 100, latency_max_ns: 100, ..handed_over };
    assert_eq!(recorder.intervals, [handed_over, measured]);
}

#[test]
fn finish_pads_the_series_and_cuts_nothing() {
    for (end, interval, expected) in [(1000, 100, 10), (1001, 100, 11), (1099, 100, 11), (50, 100, 1), (0, 100, 0)] {
        let mut recorder = recorder(5000, 5000 + end, interval);
        recorder.finish(Nanos(5000 + end));
        assert_eq!(recorder.intervals, vec![Interval::default(); expected], "{end} ns");
    }
    let mut recorder = recorder(0, 1000, 100);
    record(&mut recorder, read(10, 250));
    recorder.finish(Nanos(1000));
    assert_eq!(recorder.intervals.len(), 10);
    assert_eq!(recorder.intervals[2].read_ios, 1);
    recorder.finish(Nanos(300));
    assert_eq!(recorder.intervals.len(), 10, "finishing earlier takes no completion away");
}

#[test]
fn errors_are_counted_by_kind_and_are_in_no_latency() {
    let mut recorder = recorder(0, u64::MAX, SECOND);
    for (operation, errno, lba) in [(Read, 5, 70), (Write, 5, 80), (Read, 5, 60), (Read, 121, 90)] {
        recorder.record_error(operation, errno, lba);
    }
    let tally = |operation, errno, ios, first_lba| ErrorTally { operation, errno, ios, first_lba };
    assert_eq!(recorder.errors, [tally(Read, 5, 2, 70), tally(Write, 5, 1, 80), tally(Read, 121, 1, 90)]);
    assert_eq!((recorder.error_ios(), recorder.ios(), recorder.read.histogram().len()), (4, 0, 0));
    let mut merged = recorder.clone();
    merged.merge(&recorder);
    assert_eq!(merged.error_ios(), 8);
    assert_eq!(merged.errors[0], tally(Read, 5, 4, 70));
}

#[test]
#[should_panic(expected = "share the interval")]
fn records_of_different_intervals_do_not_merge() {
    recorder(0, 100, 10).merge(&recorder(0, 100, 20));
}

const START: u64 = 10_000;

/// Completions in order of time, some of them from before the window, some after its end, on several threads.
fn ios() -> impl Strategy<Value = Vec<(Io, usize)>> {
    let one = (any::<bool>(), 1u64..=16, 0u64..3000, 0u64..400, 0usize..4);
    prop::collection::vec(one, 0..400).prop_map(|drawn| {
        let mut clock = START - 2000;
        let io = |(write, sectors, latency, step, thread)| {
            clock += step;
            let operation = if write { Write } else { Read };
            (Io { operation, bytes: sectors * 512, submitted: clock - latency, completed: clock }, thread)
        };
        drawn.into_iter().map(io).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Promise 4: merged records are the record of everything, to the last counter.
    #[test]
    fn merging_is_exact(ios in ios(), length in 1u64..60_000, interval in 1u64..5000, failed in any::<[u8; 4]>()) {
        let new = || recorder(START, START + length, interval);
        let (mut whole, mut parts) = (new(), [new(), new(), new(), new()]);
        for &(io, thread) in &ios {
            record(&mut whole, io);
            record(&mut parts[thread], io);
        }
        for (thread, errno) in failed.into_iter().enumerate() {
            whole.record_error(Write, i32::from(errno % 3), 0);
            parts[thread].record_error(Write, i32::from(errno % 3), 0);
        }
        whole.finish(Nanos(START + length));
        parts.iter_mut().for_each(|part| part.finish(Nanos(START + length)));
        let [mut forward, b, c, mut backward] = parts.clone();
        [&b, &c, &parts[3]].into_iter().for_each(|part| forward.merge(part));
        [&c, &b, &parts[0]].into_iter().for_each(|part| backward.merge(part));
        prop_assert_eq!(contents(&forward), contents(&whole));
        prop_assert_eq!(contents(&backward), contents(&whole));
    }

    /// Each counter and each interval against a plain recount of the raw completions.
    // clause: 6.10
    #[test]
    fn counters_and_series_are_a_recount(ios in ios(), length in 1u64..60_000, interval in 1u64..5000) {
        let end = START + length;
        let mut recorder = recorder(START, end, interval);
        let mut series = vec![Interval::default(); length.div_ceil(interval) as usize];
        let (mut measured, mut early, mut late) = ([0; 2], 0, 0);
        for &(io, _) in &ios {
            record(&mut recorder, io);
            let own = io.submitted >= START;
            early += u64::from(!own);
            late += u64::from(own && io.completed > end);
            measured[usize::from(io.operation == Write)] += u64::from(own);
            if (START..=end).contains(&io.completed) {
                // The window's last instant belongs to its last interval.
                let last = series.len() - 1;
                let slot = &mut series[(((io.completed - START) / interval) as usize).min(last)];
                let (ios, bytes) = match io.operation {
                    Read => (&mut slot.read_ios, &mut slot.read_bytes),
                    Write => (&mut slot.write_ios, &mut slot.write_bytes),
                };
                *ios += 1;
                *bytes += io.bytes;
                if own {
                    slot.latency_ios += 1;
                    slot.latency_sum_ns += io.completed - io.submitted;
                    slot.latency_max_ns = slot.latency_max_ns.max(io.completed - io.submitted);
                }
            }
        }
        recorder.finish(Nanos(end));
        prop_assert_eq!([recorder.read.ios, recorder.write.ios], measured);
        prop_assert_eq!((recorder.handover_ios, recorder.late_ios), (early, late));
        prop_assert_eq!(recorder.ios() + recorder.handover_ios, ios.len() as u64, "each I/O is in one of the two");
        prop_assert_eq!(&recorder.intervals, &series);
        let sums = |of: fn(&Interval) -> u64| recorder.intervals.iter().map(of).sum::<u64>();
        prop_assert_eq!(sums(|i| i.read_ios), recorder.read.window_ios);
        prop_assert_eq!(sums(|i| i.write_ios), recorder.write.window_ios);
        prop_assert_eq!(sums(|i| i.read_bytes), recorder.read.window_bytes);
        prop_assert_eq!(sums(|i| i.write_bytes), recorder.write.window_bytes);
        prop_assert_eq!(sums(|i| i.latency_ios), recorder.ios() - recorder.late_ios);
    }
}
