//! Latencies by size, counted in the same classes as in the HDR histogram that they become when a step is over. The
//! histogram's own way to count them does more, and took a tenth of the time of a simulated I/O.

use hdrhistogram::Histogram;

use super::latency_histogram;

/// Classes are of one size up to twice this, and of twice the size from each further power of two on: as in an HDR
/// histogram from 1 upwards with three significant digits.
const HALF: usize = 1024;

/// Up to 2^40 ns, 18 minutes; longer latencies make the table grow.
const FIRST_CLASSES: usize = HALF * 31;

#[derive(Debug, Clone)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    pub fn new() -> Self {
        Self(vec![0; FIRST_CLASSES])
    }

    /// A latency of 0 ns (coarse clocks) counts as the smallest value the histogram can tell apart.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let class = class_of(ns.max(1));
        match self.0.get_mut(class) {
            Some(count) => *count += 1,
            None => self.record_long(class),
        }
    }

    #[cold]
    fn record_long(&mut self, class: usize) {
        self.0.resize(class + 1, 0);
        self.0[class] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = latency_histogram();
        for (class, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.record_n(least_of(class), count).expect("the histogram grows");
        }
        histogram
    }
}

#[inline]
fn class_of(ns: u64) -> usize {
    // Powers of two above the classes of one size.
    let power = (ns | (2 * HALF as u64 - 1)).ilog2() - HALF.ilog2();
    (power as usize).wrapping_mul(HALF).wrapping_add(ns.wrapping_shr(power) as usize)
}

/// The smallest value of a class.
fn least_of(class: usize) -> u64 {
    let power = (class / HALF).saturating_sub(1);
    ((class - power * HALF) as u64) << power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram_of(values: &[u64]) -> Histogram<u64> {
        let mut histogram = latency_histogram();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    proptest! {
        /// Values of all sizes, and those at both ends of each power of two.
        #[test]
        fn classes_are_those_of_the_histogram(value in 1u64.., power in 0u32..64) {
            let value = (value >> power).max(1);
            for value in [value, 1 << power, (1 << power) + 1, u64::MAX >> power] {
                let (histogram, class) = (histogram_of(&[value]), class_of(value));
                prop_assert_eq!(least_of(class), histogram.lowest_equivalent(value));
                prop_assert_eq!(class_of(histogram.highest_equivalent(value)), class);
                prop_assert_eq!(class_of(histogram.lowest_equivalent(value)), class);
            }
        }

        #[test]
        fn counts_become_the_histogram_of_what_was_counted(
            values in proptest::collection::vec((1u64.., 0u32..64), 1..50), cut: prop::sample::Index,
        ) {
            let values: Vec<u64> = values.into_iter().map(|(value, power)| (value >> power).max(1)).collect();
            let (mut first, mut second) = (Latencies::new(), Latencies::new());
            let cut = cut.index(values.len());
            values[..cut].iter().for_each(|value| first.record(*value));
            values[cut..].iter().for_each(|value| second.record(*value));
            first.merge(&second);
            let (ours, theirs) = (first.histogram(), histogram_of(&values));
            prop_assert_eq!((ours.len(), ours.min(), ours.max()), (theirs.len(), theirs.min(), theirs.max()));
            let counts = |histogram: &Histogram<u64>| {
                histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect::<Vec<_>>()
            };
            prop_assert_eq!(counts(&ours), counts(&theirs));
        }
    }
}
