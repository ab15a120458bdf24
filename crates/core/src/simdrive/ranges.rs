//! The tables of the mapping, many units at a time: what was written together, lies together and is overwritten together.

use super::ftl::Ftl;
use super::memory::NONE;

impl Ftl {
    /// Units from `first` on are now at `physical` and on.
    pub(super) fn place(&mut self, first: u64, count: u32, physical: u32, superblock: u32) {
        for (entry, place) in self.map.slice_mut(first, count).iter_mut().zip(physical..physical + count) {
            *entry = place;
        }
        let units = first as u32..first as u32 + count;
        for (entry, unit) in self.reverse.slice_mut(u64::from(physical), count).iter_mut().zip(units) {
            *entry = unit;
        }
        self.valid.set(u64::from(physical), count);
        self.superblocks[superblock as usize].valid += count;
    }

    /// Where units from `first` on were is valid no longer. What was written together is dealt with together.
    #[inline]
    pub(super) fn invalidate(&mut self, first: u64, count: u32) {
        let mut done = 0;
        while done < count {
            let rest = self.map.slice(first + u64::from(done), count - done);
            let old = rest[0];
            if old == NONE {
                done += 1;
                continue;
            }
            let superblock = self.superblock_of.divide(old);
            let end = (u64::from(superblock) + 1) * self.geometry.units_per_superblock;
            let together = ascending(&rest[..rest.len().min((end - u64::from(old)) as usize)]);
            self.valid.clear(u64::from(old), together);
            self.superblocks[superblock as usize].valid -= together;
            done += together;
        }
    }
}

/// How many of the numbers, from the first on, are each one more than the one before. Not empty, none near the limit.
#[inline]
fn ascending(numbers: &[u32]) -> u32 {
    const LANES: usize = 16;
    let mut count = 0;
    // Chunks compare at once, in registers as wide as there are.
    for chunk in numbers.chunks_exact(LANES) {
        let first = numbers[0].wrapping_add(count);
        let differ = chunk.iter().zip(0..).fold(0, |differ, (number, i)| differ | (number ^ first.wrapping_add(i)));
        if differ != 0 {
            break;
        }
        count += LANES as u32;
    }
    let rest = numbers[count as usize..].iter().zip(numbers[0] + count..);
    count + rest.take_while(|(number, next)| **number == *next).count() as u32
}
