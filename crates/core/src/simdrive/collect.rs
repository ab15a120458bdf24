//! Garbage collection of the flash translation layer: paced by the host's writes, a victim at a time, or while the
//! host is idle.

use super::ftl::{FlashWork, Ftl, State, Superblock};
use super::slc::CellMode;
use super::victims::GcPacing;

/// With fewer free superblocks than this, collection goes first: both frontiers may need a new one.
const LEAST_FREE: usize = 2;

/// A superblock that is being collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    pub(super) superblock: u32,
    /// Next unit to look at.
    pub(super) cursor: u64,
    pub(super) valid_at_start: u64,
    pub(super) copied: u64,
    /// Units the host has written since collection began.
    pub(super) host_units: u64,
}

impl Ftl {
    /// The host has written a page of `units`, and space may be short.
    #[inline]
    pub(super) fn reclaim(&mut self, units: u64, mode: CellMode, work: &mut Vec<FlashWork>) {
        let of_main = if mode == CellMode::Native { units } else { self.pace_fold(units, work) };
        self.reclaim_main(of_main, work);
    }

    /// `units` more of the main area are used, and space may be short.
    #[inline]
    pub(super) fn reclaim_main(&mut self, units: u64, work: &mut Vec<FlashWork>) {
        if units == 0 {
            return;
        }
        match self.collection.pacing {
            GcPacing::Paced => self.pace(units, work),
            GcPacing::Line => self.collect_line(units, work),
        }
    }

    /// The host has written `units` more. Collect so much that, when the victim is done, the host has used just
    /// the units that collecting it gives back: the work is spread evenly, and free space neither grows nor ends.
    /// What the host wrote beyond that counts for the next victim. Should free superblocks run short all the same,
    /// the host waits for collection. While more superblocks are free than the reserve, nothing is collected: what
    /// idle time has gained is used first.
    fn pace(&mut self, units: u64, work: &mut Vec<FlashWork>) {
        let mut host_units = units;
        while !self.has_spare() {
            if self.victim.is_none() {
                self.choose_victim(self.collection.reserve as usize + 1);
            }
            let Some(mut victim) = self.victim.take() else { return };
            victim.host_units += host_units;
            let gain = self.geometry.units_per_superblock - victim.valid_at_start;
            let urgent = self.free.len() < LEAST_FREE;
            // As many as are due, and all where that gains nothing.
            let share = victim.host_units * victim.valid_at_start;
            let due = match (share, gain) {
                (0, _) => 0,
                (_, 0) => u64::MAX,
                _ => share.div_ceil(gain),
            };
            let before = victim.cursor;
            self.collect_until(&mut victim, if urgent { u64::MAX } else { due }, work);
            self.expected.as_many(&victim, victim.cursor - before, units);
            let left = self.superblocks[victim.superblock as usize].valid;
            if left > 0 {
                self.victim = Some(victim);
                return;
            }
            self.release(victim.superblock);
            host_units = victim.host_units.saturating_sub(gain);
        }
    }

    /// The host has written `units` more. When it has used up what the last victim gave, or free superblocks run
    /// short, it waits until the next one is collected from end to end.
    fn collect_line(&mut self, units: u64, work: &mut Vec<FlashWork>) {
        if self.has_spare() {
            return;
        }
        self.credit -= units as i64;
        while !self.has_spare() && (self.credit <= 0 || self.free.len() < LEAST_FREE) {
            if self.victim.is_none() {
                self.choose_victim(self.collection.reserve as usize + 1);
            }
            let Some(mut victim) = self.victim.take() else { break };
            self.collect_until(&mut victim, u64::MAX, work);
            self.credit += (self.geometry.units_per_superblock - victim.valid_at_start) as i64;
            self.release(victim.superblock);
        }
        // Free space that came for nothing is not owed for.
        self.credit = self.credit.max(0);
    }

    /// More superblocks are free than the reserve.
    pub(super) fn has_spare(&self) -> bool {
        self.free.len() > self.collection.reserve as usize
    }

    /// Collect a page of the drive's own accord, unless `enough` superblocks are free. False if there is nothing to do.
    pub fn collect_idly(&mut self, enough: u64, work: &mut Vec<FlashWork>) -> bool {
        if self.free.len() as u64 >= enough {
            return false;
        }
        if self.victim.is_none() {
            self.choose_victim(enough as usize);
        }
        let Some(mut victim) = self.victim.take() else { return false };
        self.collect_page(&mut victim, work);
        if self.superblocks[victim.superblock as usize].valid > 0 {
            self.victim = Some(victim);
        } else {
            self.release(victim.superblock);
        }
        true
    }

    /// Have a victim, unless `enough` superblocks are free or none would gain anything. Those with nothing valid are
    /// released at once.
    fn choose_victim(&mut self, enough: usize) {
        while self.free.len() < enough {
            let (capacity, now) = (self.geometry.units_per_superblock, self.clock());
            let victim = self.take_dynamic().or_else(|| {
                self.victims.choose(&self.superblocks, capacity, now).map(|superblock| self.victim_of(superblock))
            });
            let Some(victim) = victim else { return };
            if victim.valid_at_start > 0 {
                self.victim = Some(victim);
                return;
            }
            self.release(victim.superblock);
        }
    }

    pub(super) fn victim_of(&self, superblock: u32) -> Victim {
        let valid_at_start = u64::from(self.superblocks[superblock as usize].valid);
        Victim { superblock, cursor: 0, valid_at_start, copied: 0, host_units: 0 }
    }

    pub(super) fn release(&mut self, superblock: u32) {
        let block = &mut self.superblocks[superblock as usize];
        assert_eq!(block.valid, 0, "a superblock is released when nothing valid is left in it");
        let mode = block.mode;
        *block = Superblock { state: State::Free, valid: 0, erases: block.erases + 1, used: true, mode };
        self.counters.erases += 1;
        match &mut self.slc {
            Some(slc) if u64::from(superblock) >= self.geometry.superblocks => slc.free.push_back(superblock),
            slc => {
                if let (Some(slc), CellMode::Slc) = (slc, mode) {
                    slc.dynamic -= 1;
                    block.mode = CellMode::Native;
                }
                self.free.push_back(superblock);
            }
        }
        self.prefer_slc();
    }

    /// Move the valid units of the victim's next page that has any. False when there is none left.
    pub(super) fn collect_page(&mut self, victim: &mut Victim, work: &mut Vec<FlashWork>) -> bool {
        let n = u64::from(self.geometry.units_per_page);
        let base = u64::from(victim.superblock) * self.geometry.units_per_superblock;
        while victim.cursor < self.geometry.units_per_superblock {
            let first = base + victim.cursor;
            victim.cursor += n;
            let mut valid = self.valid.window(first, n as u32);
            let (moved, senses) = (u64::from(valid.count_ones()), self.geometry.senses(valid));
            while valid != 0 {
                self.move_unit(first + u64::from(valid.trailing_zeros()), victim.superblock, work);
                valid &= valid - 1;
            }
            if moved > 0 {
                victim.copied += moved;
                let mode = self.superblocks[victim.superblock as usize].mode;
                if mode == CellMode::Slc {
                    self.counters.collected_units -= moved;
                    self.counters.folded_units += moved;
                }
                work.push(FlashWork::CollectRead { page: (first / n) as u32, units: moved as u32, senses, mode });
                return true;
            }
        }
        false
    }

    fn move_unit(&mut self, from: u64, victim: u32, work: &mut Vec<FlashWork>) {
        let unit = u64::from(self.reverse.get(from));
        self.valid.clear_one(from as u32);
        self.superblocks[victim as usize].valid -= 1;
        let at = &self.collector;
        let physical = at.page * self.geometry.units_per_page + at.filled;
        self.place_unit(unit, physical, self.collector.superblock);
        self.stamp_moved(from, physical);
        self.counters.collected_units += 1;
        self.collector.filled += 1;
        if self.collector.filled == self.geometry.units_per_page {
            work.push(self.collector.program(None));
            if self.collector.turn_page() {
                self.move_collector();
            }
        }
    }
}
