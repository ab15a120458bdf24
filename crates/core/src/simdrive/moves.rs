//! Collection's inner loop: most of what a drive with little spare capacity does, and most of the simulator's time.
//! What the pages of a victim cost the dies is worked out page by page, what is in them moves together.

use super::collect::Victim;
use super::ftl::{FlashWork, Ftl};
use super::slc::CellMode;

/// Map entries are fetched so many units of flash ahead of collection.
const AHEAD: u64 = 64;

/// Units that move together: as many as have their bits in one number.
const TOGETHER: u32 = u64::BITS;

impl Ftl {
    /// Collect the victim's pages until `enough` of its units are copied, or none is left.
    pub(super) fn collect_until(&mut self, victim: &mut Victim, enough: u64, work: &mut Vec<FlashWork>) {
        let pages = TOGETHER / self.geometry.units_per_page;
        while victim.copied < enough && victim.cursor < self.geometry.units_per_superblock {
            // Where pages follow each other, so do the units' new places.
            if self.collector.pages_left > pages {
                self.collect_together(victim, enough, work);
            } else {
                self.collect_page(victim, work);
            }
        }
    }

    fn collect_together(&mut self, victim: &mut Victim, enough: u64, work: &mut Vec<FlashWork>) {
        let n = self.geometry.units_per_page;
        let first = u64::from(victim.superblock) * self.geometry.units_per_superblock + victim.cursor;
        let rest = self.geometry.units_per_superblock - victim.cursor;
        let count = (rest.min(u64::from(TOGETHER)) as u32) / n * n;
        let to = self.physical(&self.collector);
        let valid = self.valid.window(first, count);
        let page_mask = u64::MAX >> (TOGETHER - n);
        let (mut left, mut moving, mut taken) = (valid, valid, 0);
        let mut page = (first / u64::from(n)) as u32;
        let (before, mode) = (victim.copied, self.superblocks[victim.superblock as usize].mode);
        while taken < count && victim.copied < enough {
            let here = left & page_mask;
            left = left.unbounded_shr(n);
            taken += n;
            if here != 0 {
                let units = here.count_ones();
                victim.copied += u64::from(units);
                self.collector.filled += units;
                if self.collector.filled >= n {
                    let filled = self.collector.filled - n;
                    work.push(self.collector.program(None));
                    self.collector.turn_page();
                    self.collector.filled = filled;
                }
                work.push(FlashWork::CollectRead { page, units, senses: self.senses(here), mode });
            }
            page += 1;
        }
        victim.cursor += u64::from(taken);
        moving &= u64::MAX >> (TOGETHER - taken);
        let moved = victim.copied - before;
        self.superblocks[victim.superblock as usize].valid -= moved as u32;
        self.superblocks[self.collector.superblock as usize].valid += moved as u32;
        match mode {
            CellMode::Native => self.counters.collected_units += moved,
            CellMode::Slc => self.counters.folded_units += moved,
        }
        self.move_units(first, moving, to, moved as u32);
        self.expect_moves(first + AHEAD, taken);
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
        let (mut left, mut at) = (moving, to);
        while left != 0 {
            let unit = reverse[first as usize + left.trailing_zeros() as usize];
            map[unit as usize] = at;
            reverse[at as usize] = unit;
            at += 1;
            left &= left - 1;
        }
    }

    /// The map entries of the valid ones of `count` units from `from` on will be needed soon.
    #[inline]
    fn expect_moves(&self, from: u64, count: u32) {
        let mut valid = self.valid.window(from, count);
        while valid != 0 {
            self.map.prefetch_nearby(u64::from(self.reverse.get(from + u64::from(valid.trailing_zeros()))));
            valid &= valid - 1;
        }
    }
}
