//! The memory of the mapping tables: a few bytes for each 4 KiB of the drive.

use super::ftl::Ftl;
use super::params::{DriveParameters, Geometry};
use super::prefetch::{prefer_huge_pages, prefetch, prefetch_nearby};
use crate::error::TargetError;

/// A logical unit that was never written, or a physical one that holds nothing.
pub const NONE: u32 = u32::MAX;

/// So many entries, in huge pages where the kernel gives them: every lookup of a random unit is a cache miss, and with
/// small pages a TLB miss as well. Errors: not enough memory.
fn in_huge_pages<T: Copy>(entry: T, count: u64) -> std::io::Result<Vec<T>> {
    let count = usize::try_from(count).expect("64-bit host");
    let mut entries = Vec::new();
    entries.try_reserve_exact(count)?;
    prefer_huge_pages(&entries);
    entries.resize(count, entry);
    Ok(entries)
}

/// A table of u32.
#[derive(Default)]
pub struct Table(Vec<u32>);

impl Table {
    pub fn new(entries: u64) -> std::io::Result<Self> {
        in_huge_pages(NONE, entries).map(Self)
    }

    /// As it was when it was new, in the same memory.
    pub fn reset(&mut self) {
        self.0.fill(NONE);
    }

    #[inline]
    pub fn get(&self, index: u64) -> u32 {
        self.0[index as usize]
    }

    #[inline]
    pub fn prefetch(&self, index: u64) {
        prefetch(&self.0, index as usize);
    }

    /// As `prefetch`, for many at a time.
    #[inline]
    pub fn prefetch_nearby(&self, index: u64) {
        prefetch_nearby(&self.0, index as usize);
    }

    #[inline]
    pub fn set(&mut self, index: u64, value: u32) {
        self.0[index as usize] = value;
    }

    #[inline]
    pub fn slice(&self, first: u64, count: u32) -> &[u32] {
        &self.0[first as usize..][..count as usize]
    }

    #[inline]
    pub fn slice_mut(&mut self, first: u64, count: u32) -> &mut [u32] {
        &mut self.0[first as usize..][..count as usize]
    }

    #[inline]
    pub fn entries(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

/// A set of numbers below a limit, one bit each.
#[derive(Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn new(limit: u64) -> std::io::Result<Self> {
        in_huge_pages(0, limit.div_ceil(64)).map(Self)
    }

    /// Empty again, in the same memory.
    pub fn reset(&mut self) {
        self.0.fill(0);
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

    /// Clear the numbers from `first` on that `window` says.
    #[inline]
    pub fn remove(&mut self, first: u64, window: u64) {
        let (word, bit) = ((first / 64) as usize, (first % 64) as u32);
        self.0[word] &= !(window << bit);
        let high = window >> 1 >> (63 - bit);
        if high != 0 {
            self.0[word + 1] &= !high;
        }
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

/// What the tables of the mapping take: two of u32, the valid bits, and on request a stamp for each physical unit.
pub fn table_bytes(geometry: &Geometry, tracked: bool) -> u64 {
    let physical = geometry.units_per_superblock * (geometry.superblocks + geometry.slc_superblocks);
    4 * (geometry.units + physical) + 8 * physical.div_ceil(64) + if tracked { 8 * physical } else { 0 }
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
    let needed = table_bytes(&geometry, parameters.tracks_data());
    if available_memory().is_some_and(|available| needed > available) {
        return Err(unusable(format!("its mapping tables need {} MiB, more than is free", needed >> 20)));
    }
    let mut ftl = Ftl::new(geometry, parameters.collection())
        .map_err(|error| unusable(format!("no memory for the mapping tables ({error})")))?;
    if parameters.tracks_data() {
        ftl.keep_stamps();
    }
    Ok(ftl)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is looked for before the tables are made is what they take.
    #[test]
    fn the_tables_take_what_was_reckoned() {
        for tracked in [false, true] {
            let changes = format!(r#"{{"capacity_bytes": 900096000, "slc_static_mib": 64, "track_data": {tracked}}}"#);
            let p = DriveParameters::preset("nvme-client-slc", &changes).unwrap();
            let mut ftl = fresh_ftl(&p).unwrap();
            let tables = ftl.map.entries().len() * 4 + ftl.reverse.entries().len() * 4 + ftl.valid.0.len() * 8;
            let stamps = if tracked { ftl.reverse.entries().len() * 8 } else { 0 };
            assert_eq!(
                (ftl.stamps.is_some(), table_bytes(&p.geometry(), tracked)),
                (tracked, (tables + stamps) as u64)
            );
        }
    }
}
