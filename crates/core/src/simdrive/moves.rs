//! Collection's inner loop: most of what a drive with little spare capacity does, and most of the simulator's time.
//! What is in a victim's next pages moves together, and the dies are told of all of it at once.

use super::collect::Victim;
use super::ftl::{FlashWork, Ftl};
use super::params::Geometry;
use super::slc::CellMode;

/// Units that move together: as many as have their bits in one number.
const TOGETHER: u32 = u64::BITS;

/// Pages that are collected together: which of their units move, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moves {
    /// A bit for each unit, those of the first page lowest; all pages have bits for as many.
    pub valid: u64,
    /// The first page, how many, and the mode of their cells.
    pub from: u32,
    pub pages: u32,
    pub mode: CellMode,
    /// The page they go to first, the units that are in it, and a bit for each page from it on whose die erases a block
    /// first.
    pub to: u32,
    pub filled: u32,
    pub erases: u64,
}

/// How far the map entries that collection will need are asked for. Beside the victim, which is copied as a whole: what
/// has just been written in parts cannot be, before all that was written earlier is in the cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected {
    superblock: u32,
    /// The first unit of the superblock that is not asked for, and for how many more the host's next writes ask, each.
    next: u64,
    per_unit: u64,
}

impl Expected {
    /// No earlier than where collection is.
    #[inline]
    fn from(&mut self, victim: &Victim) {
        let asked = if self.superblock == victim.superblock { self.next } else { 0 };
        (self.superblock, self.next) = (victim.superblock, asked.max(victim.cursor));
    }

    /// Collection has gone over `taken` units of the victim after the host had written `per`, and will go over as many
    /// again: their map entries, and some more, are to be asked for while the host writes.
    #[inline]
    pub fn as_many(&mut self, victim: &Victim, taken: u64, per: u64) {
        self.from(victim);
        let end = victim.cursor + taken + taken / 4 + 8;
        self.per_unit = end.saturating_sub(self.next).div_ceil(per);
    }
}

impl Moves {
    /// The same, page by page.
    pub fn one_by_one(&self, geometry: &Geometry) -> Vec<FlashWork> {
        let n = geometry.units_per_page;
        let (mut filled, mut to, mut work) = (self.filled, self.to, vec![]);
        for page in 0..self.pages {
            let valid = self.valid >> (page * n) & (u64::MAX >> (u64::BITS - n));
            if valid == 0 {
                continue;
            }
            let (units, senses) = (valid.count_ones(), geometry.senses(valid));
            filled += units;
            if filled >= n {
                let erase = self.erases >> (to - self.to) & 1 != 0;
                work.push(FlashWork::Program { page: to, erase, mode: CellMode::Native, host: None });
                (filled, to) = (filled - n, to + 1);
            }
            work.push(FlashWork::CollectRead { page: self.from + page, units, senses, mode: self.mode });
        }
        work
    }
}

impl Ftl {
    /// Collect the victim's pages until `enough` of its units are copied, or none is left.
    pub(super) fn collect_until(&mut self, victim: &mut Victim, enough: u64, work: &mut Vec<FlashWork>) {
        let n = self.geometry.units_per_page;
        while victim.copied < enough && victim.cursor < self.geometry.units_per_superblock {
            // To the end of a page: as many move at most.
            let most = (enough - victim.copied).min(u64::from(TOGETHER)) as u32 + n - 1;
            // Where pages follow each other, so do the units' new places.
            if self.collector.pages_left >= (self.collector.filled + most) / n {
                self.collect_together(victim, enough, work);
            } else {
                self.collect_page(victim, work);
            }
            if victim.copied < enough {
                self.expected.from(victim);
                self.expect_moves(victim.cursor + u64::from(TOGETHER));
            }
        }
    }

    fn collect_together(&mut self, victim: &mut Victim, enough: u64, work: &mut Vec<FlashWork>) {
        let n = self.geometry.units_per_page;
        let first = u64::from(victim.superblock) * self.geometry.units_per_superblock + victim.cursor;
        let rest = self.geometry.units_per_superblock - victim.cursor;
        let count = (rest.min(u64::from(TOGETHER)) as u32) / n * n;
        let valid = self.valid.window(first, count);
        // To the end of the page that holds the last unit needed.
        let needed = (enough - victim.copied).min(u64::from(TOGETHER)) as u32;
        let taken = place_of_bit(valid, needed - 1).map_or(count, |last| (last / n + 1) * n);
        let moving = valid & (u64::MAX >> (TOGETHER - taken));
        let moved = moving.count_ones();
        victim.cursor += u64::from(taken);
        if moved == 0 {
            return;
        }
        victim.copied += u64::from(moved);
        let mode = self.superblocks[victim.superblock as usize].mode;
        self.superblocks[victim.superblock as usize].valid -= moved;
        self.superblocks[self.collector.superblock as usize].valid += moved;
        match mode {
            CellMode::Native => self.counters.collected_units += u64::from(moved),
            CellMode::Slc => self.counters.folded_units += u64::from(moved),
        }
        self.move_units(first, moving, self.physical(&self.collector), moved);
        let to = &mut self.collector;
        let from = (first / u64::from(n)) as u32;
        let full = (to.filled + moved) / n;
        let erases = to.erases.due_of(to.page, full);
        work.push(FlashWork::Move(Moves {
            valid: moving,
            from,
            pages: taken / n,
            mode,
            to: to.page,
            filled: to.filled,
            erases,
        }));
        to.filled = to.filled + moved - full * n;
        to.page += full;
        to.pages_left -= full;
    }

    /// Move units from `first` on, those whose bits are set, to `to` and on.
    #[inline]
    fn move_units(&mut self, first: u64, moving: u64, to: u32, count: u32) {
        self.valid.remove(first, moving);
        self.valid.set(u64::from(to), count);
        if self.stamps.is_some() {
            self.stamps_moved(first, moving, to);
        }
        let (map, reverse) = (self.map.entries(), self.reverse.entries());
        let (first, end) = (first as usize, to as usize + count as usize);
        // The victim's part of the table, and the collector's, which is another superblock.
        let (from, new) = if first < to as usize {
            let (low, high) = reverse.split_at_mut(to as usize);
            (&low[first..], &mut high[..count as usize])
        } else {
            let (low, high) = reverse.split_at_mut(first);
            (&*high, &mut low[to as usize..end])
        };
        let mut left = moving;
        for (entry, place) in new.iter_mut().zip(to..) {
            let unit = from[left.trailing_zeros() as usize];
            left &= left - 1;
            map[unit as usize] = place;
            *entry = unit;
        }
    }

    /// The host has written `units`, not yet a page: fetch a part of what collection will need after that page. To fetch
    /// it all at once would make the processor wait.
    #[inline]
    pub(super) fn expect_some_moves(&mut self, units: u32) {
        self.expect_moves(self.expected.next + self.expected.per_unit * u64::from(units));
    }

    /// The map entries of what is valid in the victim up to `end` will be needed soon.
    #[inline]
    fn expect_moves(&mut self, end: u64) {
        let base = u64::from(self.expected.superblock) * self.geometry.units_per_superblock;
        let end = end.min(self.geometry.units_per_superblock);
        while self.expected.next < end {
            let first = base + self.expected.next;
            let count = (end - self.expected.next).min(u64::from(TOGETHER)) as u32;
            let mut left = self.valid.window(first, count);
            let units = self.reverse.slice(first, count);
            while left != 0 {
                self.map.prefetch_nearby(u64::from(units[left.trailing_zeros() as usize]));
                left &= left - 1;
            }
            self.expected.next += u64::from(count);
        }
    }
}

/// The place of the set bit that has `before` set bits below it.
#[inline]
fn place_of_bit(bits: u64, before: u32) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pairs = bits - (bits >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    // In each byte: the bits set in it and in those below.
    let sums = ((nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    if sums >> 56 <= u64::from(before) {
        return None;
    }
    // Those bytes come before the bit's whose sum is no more than `before`.
    let not_above = (((u64::from(before) * ONES) | (0x80 * ONES)) - sums) & (0x80 * ONES);
    let shift = ((not_above >> 7).wrapping_mul(ONES) >> 56) as u32 * 8;
    let mut byte = bits >> shift & 0xff;
    for _ in 0..u64::from(before) - (sums << 8 >> shift & 0xff) {
        byte &= byte - 1;
    }
    Some(shift + byte.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::place_of_bit;

    proptest! {
        #[test]
        fn places_of_bits_are_those_one_finds_by_counting(some: u64, others: u64, dense: bool) {
            let bits = if dense { some | others } else { some & others };
            for bits in [bits, 0, 1, 1 << 63, u64::MAX, some] {
                let places: Vec<u32> = (0..64).filter(|place| bits >> place & 1 != 0).collect();
                for before in 0..64 {
                    prop_assert_eq!(place_of_bit(bits, before), places.get(before as usize).copied());
                }
            }
        }
    }
}
