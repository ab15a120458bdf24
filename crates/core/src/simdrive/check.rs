//! Laws of conservation that the mapping keeps at all times, checked in full: slow, for tests.

use super::ftl::{Ftl, State};
use super::memory::NONE;
use super::slc::CellMode;

impl Ftl {
    /// Where every unit is, what the host frontier does next, and what each superblock is like: for comparison.
    #[cfg(test)]
    pub(super) fn state(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let map: Vec<u32> = (0..self.geometry.units).map(|unit| self.map.get(unit)).collect();
        let superblocks: Vec<_> =
            self.superblocks.iter().map(|b| (b.state, b.valid, b.erases, b.used, b.mode)).collect();
        let frontiers = (self.host, self.collector, self.shared);
        let other = self.other.as_ref();
        let other = other.map(|p| (p.free.clone(), p.host, p.collector, p.shared, p.victim, p.credit, p.counters));
        (map, superblocks, self.free.clone(), frontiers, self.victim, self.credit, self.counters, other)
    }

    /// Every law of conservation, checked in full: slow, for tests.
    pub fn check(&self) {
        let mut valid = vec![0u32; self.superblocks.len()];
        let mut mapped = 0u64;
        for unit in 0..self.geometry.units {
            let physical = self.map.get(unit);
            if physical != NONE {
                mapped += 1;
                assert_eq!(u64::from(self.reverse.get(u64::from(physical))), unit, "reverse map of unit {unit}");
                assert_eq!(self.valid.window(u64::from(physical), 1), 1, "unit {unit} is valid");
                valid[(u64::from(physical) / self.geometry.units_per_superblock) as usize] += 1;
            }
        }
        assert_eq!(self.valid.count(), mapped, "valid physical units = mapped logical units");
        for (index, block) in self.superblocks.iter().enumerate() {
            assert_eq!(block.valid, valid[index], "valid count of superblock {index}");
        }
        let erases: u64 = self.superblocks.iter().map(|block| u64::from(block.erases)).sum();
        assert_eq!(erases, self.counters().erases, "erase counts add up");
        let main = &self.superblocks[..self.geometry.superblocks as usize];
        let retired = self.superblocks.iter().filter(|block| block.state == State::Retired);
        assert!(retired.into_iter().all(|block| block.valid == 0), "nothing is in a retired superblock");
        let free = main.iter().filter(|block| block.state == State::Free).count();
        let of_other = self.other.as_ref().map_or(0, |other| other.free.len());
        assert_eq!(free, self.free.len() + of_other, "free superblocks");
        self.check_pools();
        self.check_slc();
    }

    /// Each pool's data, free superblocks and frontiers are in its own superblocks.
    fn check_pools(&self) {
        let Some(other) = &self.other else { return };
        let ranges = [&self.victims.range, &other.victims.range];
        let [hot, cold] = if self.in_cold { [ranges[1], ranges[0]] } else { ranges };
        assert_eq!((hot.start, hot.end, u64::from(cold.end)), (0, cold.start, self.geometry.superblocks));
        for unit in 0..self.geometry.units {
            let physical = self.map.get(unit);
            let superblock = (u64::from(physical) / self.geometry.units_per_superblock) as u32;
            let pool = if unit < self.geometry.hot_units { hot } else { cold };
            assert!(physical == NONE || pool.contains(&superblock), "unit {unit} is in its pool");
        }
        for (range, free, places) in [
            (ranges[0], &self.free, [self.host, self.collector]),
            (ranges[1], &other.free, [other.host, other.collector]),
        ] {
            let open = places.iter().map(|place| place.superblock);
            assert!(free.iter().copied().chain(open).all(|superblock| range.contains(&superblock)), "in its pool");
        }
    }

    /// Laws of the cache, beside those of every drive.
    fn check_slc(&self) {
        let main = self.geometry.superblocks as usize;
        let in_slc_mode = |index: usize| self.superblocks[index].mode == CellMode::Slc;
        let Some(slc) = &self.slc else {
            assert!(!(0..self.superblocks.len()).any(in_slc_mode), "without a cache nothing is in SLC mode");
            return;
        };
        assert!((main..self.superblocks.len()).all(in_slc_mode), "the static cache is always in SLC mode");
        assert_eq!((0..main).filter(|index| in_slc_mode(*index)).count() as u64, slc.dynamic, "dynamic superblocks");
        let counted = |state| (main..self.superblocks.len()).filter(|i| self.superblocks[*i].state == state).count();
        assert_eq!(counted(State::Free), slc.free.len(), "free superblocks of the static cache");
        let folded = [slc.fold, self.victim].into_iter().flatten().map(|victim| victim.superblock as usize);
        let cached = slc.full.iter().map(|superblock| *superblock as usize);
        let mut full: Vec<usize> = folded.filter(|superblock| in_slc_mode(*superblock)).chain(cached).collect();
        full.sort_unstable();
        let state = |index: &usize| in_slc_mode(*index) && self.superblocks[*index].state == State::Full;
        assert!((0..self.superblocks.len()).filter(state).eq(full), "full SLC superblocks are cached or being folded");
        let (n, m) = (u64::from(self.geometry.units_per_page), u64::from(self.geometry.units_per_sense));
        let pages = self.geometry.slc_units_per_superblock / m;
        for index in (0..self.superblocks.len()).filter(|index| in_slc_mode(*index)) {
            for page in 0..u64::from(self.pages_per_superblock) {
                let first = index as u64 * self.geometry.units_per_superblock + page * n;
                let holds = if page < pages { u64::MAX >> (64 - m) } else { 0 };
                assert_eq!(self.valid.window(first, n as u32) & !holds, 0, "valid units where an SLC page has none");
            }
        }
    }
}
