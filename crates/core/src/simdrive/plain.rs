//! A second mapping layer for the tests, slow and obvious: what each place in flash was written with, and where each
//! unit was written last. A place is valid if both agree; everything else is counted anew each time. The drive's own
//! must do the same, superblock by superblock, victim by victim.

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::ftl::{Counters, Ftl, State};
use super::memory::NONE;
use super::params::Geometry;
use super::victims::{Collection, GcPacing, GcPolicy, SEED};

#[derive(Clone)]
struct Block {
    /// The units written to it, in order; `None` is padding.
    holds: Vec<Option<u64>>,
    state: State,
    erases: u32,
    filled_at: u64,
}

/// A page that gathers data, and those behind it that are its own.
#[derive(Clone, Copy)]
struct Place {
    block: usize,
    page: usize,
    filled: usize,
    pages_left: usize,
}

#[derive(Clone, Copy)]
struct Victim {
    block: usize,
    next_page: usize,
    valid_at_start: u64,
    copied: u64,
    host: u64,
}

struct Plain {
    collection: Collection,
    page_units: usize,
    pages: usize,
    blocks: Vec<Block>,
    home: Vec<Option<(usize, usize)>>,
    free: Vec<usize>,
    host: Place,
    collector: Place,
    shared: Option<Place>,
    victim: Option<Victim>,
    credit: i64,
    counters: Counters,
    rng: Xoshiro256PlusPlus,
}

impl Plain {
    fn new(geometry: &Geometry, collection: Collection) -> Self {
        let page_units = geometry.units_per_page as usize;
        let count = geometry.superblocks as usize;
        let nowhere = Place { block: 0, page: 0, filled: 0, pages_left: 0 };
        let mut plain = Self {
            collection,
            page_units,
            pages: geometry.units_per_superblock as usize / page_units,
            blocks: vec![Block { holds: vec![], state: State::Free, erases: 0, filled_at: 0 }; count],
            home: vec![None; geometry.units as usize],
            free: (0..count).collect(),
            host: nowhere,
            collector: nowhere,
            shared: (collection.frontiers == 1).then_some(nowhere),
            victim: None,
            credit: 0,
            counters: Counters::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(SEED),
        };
        plain.host = plain.next_place();
        plain.collector = plain.next_place();
        plain
    }

    fn capacity(&self) -> u64 {
        (self.pages * self.page_units) as u64
    }

    fn is_valid(&self, block: usize, place: usize) -> bool {
        let unit = self.blocks[block].holds.get(place).copied().flatten();
        unit.is_some_and(|unit| self.home[unit as usize] == Some((block, place)))
    }

    fn valid(&self, block: usize) -> u64 {
        (0..self.pages * self.page_units).filter(|place| self.is_valid(block, *place)).count() as u64
    }

    fn open(&mut self) -> Place {
        let block = self.free.remove(0);
        self.blocks[block].state = State::Open;
        self.blocks[block].holds = vec![None; self.pages * self.page_units];
        Place { block, page: 0, filled: 0, pages_left: self.pages - 1 }
    }

    fn next_place(&mut self) -> Place {
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

    /// Where the frontier goes when its page is full. Full is a superblock in which neither has a page.
    fn turn(&mut self, here: Place, other: usize) -> Place {
        if here.pages_left > 0 {
            return Place { page: here.page + 1, filled: 0, pages_left: here.pages_left - 1, ..here };
        }
        let next = self.next_place();
        if next.block != here.block && other != here.block {
            self.blocks[here.block].state = State::Full;
            self.blocks[here.block].filled_at = self.counters.host_units + self.counters.collected_units;
        }
        next
    }

    fn put(&mut self, at: Place, unit: Option<u64>) {
        let place = at.page * self.page_units + at.filled;
        self.blocks[at.block].holds[place] = unit;
        if let Some(unit) = unit {
            self.home[unit as usize] = Some((at.block, place));
        }
    }

    fn write(&mut self, unit: Option<u64>) {
        self.put(self.host, unit);
        *(if unit.is_some() { &mut self.counters.host_units } else { &mut self.counters.padded_units }) += 1;
        self.host.filled += 1;
        if self.host.filled == self.page_units {
            self.host = self.turn(self.host, self.collector.block);
            match self.collection.pacing {
                GcPacing::Paced => self.pace(),
                GcPacing::Line => self.collect_line(),
            }
        }
    }

    fn has_spare(&self) -> bool {
        self.free.len() > self.collection.reserve as usize
    }

    fn pace(&mut self) {
        let mut owed = self.page_units as u64;
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

    fn collect_line(&mut self) {
        if self.has_spare() {
            return;
        }
        self.credit -= self.page_units as i64;
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

    fn collect_idly(&mut self, enough: usize) -> bool {
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
            let Some(block) = self.choose() else { return false };
            let valid_at_start = self.valid(block);
            self.victim = Some(Victim { block, next_page: 0, valid_at_start, copied: 0, host: 0 });
            if valid_at_start == 0 {
                self.release();
            }
        }
        self.victim.is_some()
    }

    fn choose(&mut self) -> Option<usize> {
        let full: Vec<usize> = (0..self.blocks.len()).filter(|b| self.blocks[*b].state == State::Full).collect();
        if full.iter().all(|block| self.valid(*block) == self.capacity()) {
            return None;
        }
        let now = self.counters.host_units + self.counters.collected_units;
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
            let block = ((u128::from(self.rng.next_u64()) * self.blocks.len() as u128) >> 64) as usize;
            if self.blocks[block].state == State::Full {
                return block;
            }
        }
    }

    /// Move what is valid on the next page of the victim that holds any; false if none does.
    fn collect_page(&mut self) -> bool {
        let mut victim = self.victim.unwrap();
        while victim.next_page < self.pages {
            let places = victim.next_page * self.page_units..(victim.next_page + 1) * self.page_units;
            let moving: Vec<usize> = places.filter(|place| self.is_valid(victim.block, *place)).collect();
            victim.next_page += 1;
            victim.copied += moving.len() as u64;
            self.victim = Some(victim);
            for place in &moving {
                self.put(self.collector, self.blocks[victim.block].holds[*place]);
                self.counters.collected_units += 1;
                self.collector.filled += 1;
                if self.collector.filled == self.page_units {
                    self.collector = self.turn(self.collector, self.host.block);
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
        let erases = self.blocks[block].erases + 1;
        self.blocks[block] = Block { holds: vec![], state: State::Free, erases, filled_at: 0 };
        self.counters.erases += 1;
        self.free.push(block);
    }

    fn assert_same_victim(&self, ftl: &Ftl) {
        let victim = |v: &super::collect::Victim| (v.superblock as usize, v.cursor as usize / self.page_units);
        assert_eq!(ftl.victim.as_ref().map(victim), self.victim.map(|v| (v.block, v.next_page)), "the victim");
        assert_eq!((ftl.counters(), ftl.credit), (self.counters, self.credit));
    }

    fn assert_same(&self, ftl: &Ftl) {
        let physical = |(block, place): (usize, usize)| (block as u64 * self.capacity()) as u32 + place as u32;
        for (unit, home) in self.home.iter().enumerate() {
            assert_eq!(ftl.map.get(unit as u64), home.map_or(NONE, physical), "where unit {unit} is");
        }
        let first_unit = |f: &super::frontier::Frontier| f.page * self.page_units as u32 + f.filled;
        let place = |p: &Place| physical((p.block, p.page * self.page_units + p.filled));
        assert_eq!(first_unit(&ftl.host), place(&self.host), "where host data goes");
        assert_eq!(first_unit(&ftl.collector), place(&self.collector), "where collected data goes");
        self.assert_same_victim(ftl);
        assert!(ftl.free.iter().map(|block| *block as usize).eq(self.free.iter().copied()), "free superblocks");
        for (index, (ours, plain)) in ftl.superblocks.iter().zip(&self.blocks).enumerate() {
            let theirs = (plain.state, self.valid(index), plain.erases);
            assert_eq!((ours.state, u64::from(ours.valid), ours.erases), theirs, "superblock {index}");
        }
    }
}

/// Places as shares of the drive.
#[derive(Debug, Clone)]
enum Step {
    Random(Vec<f64>),
    Sequential(f64, f64),
    Trim(f64, f64),
    Pad,
    Idle(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let share = || 0.0f64..1.0;
    prop_oneof![
        5 => prop::collection::vec(share(), 1..800).prop_map(Step::Random),
        3 => (share(), share()).prop_map(|(from, length)| Step::Sequential(from, length)),
        2 => (share(), share()).prop_map(|(from, length)| Step::Trim(from, length * length)),
        1 => Just(Step::Pad),
        1 => (1usize..20, 3usize..12).prop_map(|(pages, enough)| Step::Idle(pages, enough)),
    ]
}

fn drives() -> impl Strategy<Value = (Geometry, Collection)> {
    let policies = vec![GcPolicy::Greedy, GcPolicy::Fifo, GcPolicy::Random, GcPolicy::DChoices, GcPolicy::CostBenefit];
    let pacing = prop::sample::select(vec![GcPacing::Paced, GcPacing::Line]);
    let collection = (prop::sample::select(policies), 1u32..5, 1u32..=2, pacing, 3u32..=5);
    (2u32..=6, 2u64..=12, 24u64..40, 0.01f64..0.5, collection).prop_map(|(n, pages, superblocks, op, collection)| {
        let (policy, choices, frontiers, pacing, reserve) = collection;
        let units_per_superblock = u64::from(n) * pages;
        let kept = (superblocks - u64::from(reserve) - 2) * units_per_superblock;
        let units = (kept as f64 / (1.0 + op)) as u64;
        let geometry = Geometry { units, units_per_page: n, dies: 1, units_per_superblock, superblocks, erase_ns: 0 };
        (geometry, Collection { policy, choices, frontiers, pacing, reserve })
    })
}

/// Write units in pieces that end with the page, as the drive does.
fn write(ftl: &mut Ftl, plain: &mut Plain, mut first: u64, end: u64) {
    while first < end {
        let count = (end - first).min(u64::from(ftl.room_in_page()));
        ftl.write(first, count as u32, &mut vec![]);
        (first..first + count).for_each(|unit| plain.write(Some(unit)));
        first += count;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, max_shrink_iters: 300, ..Default::default() })]

    #[test]
    fn the_mapping_does_what_the_obvious_one_does((geometry, collection) in drives(), steps in prop::collection::vec(step(), 1..20)) {
        let (mut ftl, mut plain) = (Ftl::new(geometry, collection).unwrap(), Plain::new(&geometry, collection));
        let units = geometry.units;
        let range = |from: f64, length: f64| {
            let first = (from * units as f64) as u64;
            first..first + (length * (units - first) as f64) as u64
        };
        for step in steps {
            match step {
                Step::Random(places) => for place in places {
                    let unit = (place * units as f64) as u64;
                    write(&mut ftl, &mut plain, unit, unit + 1);
                    plain.assert_same_victim(&ftl);
                },
                Step::Sequential(from, length) => {
                    let range = range(from, length);
                    write(&mut ftl, &mut plain, range.start, range.end);
                }
                Step::Trim(from, length) => {
                    ftl.trim(range(from, length));
                    range(from, length).for_each(|unit| plain.home[unit as usize] = None);
                }
                Step::Pad => {
                    ftl.settle();
                    if ftl.pad(&mut vec![]) {
                        let filled = plain.host.filled;
                        (filled..plain.page_units).for_each(|_| plain.write(None));
                    }
                }
                Step::Idle(pages, enough) => for _ in 0..pages {
                    ftl.settle();
                    assert_eq!(ftl.collect_idly(enough as u64, &mut vec![]), plain.collect_idly(enough));
                },
            }
            ftl.settle();
            plain.assert_same(&ftl);
            ftl.check();
        }
    }
}
