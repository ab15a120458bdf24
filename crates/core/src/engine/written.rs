//! Which part of a device a session has written to: the active ranges of its steps, so far as they write.
//!
//! Only there is anything to verify. What lies elsewhere is of nobody knows whom, and not corrupt for that.

use std::ops::Range;

/// Ranges of bytes, apart from each other and in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    ranges: Vec<Range<u64>>,
}

impl Written {
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let apart = |other: &Range<u64>| other.end < range.start || other.start > range.end;
        let (mut ranges, joined): (Vec<_>, Vec<_>) = self.ranges.drain(..).partition(apart);
        let start = joined.iter().map(|other| other.start).fold(range.start, u64::min);
        let end = joined.iter().map(|other| other.end).fold(range.end, u64::max);
        ranges.push(start..end);
        ranges.sort_by_key(|range| range.start);
        self.ranges = ranges;
    }

    pub fn forget(&mut self) {
        self.ranges.clear();
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// What of it lies in `part`.
    pub fn within(&self, part: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let cut = move |range: &Range<u64>| range.start.max(part.start)..range.end.min(part.end);
        self.ranges.iter().map(cut).filter(|range| !range.is_empty())
    }
}

impl FromIterator<Range<u64>> for Written {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut written = Self::default();
        ranges.into_iter().for_each(|range| written.add(range));
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second answer: each byte marked by itself.
    #[test]
    fn it_is_the_union() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut written, mut marked) = (Written::default(), [false; 64]);
            for _ in 0..next(8) {
                let start = next(64);
                let range = start..(start + next(12)).min(64);
                marked[range.start as usize..range.end as usize].fill(true);
                written.add(range);
            }
            assert!(written.ranges().windows(2).all(|pair| pair[0].end < pair[1].start), "apart, in order");
            let part = next(40)..next(30) + 35;
            let found: Vec<u64> = written.within(part.clone()).flatten().collect();
            let expected: Vec<u64> = part.filter(|&byte| byte < 64 && marked[byte as usize]).collect();
            assert_eq!(found, expected);
        }
    }
}
