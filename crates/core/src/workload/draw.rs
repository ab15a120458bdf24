//! Where random I/Os may go, and unbiased draws: offsets, and one of several shares.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use super::Stimulus;
use crate::error::StimulusError;
use crate::units::{Bytes, Lba, SECTOR};

/// A half-open range of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Range {
    pub(super) fn of(sectors: Range, start_percent: f64, end_percent: f64) -> Range {
        let length = (sectors.end - sectors.start) as f64;
        let at = |percent: f64| sectors.start + (length * percent / 100.0).round() as u64;
        // Kept on 4 KiB boundaries, but for the device's own end, so that an aligned range gives aligned I/Os.
        let end = if end_percent < 100.0 { at(end_percent) / 8 * 8 } else { sectors.end };
        Range { start: at(start_percent).next_multiple_of(8).min(sectors.end), end }
    }

    pub(super) fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Stimulus {
    /// The active range on a device of `capacity`, in bytes.
    pub fn active_bytes(&self, capacity: Bytes) -> std::ops::Range<u64> {
        let device = Range { start: 0, end: Lba::from_bytes(capacity).0 };
        let active = Range::of(device, self.active_range.start_percent, self.active_range.end_percent);
        active.start * SECTOR..active.end * SECTOR
    }
}

/// Uniform draw of 0..bound (Lemire's method).
#[inline]
pub(super) fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    let mut wide = u128::from(rng.next_u64()) * u128::from(bound);
    if (wide as u64) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (wide as u64) < threshold {
            wide = u128::from(rng.next_u64()) * u128::from(bound);
        }
    }
    (wide >> 64) as u64
}

/// A probability as a threshold for a 64-bit draw; exact at 0 and 1.
pub(super) fn threshold(share: f64) -> u128 {
    (share * (1u128 << 64) as f64) as u128
}

/// Random placement of one block size within one range: `start + draw * step`, `positions` choices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    pub(super) start: u64,
    pub(super) step: u64,
    pub(super) positions: u64,
}

impl Placement {
    pub(super) fn new(range: Range, sectors: u64, alignment: u64) -> Result<Self, StimulusError> {
        let start = range.start.next_multiple_of(alignment);
        if start + sectors > range.end {
            return Err(StimulusError::RangeTooSmall { range: range.len() * SECTOR, block: sectors * SECTOR });
        }
        Ok(Self { start, step: alignment, positions: (range.end - start - sectors) / alignment + 1 })
    }
}

pub(super) fn cumulative(shares: impl Iterator<Item = f64>) -> Vec<u128> {
    let mut sum = 0.0;
    let mut limits: Vec<u128> = shares
        .map(|share| {
            sum += share;
            threshold(sum)
        })
        .collect();
    if let Some(last) = limits.last_mut() {
        *last = u128::MAX;
    }
    limits
}

#[inline]
pub(super) fn pick(rng: &mut Xoshiro256PlusPlus, mut limits: impl Iterator<Item = u128>) -> usize {
    let draw = u128::from(rng.next_u64());
    limits.position(|limit| draw < limit).expect("the last limit is above every draw")
}
