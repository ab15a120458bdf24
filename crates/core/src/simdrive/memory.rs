//! The memory of the mapping tables: a few bytes for each 4 KiB of the drive.

use bytemuck::{cast_slice, cast_slice_mut};
use memmap2::{Advice, MmapMut};

use super::ftl::Ftl;
use super::params::DriveParameters;
use super::prefetch::prefetch;
use crate::error::TargetError;

/// A logical unit that was never written, or a physical one that holds nothing.
pub const NONE: u32 = u32::MAX;

/// A table of u32 in huge pages where the kernel gives them: every lookup of a random unit is a cache miss, and
/// with small pages a TLB miss as well.
pub struct Table(MmapMut);

impl Table {
    pub fn new(entries: u64) -> std::io::Result<Self> {
        let mut map = MmapMut::map_anon(usize::try_from(entries * 4).expect("64-bit host"))?;
        // Advice only: without huge pages the table is slower, nothing else.
        let _ = map.advise(Advice::HugePage);
        cast_slice_mut::<u8, u32>(&mut map).fill(NONE);
        Ok(Self(map))
    }

    #[inline]
    pub fn get(&self, index: u64) -> u32 {
        cast_slice::<u8, u32>(&self.0)[index as usize]
    }

    #[inline]
    pub fn prefetch(&self, index: u64) {
        prefetch(cast_slice::<u8, u32>(&self.0), index as usize);
    }

    #[inline]
    pub fn set(&mut self, index: u64, value: u32) {
        cast_slice_mut::<u8, u32>(&mut self.0)[index as usize] = value;
    }

    #[inline]
    pub fn slice(&self, first: u64, count: u32) -> &[u32] {
        &cast_slice::<u8, u32>(&self.0)[first as usize..][..count as usize]
    }

    #[inline]
    pub fn slice_mut(&mut self, first: u64, count: u32) -> &mut [u32] {
        &mut cast_slice_mut::<u8, u32>(&mut self.0)[first as usize..][..count as usize]
    }
}

/// A set of numbers below a limit, one bit each.
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn new(limit: u64) -> Self {
        Self(vec![0; limit.div_ceil(64) as usize])
    }

    /// Each word that numbers `first` on are in, with their bits in it.
    #[inline]
    fn change(&mut self, first: u64, count: u32, mut change: impl FnMut(&mut u64, u64)) {
        let (mut word, mut bit, mut left) = ((first / 64) as usize, (first % 64) as u32, count);
        while left > 0 {
            let here = left.min(64 - bit);
            change(&mut self.0[word], (u64::MAX >> (64 - here)) << bit);
            (word, bit, left) = (word + 1, 0, left - here);
        }
    }

    #[inline]
    pub fn set(&mut self, first: u64, count: u32) {
        self.change(first, count, |word, bits| *word |= bits);
    }

    #[inline]
    pub fn clear(&mut self, first: u64, count: u32) {
        self.change(first, count, |word, bits| *word &= !bits);
    }

    #[inline]
    pub fn set_one(&mut self, number: u32) {
        self.0[(number / 64) as usize] |= 1 << (number % 64);
    }

    #[inline]
    pub fn clear_one(&mut self, number: u32) {
        self.0[(number / 64) as usize] &= !(1 << (number % 64));
    }

    /// Which of the `count` numbers from `first` on are in the set; at most 64, and none beyond the limit.
    #[inline]
    pub fn window(&self, first: u64, count: u32) -> u64 {
        let (word, bit) = ((first / 64) as usize, (first % 64) as u32);
        let Some(&low) = self.0.get(word) else { return 0 };
        let mut bits = low >> bit;
        if bit + count > 64 {
            bits |= self.0.get(word + 1).map_or(0, |high| high << (64 - bit));
        }
        bits & (u64::MAX >> (64 - count))
    }

    #[inline]
    pub fn prefetch(&self, number: u64) {
        prefetch(&self.0, (number / 64) as usize);
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Bytes the kernel could give, if it says so.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The mapping of a drive fresh out of the box, if there is memory for it.
pub fn fresh_ftl(parameters: &DriveParameters) -> Result<Ftl, TargetError> {
    let geometry = parameters.geometry();
    let unusable = |problem: String| TargetError::Unusable {
        path: "simulated drive".into(),
        problem,
        cure: "simulate a smaller drive, for example ?capacity=16GiB".into(),
    };
    // The tables are filled at once; the kernel would grant them and then kill the process.
    let needed = 4 * (geometry.units + geometry.units_per_superblock * geometry.superblocks);
    if available_memory().is_some_and(|available| needed > available) {
        return Err(unusable(format!("its mapping tables need {} MiB, more than is free", needed >> 20)));
    }
    Ftl::new(geometry, parameters.collection())
        .map_err(|error| unusable(format!("no memory for the mapping tables ({error})")))
}
