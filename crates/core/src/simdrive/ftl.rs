//! Page-mapped flash translation layer: where each logical unit is, and which physical units are valid. Pure mapping:
//! it says which flash operations must happen, the drive decides when. Garbage collection is in `collect`, the
//! choice of its victims in `victims`, the places to write to in `frontier`, the SLC cache in `slc`,
//! hot and cold data in `pools`.
//!
//! Physical units are numbered so that consecutive pages are on consecutive dies:
//! unit = superblock * units_per_superblock + (row * dies + die) * units_per_page + plane position.
//! Limits: no wear levelling in this version.

use std::collections::VecDeque;

use super::collect::Victim;
use super::divisor::Divisor;
use super::frontier::Frontier;
use super::memory::{Bits, NONE, Table};
use super::moves::{Expected, Moves};
use super::params::Geometry;
use super::pools::Pool;
use super::slc::{CellMode, SlcCache};
use super::stamps::Stamps;
use super::victims::{Collection, Victims};

/// Fewer units than this are as fast one by one as together.
const FEW_UNITS: u32 = 4;

/// What must be done to flash. `page` is the physical page number; its die is page mod dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashWork {
    /// Read the valid units of a page that is being collected, with so many read operations.
    CollectRead { page: u32, units: u32, senses: u32, mode: CellMode },
    /// The same of several pages, and programs of the pages their units fill, each just before the read of the page
    /// that fills it.
    Move(Moves),
    /// Program a page of host or collected data; erase the die's block before it if `erase`. A page of host data is of
    /// so many units, by the mode.
    Program { page: u32, erase: bool, mode: CellMode, host: Option<u32> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Open,
    Full,
    /// Out of use for good: its blocks are bad.
    Retired,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Superblock {
    pub state: State,
    pub valid: u32,
    pub erases: u32,
    /// Holds old data and must be erased before it is programmed.
    pub used: bool,
    pub mode: CellMode,
}

/// Whole pages that the host has written, and the tables do not show yet: units and physical units from these on.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    physical: u32,
    count: u32,
}

/// Units moved since purge. Write amplification = (host + folded + collected) / host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub host_units: u64,
    pub collected_units: u64,
    /// From the SLC cache to the main area.
    pub folded_units: u64,
    pub padded_units: u64,
    pub erases: u64,
}

/// The mapping of a drive, and the state of its flash.
pub struct Ftl {
    pub(super) geometry: Geometry,
    pub(super) pages_per_superblock: u32,
    pub(super) collection: Collection,
    pub(super) victims: Victims,
    pub(super) superblock_of: Divisor,
    page_size: Divisor,
    sense_size: Divisor,
    pub(super) map: Table,
    /// Logical unit of each physical unit.
    pub(super) reverse: Table,
    /// One bit per physical unit.
    pub(super) valid: Bits,
    pub(super) superblocks: Vec<Superblock>,
    pub(super) free: VecDeque<u32>,
    pub(super) host: Frontier,
    run: Run,
    pub(super) collector: Frontier,
    /// The page handed out last, where both frontiers take their pages from one superblock.
    pub(super) shared: Option<Frontier>,
    pub(super) victim: Option<Victim>,
    /// Units the host may write before the next victim, where each is collected at once; below 0, it waits.
    pub(super) credit: i64,
    pub(super) slc: Option<SlcCache>,
    pub(super) counters: Counters,
    /// The pool that is not being written, of two; and which one is.
    pub(super) other: Option<Box<Pool>>,
    pub(super) in_cold: bool,
    pub(super) stamps: Option<Stamps>,
    pub(super) expected: Expected,
}

impl Ftl {
    /// A drive fresh out of the box. Errors: not enough memory for the tables.
    pub fn new(geometry: Geometry, collection: Collection) -> std::io::Result<Self> {
        let physical = geometry.units_per_superblock * (geometry.superblocks + geometry.slc_superblocks);
        assert!(physical < u64::from(NONE), "physical units are numbered with 32 bits");
        let tables = (Table::new(geometry.units)?, Table::new(physical)?, Bits::new(physical)?);
        Ok(Self::fresh(geometry, collection, tables))
    }

    /// Fresh out of the box again, in the same memory: twice the tables of a large drive may be more than there is.
    pub fn purge(&mut self) {
        let (mut map, mut reverse) = (std::mem::take(&mut self.map), std::mem::take(&mut self.reverse));
        let mut valid = std::mem::take(&mut self.valid);
        map.reset();
        reverse.reset();
        valid.reset();
        let kept_stamps = self.stamps.take().is_some();
        *self = Self::fresh(self.geometry, self.collection, (map, reverse, valid));
        if kept_stamps {
            self.keep_stamps();
        }
    }

    fn fresh(geometry: Geometry, collection: Collection, (map, reverse, valid): (Table, Table, Bits)) -> Self {
        let all = geometry.superblocks + geometry.slc_superblocks;
        let fresh = Superblock { state: State::Free, valid: 0, erases: 0, used: false, mode: CellMode::Native };
        let mut superblocks = vec![fresh; all as usize];
        superblocks[geometry.superblocks as usize..].iter_mut().for_each(|block| block.mode = CellMode::Slc);
        let (main, hot) = (geometry.superblocks as u32, geometry.hot_superblocks as u32);
        let cold = (hot > 0).then(|| Box::new(Pool::new(&collection, hot..main)));
        let pool = Pool::new(&collection, if hot > 0 { 0..hot } else { 0..main });
        let cached = geometry.slc_superblocks > 0 || collection.slc.dynamic_percent > 0.0;
        let mut ftl = Self {
            geometry,
            pages_per_superblock: (geometry.units_per_superblock / u64::from(geometry.units_per_page)) as u32,
            collection,
            victims: pool.victims,
            superblock_of: Divisor::new(geometry.units_per_superblock),
            page_size: Divisor::new(u64::from(geometry.units_per_page)),
            sense_size: Divisor::new(u64::from(geometry.units_per_sense)),
            map,
            reverse,
            valid,
            superblocks,
            free: pool.free,
            host: pool.host,
            run: Run { first: 0, physical: 0, count: 0 },
            collector: pool.collector,
            shared: pool.shared,
            victim: pool.victim,
            credit: pool.credit,
            slc: cached.then(|| SlcCache::new(main..all as u32)),
            counters: pool.counters,
            other: cold,
            in_cold: false,
            stamps: None,
            expected: Expected::default(),
        };
        for pool in (0..ftl.pools()).rev() {
            ftl.select_pool(pool);
            ftl.open_frontiers();
        }
        ftl
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Of all pools.
    pub fn counters(&self) -> Counters {
        let (a, b) = (self.counters, self.other.as_ref().map_or(Counters::default(), |other| other.counters));
        Counters {
            host_units: a.host_units + b.host_units,
            collected_units: a.collected_units + b.collected_units,
            folded_units: a.folded_units + b.folded_units,
            padded_units: a.padded_units + b.padded_units,
            erases: a.erases + b.erases,
        }
    }

    /// Units written to the pool, by the host and by collection: a clock that stands still while nothing is.
    pub(super) fn clock(&self) -> u64 {
        self.counters.host_units + self.counters.folded_units + self.counters.collected_units
    }

    /// Where a logical unit is: its physical page, a number that those units share which one read operation fetches,
    /// and the mode of its cells. `None` if it was never written.
    #[inline]
    pub fn place_of(&self, unit: u64) -> Option<(u32, u32, CellMode)> {
        let physical = self.map.get(unit);
        (physical != NONE).then(|| {
            let mode = match self.slc {
                None => CellMode::Native,
                Some(_) => self.superblocks[self.superblock_of.divide(physical) as usize].mode,
            };
            (self.page_size.divide(physical), self.sense_size.divide(physical), mode)
        })
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
                self.valid.prefetch(u64::from(old));
            }
        }
    }

    /// The page that collected data is gathering in.
    pub fn open_collector_page(&self) -> u32 {
        self.collector.page
    }

    /// The pages that host data is gathering in.
    pub fn open_pages(&self) -> [u32; 2] {
        [self.host.page, self.other.as_ref().map_or(self.host.page, |other| other.host.page)]
    }

    /// Units of a page of host data, and how its cells are programmed.
    #[inline]
    pub fn host_page(&self) -> (u32, CellMode) {
        (self.host.page_units, self.host.mode)
    }

    /// Units from `first` on that the open page of their pool still takes: at least one.
    #[inline]
    pub fn room_in_page(&mut self, first: u64) -> u32 {
        self.select(first);
        self.in_pool(first, self.host.page_units - self.host.filled)
    }

    /// The host writes `count` units, no more than the open page of their pool takes. When that fills it, `work` gets its program,
    /// and collection advances. The tables may show the units only after `settle`.
    #[inline(always)]
    pub fn write(&mut self, first: u64, count: u32, work: &mut Vec<FlashWork>) {
        self.select(first);
        let plain = count == self.host.page_units && self.plain_pages_left() > 0;
        if !plain || !self.continues_run(first) {
            self.settle();
        }
        if !plain {
            self.write_now(first, count, work);
        } else {
            work.push(self.host.program(Some(count)));
            self.write_pages(first, 1);
        }
    }

    /// Pages the host can write before collection, or a new superblock, changes anything.
    #[inline]
    fn plain_pages_left(&self) -> u32 {
        if self.has_spare() && !self.is_folding() { self.host.pages_left } else { 0 }
    }

    #[inline]
    fn continues_run(&self, first: u64) -> bool {
        self.run.count == 0 || first == self.run.first + u64::from(self.run.count)
    }

    /// How many whole pages, from unit `first` on, the host can write next that change nothing but the tables, and the
    /// first one's physical number.
    #[inline]
    pub fn plain_pages(&mut self, first: u64) -> (u32, u32) {
        self.select(first);
        if !self.continues_run(first) {
            self.settle();
        }
        let pages = if self.host.filled == 0 { self.plain_pages_left() } else { 0 };
        let pages = self.in_pool(first, pages * self.host.page_units) / self.host.page_units;
        (pages, self.host.page)
    }

    /// Whether the die of this plain page, the next one, must erase a block before it.
    #[inline]
    pub fn erase_due(&mut self, page: u32) -> bool {
        self.host.erases.due(page)
    }

    /// The host writes so many of the plain pages.
    #[inline]
    pub fn write_pages(&mut self, first: u64, pages: u32) {
        if self.run.count == 0 {
            (self.run.first, self.run.physical) = (first, self.host.page * self.geometry.units_per_page);
        }
        self.run.count += self.host.page_units * pages;
        self.host.page += pages;
        self.host.pages_left -= pages;
    }

    #[inline(always)]
    fn write_now(&mut self, first: u64, count: u32, work: &mut Vec<FlashWork>) {
        let physical = self.physical(&self.host);
        if count == 1 {
            self.invalidate_unit(first);
            self.place_unit(first, physical, self.host.superblock);
            if self.host.filled.is_multiple_of(2) {
                self.expect_some_moves(2);
            }
        } else if count < FEW_UNITS {
            for i in 0..count {
                self.invalidate_unit(first + u64::from(i));
                self.place_unit(first + u64::from(i), physical + i, self.host.superblock);
            }
        } else {
            self.invalidate(first, count);
            self.place(first, count, physical, self.host.superblock);
        }
        self.stamp_written(physical, count);
        self.counters.host_units += u64::from(count);
        self.advance_host(count, work);
    }

    /// Bring the tables up to date.
    #[inline]
    pub fn settle(&mut self) {
        if self.run.count > 0 {
            self.settle_run();
        }
    }

    #[inline(never)]
    fn settle_run(&mut self) {
        let Run { first, physical, count } = self.run;
        self.run.count = 0;
        // Pages follow one another without a gap, but for those in SLC mode.
        let (size, step) = (self.host.page_units, self.geometry.units_per_page);
        let together = if size == step { count } else { size };
        for (done, place) in (0..count).step_by(together as usize).zip((physical..).step_by(step as usize)) {
            self.invalidate(first + u64::from(done), together);
            self.place(first + u64::from(done), together, place, self.host.superblock);
            self.stamp_written(place, together);
        }
        self.counters.host_units += u64::from(count);
    }

    /// Fill the pool's open host page with nothing, so that it can be programmed now. False if it is empty.
    pub fn pad(&mut self, work: &mut Vec<FlashWork>) -> bool {
        if self.host.filled == 0 {
            return false;
        }
        let (first, count) = (self.physical(&self.host), self.host.page_units - self.host.filled);
        self.reverse.slice_mut(u64::from(first), count).fill(NONE);
        self.counters.padded_units += u64::from(count);
        self.advance_host(count, work);
        true
    }

    #[inline(always)]
    fn advance_host(&mut self, count: u32, work: &mut Vec<FlashWork>) {
        self.host.filled += count;
        if self.host.filled >= self.host.page_units {
            self.host_page_full(work);
        }
    }

    fn host_page_full(&mut self, work: &mut Vec<FlashWork>) {
        let (units, mode) = self.host_page();
        work.push(self.host.program(Some(units)));
        if self.host.turn_page() {
            self.move_host(work);
        }
        self.reclaim(u64::from(units), mode, work);
    }

    #[inline]
    pub(super) fn physical(&self, frontier: &Frontier) -> u32 {
        frontier.page * self.geometry.units_per_page + frontier.filled
    }

    /// The host needs these units no longer.
    pub fn trim(&mut self, units: std::ops::Range<u64>) {
        self.settle();
        for unit in units {
            self.invalidate_unit(unit);
            self.map.set(unit, NONE);
        }
        self.prefer_slc();
    }

    /// The unit is now at `physical`.
    #[inline]
    pub(super) fn place_unit(&mut self, unit: u64, physical: u32, superblock: u32) {
        self.map.set(unit, physical);
        self.reverse.set(u64::from(physical), unit as u32);
        self.valid.set_one(physical);
        self.superblocks[superblock as usize].valid += 1;
    }

    #[inline]
    fn invalidate_unit(&mut self, unit: u64) {
        let old = self.map.get(unit);
        if old != NONE {
            self.valid.clear_one(old);
            self.superblocks[self.superblock_of.divide(old) as usize].valid -= 1;
        }
    }
}
