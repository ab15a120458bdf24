//! Page-mapped flash translation layer: where each logical unit is, which physical units are valid, and greedy
//! garbage collection paced by the host's writes. Pure mapping: it says which flash operations must happen, the
//! drive decides when.
//!
//! Host data and collected data have a write frontier each. Physical units are numbered so that consecutive
//! pages are on consecutive dies: unit = superblock * units_per_superblock + (row * dies + die) * units_per_page
//! + plane position. Limits: no TRIM, no idle-time collection, no wear levelling in this version.

use std::collections::VecDeque;

use super::divisor::Divisor;
use super::memory::{NONE, Table};
use super::params::Geometry;
use super::prefetch::prefetch;

/// How many units ahead of collection map entries are fetched.
const COLLECT_AHEAD: u64 = 32;

/// With fewer free superblocks than this, collection goes first: both frontiers may need a new one.
const LEAST_FREE: usize = 2;

/// What must be done to flash. `page` is the physical page number; its die is page mod dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashWork {
    /// Read the valid units of a page that is being collected.
    CollectRead { page: u32, units: u32 },
    /// Program a page of host or collected data; erase the die's block before it if `erase`.
    Program { page: u32, erase: bool, host: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Full,
}

#[derive(Debug, Clone, Copy)]
struct Superblock {
    state: State,
    valid: u32,
    erases: u32,
    /// Holds old data and must be erased before it is programmed.
    used: bool,
}

/// Where the next unit of host or collected data goes.
#[derive(Debug, Clone, Copy)]
struct Frontier {
    superblock: u32,
    next: u64,
}

/// A superblock that is being collected.
#[derive(Debug, Clone, Copy)]
struct Victim {
    superblock: u32,
    /// Next unit to look at.
    cursor: u64,
    valid_at_start: u64,
    copied: u64,
    /// Units the host has written since collection began.
    host_units: u64,
}

/// Units moved since purge. Write amplification = (host + collected) / host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub host_units: u64,
    pub collected_units: u64,
    pub padded_units: u64,
    pub erases: u64,
}

pub struct Ftl {
    geometry: Geometry,
    reserve: usize,
    superblock_of: Divisor,
    page_size: Divisor,
    map: Table,
    /// Logical unit of each physical unit.
    reverse: Table,
    /// One bit per physical unit.
    valid: Vec<u64>,
    superblocks: Vec<Superblock>,
    free: VecDeque<u32>,
    host: Frontier,
    collector: Frontier,
    victim: Option<Victim>,
    counters: Counters,
}

impl Ftl {
    /// A drive fresh out of the box. Errors: not enough memory for the tables.
    pub fn new(geometry: Geometry, reserve: u32) -> std::io::Result<Self> {
        let physical = geometry.units_per_superblock * geometry.superblocks;
        assert!(physical < u64::from(NONE), "physical units are numbered with 32 bits");
        let fresh = Superblock { state: State::Free, valid: 0, erases: 0, used: false };
        let mut ftl = Self {
            geometry,
            reserve: reserve as usize,
            superblock_of: Divisor::new(geometry.units_per_superblock),
            page_size: Divisor::new(u64::from(geometry.units_per_page)),
            map: Table::new(geometry.units)?,
            reverse: Table::new(physical)?,
            valid: vec![0; physical.div_ceil(64) as usize],
            superblocks: vec![fresh; geometry.superblocks as usize],
            free: (0..geometry.superblocks as u32).collect(),
            host: Frontier { superblock: 0, next: 0 },
            collector: Frontier { superblock: 0, next: 0 },
            victim: None,
            counters: Counters::default(),
        };
        ftl.host = ftl.open_superblock();
        ftl.collector = ftl.open_superblock();
        Ok(ftl)
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The physical page of a logical unit, `None` if it was never written.
    #[inline]
    pub fn page_of(&self, unit: u64) -> Option<u32> {
        let physical = self.map.get(unit);
        (physical != NONE).then(|| self.page_size.divide(physical))
    }

    /// The units' map entries will be needed soon.
    #[inline]
    pub fn expect(&self, first_unit: u64, units: u32) {
        for line in (0..u64::from(units)).step_by(64 / size_of::<u32>()) {
            self.map.prefetch(first_unit + line);
        }
    }

    /// These units, if they exist, will be overwritten soon.
    #[inline]
    pub fn expect_overwrite(&self, units: std::ops::Range<u64>) {
        for unit in units.start..units.end.min(self.geometry.units) {
            let old = self.map.get(unit);
            if old != NONE {
                prefetch(&self.valid, (old / 64) as usize);
            }
        }
    }

    /// The page that host data is gathering in.
    pub fn open_page(&self) -> u32 {
        self.physical(self.host) / self.geometry.units_per_page
    }

    /// The host writes a unit. When that fills a page, `work` gets its program, and collection advances.
    #[inline]
    pub fn write(&mut self, unit: u64, work: &mut Vec<FlashWork>) -> bool {
        self.invalidate(unit);
        let physical = self.physical(self.host);
        self.place(unit, physical, self.host.superblock);
        self.counters.host_units += 1;
        self.advance_host(work)
    }

    /// Fill the open host page with nothing, so that it can be programmed now. False if it is empty.
    pub fn pad(&mut self, work: &mut Vec<FlashWork>) -> bool {
        if self.host.next.is_multiple_of(u64::from(self.geometry.units_per_page)) {
            return false;
        }
        loop {
            self.counters.padded_units += 1;
            let physical = self.physical(self.host);
            self.reverse.set(u64::from(physical), NONE);
            if self.advance_host(work) {
                return true;
            }
        }
    }

    fn advance_host(&mut self, work: &mut Vec<FlashWork>) -> bool {
        let n = u64::from(self.geometry.units_per_page);
        self.host.next += 1;
        if !self.host.next.is_multiple_of(n) {
            return false;
        }
        self.program(self.host, true, work);
        if self.host.next == self.geometry.units_per_superblock {
            self.superblocks[self.host.superblock as usize].state = State::Full;
            self.host = self.open_superblock();
        }
        self.pace(n, work);
        true
    }

    /// The page just before `frontier.next` is full: program it.
    fn program(&self, frontier: Frontier, host: bool, work: &mut Vec<FlashWork>) {
        let n = u64::from(self.geometry.units_per_page);
        let first = frontier.next - n;
        let base = u64::from(frontier.superblock) * self.geometry.units_per_superblock;
        let row = n * u64::from(self.geometry.dies);
        // Each die erases its block just before the first page it programs there.
        let erase = first < row && self.superblocks[frontier.superblock as usize].used;
        work.push(FlashWork::Program { page: ((base + first) / n) as u32, erase, host });
    }

    #[inline]
    fn physical(&self, frontier: Frontier) -> u32 {
        (u64::from(frontier.superblock) * self.geometry.units_per_superblock + frontier.next) as u32
    }

    #[inline]
    fn place(&mut self, unit: u64, physical: u32, superblock: u32) {
        self.map.set(unit, physical);
        self.reverse.set(u64::from(physical), unit as u32);
        self.valid[(physical / 64) as usize] |= 1 << (physical % 64);
        self.superblocks[superblock as usize].valid += 1;
    }

    #[inline]
    fn invalidate(&mut self, unit: u64) {
        let old = self.map.get(unit);
        if old != NONE {
            self.valid[(old / 64) as usize] &= !(1 << (old % 64));
            self.superblocks[self.superblock_of.divide(old) as usize].valid -= 1;
        }
    }

    fn open_superblock(&mut self) -> Frontier {
        let superblock = self.free.pop_front().expect("collection keeps a reserve of free superblocks");
        self.superblocks[superblock as usize].state = State::Open;
        Frontier { superblock, next: 0 }
    }

    /// The host has written `units` more. Collect so much that, when the victim is done, the host has used just
    /// the units that collecting it gives back: the work is spread evenly, and free space neither grows nor ends.
    /// What the host wrote beyond that counts for the next victim. Should free superblocks run short all the same,
    /// the host waits for collection.
    fn pace(&mut self, units: u64, work: &mut Vec<FlashWork>) {
        let mut host_units = units;
        loop {
            if self.victim.is_none() {
                self.choose_victim();
            }
            let Some(mut victim) = self.victim.take() else { return };
            victim.host_units += host_units;
            let gain = self.geometry.units_per_superblock - victim.valid_at_start;
            let urgent = self.free.len() < LEAST_FREE;
            while urgent || victim.copied * gain < victim.host_units * victim.valid_at_start {
                if !self.collect_page(&mut victim, work) {
                    break;
                }
            }
            let left = self.superblocks[victim.superblock as usize].valid;
            if left > 0 {
                self.victim = Some(victim);
                return;
            }
            self.release(victim.superblock);
            host_units = victim.host_units.saturating_sub(gain);
        }
    }

    /// Greedy: the full superblock with the fewest valid units, the lowest numbered of equals. Those with none
    /// are released at once.
    fn choose_victim(&mut self) {
        while self.free.len() <= self.reserve {
            let full = self.superblocks.iter().enumerate().filter(|(_, block)| block.state == State::Full);
            let Some((index, block)) = full.min_by_key(|(_, block)| block.valid) else { return };
            let (superblock, valid) = (index as u32, u64::from(block.valid));
            if valid == self.geometry.units_per_superblock {
                return; // Nothing anywhere would be gained by collecting.
            }
            if valid > 0 {
                self.victim = Some(Victim { superblock, cursor: 0, valid_at_start: valid, copied: 0, host_units: 0 });
                return;
            }
            self.release(superblock);
        }
    }

    fn release(&mut self, superblock: u32) {
        let block = &mut self.superblocks[superblock as usize];
        assert_eq!(block.valid, 0, "a superblock is released when nothing valid is left in it");
        *block = Superblock { state: State::Free, valid: 0, erases: block.erases + 1, used: true };
        self.counters.erases += 1;
        self.free.push_back(superblock);
    }

    /// Move the valid units of the victim's next page that has any. False when there is none left.
    fn collect_page(&mut self, victim: &mut Victim, work: &mut Vec<FlashWork>) -> bool {
        let n = u64::from(self.geometry.units_per_page);
        let base = u64::from(victim.superblock) * self.geometry.units_per_superblock;
        while victim.cursor < self.geometry.units_per_superblock {
            let first = base + victim.cursor;
            victim.cursor += n;
            self.expect_moves(first + COLLECT_AHEAD);
            let mut valid = self.valid_in_page(first);
            let moved = u64::from(valid.count_ones());
            while valid != 0 {
                self.move_unit(first + u64::from(valid.trailing_zeros()), victim.superblock, work);
                valid &= valid - 1;
            }
            if moved > 0 {
                victim.copied += moved;
                work.push(FlashWork::CollectRead { page: (first / n) as u32, units: moved as u32 });
                return true;
            }
        }
        false
    }

    /// The map entries of the valid units of the page at `from` will be needed soon.
    #[inline]
    fn expect_moves(&self, from: u64) {
        let mut valid = self.valid_in_page(from);
        while valid != 0 {
            self.map.prefetch(u64::from(self.reverse.get(from + u64::from(valid.trailing_zeros()))));
            valid &= valid - 1;
        }
    }

    /// The valid units of the page that begins at `first`, as bits; none past the end of the flash.
    #[inline]
    fn valid_in_page(&self, first: u64) -> u64 {
        let n = u64::from(self.geometry.units_per_page);
        let (word, bit) = ((first / 64) as usize, first % 64);
        let Some(&low) = self.valid.get(word) else { return 0 };
        let mut bits = low >> bit;
        if bit + n > 64 {
            bits |= self.valid.get(word + 1).map_or(0, |high| high << (64 - bit));
        }
        if n < 64 { bits & ((1 << n) - 1) } else { bits }
    }

    fn move_unit(&mut self, from: u64, victim: u32, work: &mut Vec<FlashWork>) {
        let unit = u64::from(self.reverse.get(from));
        self.valid[(from / 64) as usize] &= !(1 << (from % 64));
        self.superblocks[victim as usize].valid -= 1;
        let physical = self.physical(self.collector);
        self.place(unit, physical, self.collector.superblock);
        self.counters.collected_units += 1;
        self.collector.next += 1;
        if self.collector.next.is_multiple_of(u64::from(self.geometry.units_per_page)) {
            self.program(self.collector, false, work);
        }
        if self.collector.next == self.geometry.units_per_superblock {
            self.superblocks[self.collector.superblock as usize].state = State::Full;
            self.collector = self.open_superblock();
        }
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
                assert_ne!(self.valid[(physical / 64) as usize] & (1 << (physical % 64)), 0, "unit {unit} is valid");
                valid[(u64::from(physical) / self.geometry.units_per_superblock) as usize] += 1;
            }
        }
        let bits: u64 = self.valid.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, mapped, "valid physical units = mapped logical units");
        for (index, block) in self.superblocks.iter().enumerate() {
            assert_eq!(block.valid, valid[index], "valid count of superblock {index}");
        }
        let erases: u64 = self.superblocks.iter().map(|block| u64::from(block.erases)).sum();
        assert_eq!(erases, self.counters.erases, "erase counts add up");
        let free = self.superblocks.iter().filter(|block| block.state == State::Free).count();
        assert_eq!(free, self.free.len(), "free superblocks");
    }
}
