//! The SLC cache of the plain mapping.

use super::plain::{Place, Plain, Victim};
use super::slc::SlcWhenFull;
use super::victims::GcPacing;

impl Plain {
    /// The SLC cache first.
    pub fn next_host(&mut self) -> Place {
        if self.blocks.len() > self.main || self.collection.slc.dynamic_percent > 0.0 {
            for block in std::mem::take(&mut self.slc_full) {
                if self.valid(block) > 0 { self.slc_full.push(block) } else { self.erase(block) }
            }
            let waits = self.collection.slc.when_full == SlcWhenFull::Fold;
            if waits && !self.slc_room() && (self.fold.is_some() || !self.slc_full.is_empty()) {
                let mut fold = self.take_fold();
                let before = self.counters.folded_units;
                while self.move_page(&mut fold) {}
                self.erase(fold.block);
                self.reclaim(self.counters.folded_units - before);
            }
            let block = if !self.slc_free.is_empty() {
                Some(self.slc_free.remove(0))
            } else if self.dynamic_room() {
                let block = self.free.remove(0);
                self.blocks[block].slc = true;
                Some(block)
            } else {
                None
            };
            self.folding = waits && block.is_some() && self.collection.pacing == GcPacing::Paced && !self.slc_room();
            if let Some(block) = block {
                return self.open_block(block);
            }
        }
        self.parked.take().unwrap_or_else(|| self.next_place())
    }

    fn slc_room(&self) -> bool {
        !self.slc_free.is_empty() || self.dynamic_room()
    }

    /// Of the superblocks that packed data would leave free, less the reserve and three open ones, a share.
    fn dynamic_room(&self) -> bool {
        let valid: u64 = (0..self.blocks.len()).map(|block| self.valid(block)).sum();
        let packed = valid.div_ceil(self.capacity()) as i64;
        let left = self.main as i64 - packed - i64::from(self.collection.reserve) - 3;
        let share = left.max(0) as f64 * self.collection.slc.dynamic_percent / 100.0;
        let in_use = self.blocks[..self.main].iter().filter(|block| block.slc).count();
        self.free.len() > self.collection.reserve as usize + 1 && ((in_use + 1) as f64) <= share
    }

    fn take_fold(&mut self) -> Victim {
        self.fold.take().unwrap_or_else(|| {
            let block = self.slc_full.remove(0);
            self.victim_of(block)
        })
    }

    pub fn victim_of(&self, block: usize) -> Victim {
        Victim { block, next_page: 0, valid_at_start: self.valid(block), copied: 0, host: 0 }
    }

    pub fn pace_fold(&mut self, units: u64) -> u64 {
        let before = self.counters.folded_units;
        if self.folding && (self.fold.is_some() || !self.slc_full.is_empty()) {
            let mut fold = self.take_fold();
            fold.host += units;
            // Done when the host has filled as much as a superblock of the cache holds.
            let capacity = (self.slc_pages * self.sense_units) as u64;
            while fold.copied * capacity < fold.host * fold.valid_at_start && self.move_page(&mut fold) {}
            self.fold_on(fold);
        }
        self.counters.folded_units - before
    }

    fn fold_on(&mut self, fold: Victim) {
        if self.valid(fold.block) == 0 {
            self.erase(fold.block);
        } else {
            self.fold = Some(fold);
        }
        self.folding = self.folding && !self.slc_room();
    }

    pub fn fold_idly(&mut self) -> bool {
        if self.blocks.len() == self.main && self.collection.slc.dynamic_percent == 0.0 {
            return false;
        }
        if !self.has_spare() {
            return self.collect_idly(self.collection.reserve as usize + 1);
        }
        if self.fold.is_none() && self.slc_full.is_empty() {
            return false;
        }
        let mut fold = self.take_fold();
        self.move_page(&mut fold);
        self.fold_on(fold);
        true
    }

    /// Once the cache has room again, the host leaves the main area with its page.
    pub fn leave_main(&mut self) {
        if !self.blocks[self.host.block].slc
            && self.slc_room()
            && let Some(next) = Self::next_page(self.host)
        {
            self.parked = Some(next);
            self.host.pages_left = 0;
        }
    }
}
