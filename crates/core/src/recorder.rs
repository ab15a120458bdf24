//! Completions -> counters, HDR histogram, interval series. Nothing saturates; merging is exact.

mod latencies;

use hdrhistogram::Histogram;

use self::latencies::Latencies;
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Draw, Operation, Stimulus};

/// Three significant digits: relative error of a reported latency at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
/// First size of a histogram, ten minutes; longer latencies make it grow.
const FIRST_HIGHEST_NS: u64 = 600_000_000_000;

/// An empty latency histogram: 1 ns upwards, growing as needed.
pub fn latency_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, FIRST_HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds");
    histogram.auto(true);
    histogram
}

/// Reads or writes of one step.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Issued in the window, with their latencies.
    pub ios: u64,
    pub bytes: u64,
    /// Completed in the window, also if issued in the hand-over before it.
    pub window_ios: u64,
    pub window_bytes: u64,
    pub latency_sum_ns: u64,
    /// Exact, where the histogram knows three digits.
    pub latency_max_ns: u64,
    latencies: Latencies,
}

impl Tally {
    fn new() -> Self {
        Self {
            ios: 0,
            bytes: 0,
            window_ios: 0,
            window_bytes: 0,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            latencies: Latencies::new(),
        }
    }

    /// The latencies of all I/Os counted in `ios`.
    pub fn histogram(&self) -> Histogram<u64> {
        self.latencies.histogram()
    }

    #[inline]
    fn measure(&mut self, bytes: Bytes, latency: u64) {
        self.ios += 1;
        self.bytes += bytes.0;
        self.latency_sum_ns += latency;
        self.latency_max_ns = self.latency_max_ns.max(latency);
        self.latencies.record(latency);
    }

    fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.window_ios += other.window_ios;
        self.window_bytes += other.window_bytes;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.latencies.merge(&other.latencies);
    }
}

/// One interval of the series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interval {
    pub read_ios: u64,
    pub write_ios: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Of `latency_ios` I/Os: all but those of the hand-over.
    pub latency_ios: u64,
    pub latency_sum_ns: u64,
    pub latency_max_ns: u64,
}

impl Interval {
    fn merge(&mut self, other: &Self) {
        self.read_ios += other.read_ios;
        self.write_ios += other.write_ios;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.latency_ios += other.latency_ios;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
    }
}

/// Failed I/Os of one operation and errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorTally {
    pub operation: Operation,
    pub errno: i32,
    pub ios: u64,
    pub first_lba: u64,
}

/// Records one step of one thread, or of several after `merge`.
#[derive(Debug, Clone)]
pub struct Recorder {
    pub read: Tally,
    pub write: Tally,
    pub intervals: Vec<Interval>,
    pub errors: Vec<ErrorTally>,
    /// I/Os issued of each block size and in each LBA group, hand-over included; empty where there is but one.
    pub size_ios: Vec<u64>,
    pub group_ios: Vec<u64>,
    /// Issued before the window began, while I/Os of the step before were outstanding: those that complete in the
    /// window count there, but their latency is owed to both steps and is in no histogram.
    pub handover_ios: u64,
    /// Completed after the window's end: in the histogram, not in the window's counters.
    pub late_ios: u64,
    /// Open loop only: how long after its intended time each I/O was issued. Those given up when the window ended were
    /// never issued and are not in it: where there are any, its highest value bounds no I/O's wait.
    pub lateness: Option<Histogram<u64>>,
    /// `Nanos::MAX` until the window opens.
    start: Nanos,
    window_end: Nanos,
    interval_ns: u64,
    /// End of the interval last written to, so that the usual case needs no division.
    interval_end: u64,
}

impl Recorder {
    /// The window is closed until `open`. `interval_ns` > 0.
    pub fn new(interval_ns: u64) -> Self {
        assert!(interval_ns > 0, "an interval has a length");
        Self {
            read: Tally::new(),
            write: Tally::new(),
            intervals: vec![],
            errors: vec![],
            size_ios: vec![],
            group_ios: vec![],
            handover_ios: 0,
            late_ios: 0,
            lateness: None,
            start: Nanos::MAX,
            window_end: Nanos::MAX,
            interval_ns,
            interval_end: 0,
        }
    }

    /// Count what is drawn of the stimulus's block sizes and LBA groups, and in an open loop how late it is issued.
    pub fn counting_draws(mut self, stimulus: &Stimulus) -> Self {
        let sizes = stimulus.block_sizes.iter().filter(|share| share.weight > 0).count();
        let groups = if let Access::Groups { groups } = &stimulus.access { groups.len() } else { 1 };
        self.size_ios = vec![0; if sizes > 1 { sizes } else { 0 }];
        self.group_ios = vec![0; if groups > 1 { groups } else { 0 }];
        self.lateness = stimulus.rate.map(|_| latency_histogram());
        self
    }

    /// An I/O of an open loop was issued so long after its time.
    pub fn record_lateness(&mut self, ns: u64) {
        if let Some(lateness) = &mut self.lateness {
            lateness.record(ns).expect("the histogram grows");
        }
    }

    /// Whether there is more than one block size or LBA group to count.
    #[inline]
    pub fn counts_draws(&self) -> bool {
        !self.size_ios.is_empty() || !self.group_ios.is_empty()
    }

    pub fn count_draw(&mut self, draw: Draw) {
        if let Some(ios) = self.size_ios.get_mut(draw.size) {
            *ios += 1;
        }
        if let Some(ios) = self.group_ios.get_mut(draw.group) {
            *ios += 1;
        }
    }

    /// The window begins; `end` may be `Nanos::MAX`.
    pub fn open(&mut self, start: Nanos, end: Nanos) {
        self.start = start;
        self.window_end = end;
        self.interval_end = start.0;
    }

    /// A successful I/O; in an open loop `submitted` is when it was due. `completed` must not run backwards between calls.
    #[inline(always)]
    pub fn record(&mut self, operation: Operation, bytes: Bytes, submitted: Nanos, completed: Nanos) {
        if submitted < self.start || completed > self.window_end {
            return self.record_at_an_end(operation, bytes, submitted, completed);
        }
        let latency = completed.0 - submitted.0;
        let tally = self.tally(operation);
        tally.measure(bytes, latency);
        tally.window_ios += 1;
        tally.window_bytes += bytes.0;
        self.record_interval(operation, bytes, Some(latency), completed);
    }

    /// An I/O that is not issued and completed in the window.
    #[cold]
    fn record_at_an_end(&mut self, operation: Operation, bytes: Bytes, submitted: Nanos, completed: Nanos) {
        let latency = completed.0 - submitted.0;
        let measured = submitted >= self.start;
        let in_window = completed >= self.start && completed <= self.window_end;
        self.handover_ios += u64::from(!measured);
        self.late_ios += u64::from(measured && !in_window);
        let tally = self.tally(operation);
        if measured {
            tally.measure(bytes, latency);
        }
        if in_window {
            tally.window_ios += 1;
            tally.window_bytes += bytes.0;
            self.record_interval(operation, bytes, measured.then_some(latency), completed);
        }
    }

    #[inline]
    fn tally(&mut self, operation: Operation) -> &mut Tally {
        if operation == Operation::Read { &mut self.read } else { &mut self.write }
    }

    #[inline(always)]
    fn record_interval(&mut self, operation: Operation, bytes: Bytes, latency: Option<u64>, completed: Nanos) {
        while completed.0 >= self.interval_end && self.interval_end < self.window_end.0 {
            self.intervals.push(Interval::default());
            self.interval_end = self.interval_end.saturating_add(self.interval_ns).min(self.window_end.0);
        }
        let interval = self.intervals.last_mut().expect("the loop above opened it");
        if operation == Operation::Read {
            interval.read_ios += 1;
            interval.read_bytes += bytes.0;
        } else {
            interval.write_ios += 1;
            interval.write_bytes += bytes.0;
        }
        if let Some(latency) = latency {
            interval.latency_ios += 1;
            interval.latency_sum_ns += latency;
            interval.latency_max_ns = interval.latency_max_ns.max(latency);
        }
    }

    /// A failed I/O: counted, never part of a latency.
    pub fn record_error(&mut self, operation: Operation, errno: i32, lba: u64) {
        self.add_errors(&[ErrorTally { operation, errno, ios: 1, first_lba: lba }]);
    }

    pub fn add_errors(&mut self, errors: &[ErrorTally]) {
        for error in errors {
            match self.errors.iter_mut().find(|e| e.operation == error.operation && e.errno == error.errno) {
                Some(known) => known.ios += error.ios,
                None => self.errors.push(*error),
            }
        }
    }

    /// The window ended at `end`: intervals without completions up to then are part of the series.
    pub fn finish(&mut self, end: Nanos) {
        let intervals = end.since(self.start).div_ceil(self.interval_ns) as usize;
        if self.intervals.len() < intervals {
            self.intervals.resize(intervals, Interval::default());
        }
    }

    /// Add another thread's record of the same step. Each thread's series counts from the begin of its own window:
    /// the begins lie as far apart as the threads' hand-overs, and the merged window begins with the first.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.interval_ns, other.interval_ns, "records of one step share the interval");
        if other.ios() > 0 {
            self.start = self.start.min(other.start);
        }
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        for (mine, theirs) in [(&mut self.size_ios, &other.size_ios), (&mut self.group_ios, &other.group_ios)] {
            assert_eq!(mine.len(), theirs.len(), "records of one step share the stimulus");
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.handover_ios += other.handover_ios;
        self.late_ios += other.late_ios;
        if let (Some(mine), Some(theirs)) = (&mut self.lateness, &other.lateness) {
            mine.add(theirs).expect("both histograms grow");
        }
        if self.intervals.len() < other.intervals.len() {
            self.intervals.resize(other.intervals.len(), Interval::default());
        }
        for (mine, theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            mine.merge(theirs);
        }
        self.add_errors(&other.errors);
    }

    pub fn ios(&self) -> u64 {
        self.read.ios + self.write.ios
    }

    pub fn error_ios(&self) -> u64 {
        self.errors.iter().map(|error| error.ios).sum()
    }

    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Begin of the window; `Nanos::MAX` while it is not open.
    pub fn start(&self) -> Nanos {
        self.start
    }
}
