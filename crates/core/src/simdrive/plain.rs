//! A second mapping layer for the tests, slow and obvious: what each place in flash was written with, and where each
//! unit was written last. A place is valid if both agree; everything else is counted anew each time. The drive's own
//! must do the same, superblock by superblock, victim by victim (`plain_steps`).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::ftl::{Counters, Ftl, State};
use super::memory::NONE;
use super::params::Geometry;
use super::slc::CellMode;
use super::victims::{Collection, GcPacing, GcPolicy, SEED};

#[derive(Clone)]
pub(super) struct Block {
    /// The units written to it, in order; `None` is padding.
    pub holds: Vec<Option<u64>>,
    pub state: State,
    pub erases: u32,
    pub filled_at: u64,
    pub slc: bool,
}

/// A page that gathers data, and those behind it that are its own.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub block: usize,
    pub page: usize,
    pub filled: usize,
    pub pages_left: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub block: usize,
    pub next_page: usize,
    pub valid_at_start: u64,
    pub copied: u64,
    pub host: u64,
}

pub(super) struct Plain {
    /// Of a pool: its first superblock and its first unit among all.
    pub first: (usize, u64),
    pub collection: Collection,
    pub page_units: usize,
    pub sense_units: usize,
    pub pages: usize,
    pub slc_pages: usize,
    /// Those behind this one are the static SLC cache.
    pub main: usize,
    pub blocks: Vec<Block>,
    pub home: Vec<Option<(usize, usize)>>,
    pub free: Vec<usize>,
    pub host: Place,
    pub collector: Place,
    pub shared: Option<Place>,
    pub victim: Option<Victim>,
    pub credit: i64,
    pub slc_free: Vec<usize>,
    pub slc_full: Vec<usize>,
    pub fold: Option<Victim>,
    pub parked: Option<Place>,
    pub folding: bool,
    pub counters: Counters,
    /// Read operations of collection.
    pub senses: u64,
    pub rng: Xoshiro256PlusPlus,
}

impl Plain {
    pub fn new(geometry: &Geometry, collection: Collection) -> Self {
        let page_units = geometry.units_per_page as usize;
        let main = geometry.superblocks as usize;
        let block = Block { holds: vec![], state: State::Free, erases: 0, filled_at: 0, slc: false };
        let mut blocks = vec![block.clone(); main];
        blocks.resize(main + geometry.slc_superblocks as usize, Block { slc: true, ..block });
        let nowhere = Place { block: 0, page: 0, filled: 0, pages_left: 0 };
        let mut plain = Self {
            first: (0, 0),
            collection,
            page_units,
            sense_units: geometry.units_per_sense as usize,
            pages: geometry.units_per_superblock as usize / page_units,
            slc_pages: geometry.slc_units_per_superblock as usize / geometry.units_per_sense as usize,
            main,
            slc_free: (main..blocks.len()).collect(),
            slc_full: vec![],
            fold: None,
            parked: None,
            folding: false,
            blocks,
            home: vec![None; geometry.units as usize],
            free: (0..main).collect(),
            host: nowhere,
            collector: nowhere,
            shared: (collection.frontiers == 1).then_some(nowhere),
            victim: None,
            credit: 0,
            counters: Counters::default(),
            senses: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(SEED),
        };
        plain.host = plain.next_host();
        plain.collector = plain.next_place();
        plain
    }

    pub fn capacity(&self) -> u64 {
        (self.pages * self.page_units) as u64
    }

    fn is_valid(&self, block: usize, place: usize) -> bool {
        let unit = self.blocks[block].holds.get(place).copied().flatten();
        unit.is_some_and(|unit| self.home[unit as usize] == Some((block, place)))
    }

    pub fn valid(&self, block: usize) -> u64 {
        (0..self.pages * self.page_units).filter(|place| self.is_valid(block, *place)).count() as u64
    }

    fn open(&mut self) -> Place {
        let block = self.free.remove(0);
        self.open_block(block)
    }

    pub fn open_block(&mut self, block: usize) -> Place {
        self.blocks[block].state = State::Open;
        self.blocks[block].holds = vec![None; self.pages * self.page_units];
        let pages = if self.blocks[block].slc { self.slc_pages } else { self.pages };
        Place { block, page: 0, filled: 0, pages_left: pages - 1 }
    }

    /// Units of the page that host data is gathering in.
    pub fn host_page(&self) -> usize {
        if self.blocks[self.host.block].slc { self.sense_units } else { self.page_units }
    }

    pub fn next_place(&mut self) -> Place {
        match self.shared {
            None => self.open(),
            Some(last) => {
                let next = if last.pages_left == 0 {
                    self.open()
                } else {
                    Place { page: last.page + 1, pages_left: last.pages_left - 1, ..last }
                };
                self.shared = Some(next);
                Place { pages_left: 0, ..next }
            }
        }
    }

    pub fn next_page(here: Place) -> Option<Place> {
        (here.pages_left > 0).then(|| Place { page: here.page + 1, filled: 0, pages_left: here.pages_left - 1, ..here })
    }

    fn turn_host(&mut self) {
        let left = self.host.block;
        if let Some(next) = Self::next_page(self.host) {
            self.host = next;
        } else if self.blocks[left].slc {
            self.blocks[left].state = State::Full;
            self.slc_full.push(left);
            self.host = self.next_host();
        } else {
            self.host = self.next_host();
            self.close(left);
        }
    }

    fn turn_collector(&mut self) {
        let left = self.collector.block;
        match Self::next_page(self.collector) {
            Some(next) => self.collector = next,
            None => {
                self.collector = self.next_place();
                self.close(left);
            }
        }
    }

    /// Full is a superblock that nobody has a page in, or will come back to.
    fn close(&mut self, block: usize) {
        let shared = self.shared.filter(|place| place.pages_left > 0);
        let places = [Some(self.host), Some(self.collector), self.parked, shared];
        if !places.iter().flatten().any(|place| place.block == block) {
            self.blocks[block].state = State::Full;
            self.blocks[block].filled_at = self.now();
        }
    }

    fn now(&self) -> u64 {
        self.counters.host_units + self.counters.collected_units + self.counters.folded_units
    }

    fn put(&mut self, at: Place, unit: Option<u64>) {
        let place = at.page * self.page_units + at.filled;
        self.blocks[at.block].holds[place] = unit;
        if let Some(unit) = unit {
            self.home[unit as usize] = Some((at.block, place));
        }
    }

    pub fn write(&mut self, unit: Option<u64>) {
        self.put(self.host, unit);
        *(if unit.is_some() { &mut self.counters.host_units } else { &mut self.counters.padded_units }) += 1;
        self.host.filled += 1;
        let size = self.host_page();
        if self.host.filled == size {
            let slc = self.blocks[self.host.block].slc;
            self.turn_host();
            let used = if slc { self.pace_fold(size as u64) } else { size as u64 };
            self.reclaim(used);
        }
    }

    /// So many units of the main area are used.
    pub fn reclaim(&mut self, units: u64) {
        match self.collection.pacing {
            _ if units == 0 => {}
            GcPacing::Paced => self.pace(units),
            GcPacing::Line => self.collect_line(units),
        }
    }

    pub fn has_spare(&self) -> bool {
        self.free.len() > self.collection.reserve as usize
    }

    fn pace(&mut self, units: u64) {
        let mut owed = units;
        while !self.has_spare() && self.have_victim(self.collection.reserve as usize + 1) {
            let mut victim = self.victim.unwrap();
            victim.host += owed;
            self.victim = Some(victim);
            let gain = self.capacity() - victim.valid_at_start;
            let urgent = self.free.len() < 2;
            // Of what must be copied, the share that the host has used of what is gained.
            while urgent || self.victim.unwrap().copied * gain < victim.host * victim.valid_at_start {
                if !self.collect_page() {
                    break;
                }
            }
            if self.valid(victim.block) > 0 {
                return;
            }
            self.release();
            owed = victim.host.saturating_sub(gain);
        }
    }

    fn collect_line(&mut self, units: u64) {
        if self.has_spare() {
            return;
        }
        self.credit -= units as i64;
        while !self.has_spare() && (self.credit <= 0 || self.free.len() < 2) {
            if !self.have_victim(self.collection.reserve as usize + 1) {
                break;
            }
            while self.collect_page() {}
            self.credit += (self.capacity() - self.victim.unwrap().valid_at_start) as i64;
            self.release();
        }
        self.credit = self.credit.max(0);
    }

    pub fn collect_idly(&mut self, enough: usize) -> bool {
        if self.free.len() >= enough || !self.have_victim(enough) {
            return false;
        }
        self.collect_page();
        if self.valid(self.victim.unwrap().block) == 0 {
            self.release();
        }
        true
    }

    fn have_victim(&mut self, enough: usize) -> bool {
        while self.victim.is_none() && self.free.len() < enough {
            let dynamic = self.slc_full.iter().position(|block| *block < self.main);
            let victim = if let Some(fold) = self.fold.take_if(|fold| fold.block < self.main) {
                Victim { next_page: fold.next_page, ..self.victim_of(fold.block) }
            } else if let Some(oldest) = dynamic {
                let block = self.slc_full.remove(oldest);
                self.victim_of(block)
            } else {
                let Some(block) = self.choose() else { return false };
                self.victim_of(block)
            };
            self.victim = Some(victim);
            if victim.valid_at_start == 0 {
                self.release();
            }
        }
        self.victim.is_some()
    }

    fn choose(&mut self) -> Option<usize> {
        let full: Vec<usize> = (0..self.main).filter(|b| self.blocks[*b].state == State::Full).collect();
        if full.iter().all(|block| self.valid(*block) == self.capacity()) {
            return None;
        }
        let now = self.now();
        // Lowest first; the sort is stable.
        let first = |mut blocks: Vec<usize>, key: &dyn Fn(usize) -> f64| {
            blocks.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
            Some(blocks[0])
        };
        match self.collection.policy {
            GcPolicy::Greedy => first(full, &|block| self.valid(block) as f64),
            GcPolicy::Fifo => first(full, &|block| self.blocks[block].filled_at as f64),
            GcPolicy::Random => Some(self.draw()),
            GcPolicy::DChoices => {
                let drawn = (0..self.collection.choices).map(|_| self.draw()).collect();
                first(drawn, &|block| self.valid(block) as f64)
            }
            GcPolicy::CostBenefit => first(full, &|block| {
                let (valid, age) = (self.valid(block), now - self.blocks[block].filled_at + 1);
                -(((self.capacity() - valid) * age) as f64 / valid as f64)
            }),
        }
    }

    fn draw(&mut self) -> usize {
        loop {
            let block = ((u128::from(self.rng.next_u64()) * self.main as u128) >> 64) as usize;
            if self.blocks[block].state == State::Full {
                return block;
            }
        }
    }

    fn collect_page(&mut self) -> bool {
        let mut victim = self.victim.unwrap();
        let moved = self.move_page(&mut victim);
        self.victim = Some(victim);
        moved
    }

    /// Move what is valid on the next page of the victim that holds any; false if none does.
    pub fn move_page(&mut self, victim: &mut Victim) -> bool {
        while victim.next_page < self.pages {
            let places = victim.next_page * self.page_units..(victim.next_page + 1) * self.page_units;
            let moving: Vec<usize> = places.filter(|place| self.is_valid(victim.block, *place)).collect();
            victim.next_page += 1;
            victim.copied += moving.len() as u64;
            let mut senses: Vec<usize> = moving.iter().map(|place| place / self.sense_units).collect();
            senses.dedup();
            self.senses += senses.len() as u64;
            for place in &moving {
                self.put(self.collector, self.blocks[victim.block].holds[*place]);
                let slc = self.blocks[victim.block].slc;
                *(if slc { &mut self.counters.folded_units } else { &mut self.counters.collected_units }) += 1;
                self.collector.filled += 1;
                if self.collector.filled == self.page_units {
                    self.turn_collector();
                }
            }
            if !moving.is_empty() {
                return true;
            }
        }
        false
    }

    fn release(&mut self) {
        let block = self.victim.take().unwrap().block;
        self.erase(block);
    }

    pub fn erase(&mut self, block: usize) {
        let old = &self.blocks[block];
        let (erases, of_cache) = (old.erases + 1, block >= self.main);
        self.blocks[block] = Block { holds: vec![], state: State::Free, erases, filled_at: 0, slc: of_cache };
        self.counters.erases += 1;
        (if of_cache { &mut self.slc_free } else { &mut self.free }).push(block);
        self.leave_main();
    }

    pub fn assert_same_victim(&self, ftl: &Ftl, senses: u64) {
        assert_eq!(senses, self.senses, "read operations");
        let victim =
            |v: &super::collect::Victim| (v.superblock as usize - self.first.0, v.cursor as usize / self.page_units);
        assert_eq!(ftl.victim.as_ref().map(victim), self.victim.map(|v| (v.block, v.next_page)), "the victim");
        let folded = ftl.slc.as_ref().and_then(|slc| slc.fold.as_ref().map(victim));
        assert_eq!(folded, self.fold.map(|v| (v.block, v.next_page)), "what is folded");
        assert_eq!((ftl.counters, ftl.credit), (self.counters, self.credit));
    }

    pub fn assert_same(&self, ftl: &Ftl, senses: u64) {
        let physical = |(block, place)| ((self.first.0 + block) as u64 * self.capacity()) as u32 + place as u32;
        for (unit, home) in self.home.iter().enumerate() {
            assert_eq!(ftl.map.get(self.first.1 + unit as u64), home.map_or(NONE, physical), "where unit {unit} is");
        }
        let first_unit = |f: &super::frontier::Frontier| f.page * self.page_units as u32 + f.filled;
        let place = |p: &Place| physical((p.block, p.page * self.page_units + p.filled));
        assert_eq!(first_unit(&ftl.host), place(&self.host), "where host data goes");
        assert_eq!(first_unit(&ftl.collector), place(&self.collector), "where collected data goes");
        self.assert_same_victim(ftl, senses);
        assert!(
            ftl.free.iter().map(|block| *block as usize - self.first.0).eq(self.free.iter().copied()),
            "free superblocks"
        );
        if let Some(slc) = &ftl.slc {
            assert!(
                slc.free.iter().map(|block| *block as usize).eq(self.slc_free.iter().copied()),
                "free in the cache"
            );
            assert!(
                slc.full.iter().map(|block| *block as usize).eq(self.slc_full.iter().copied()),
                "full in the cache"
            );
        }
        for (index, (ours, plain)) in ftl.superblocks[self.first.0..].iter().zip(&self.blocks).enumerate() {
            let theirs = (plain.state, self.valid(index), plain.erases, plain.slc);
            let slc = ours.mode == CellMode::Slc;
            assert_eq!((ours.state, u64::from(ours.valid), ours.erases, slc), theirs, "superblock {index}");
        }
    }
}
