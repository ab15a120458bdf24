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
    Ftl::new(geometry, parameters.gc_reserve_superblocks)
        .map_err(|error| unusable(format!("no memory for the mapping tables ({error})")))
}
