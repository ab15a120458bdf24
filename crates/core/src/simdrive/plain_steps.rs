//! Random small drives and random work: the mapping against the plain one, superblock by superblock, victim by victim.
//! A drive with a hot and a cold pool is two plain ones.

use proptest::prelude::*;

use super::ftl::{FlashWork, Ftl, State};
use super::params::Geometry;
use super::plain::Plain;
use super::slc::{SlcRules, SlcWhenFull};
use super::victims::{Collection, GcPacing, GcPolicy};

/// Places as shares of the drive.
#[derive(Debug, Clone)]
enum Step {
    Random(Vec<f64>),
    Sequential(f64, f64),
    Trim(f64, f64),
    Pad,
    Idle(usize, usize),
    Fold(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let share = || 0.0f64..1.0;
    prop_oneof![
        5 => prop::collection::vec(share(), 1..800).prop_map(Step::Random),
        3 => (share(), share()).prop_map(|(from, length)| Step::Sequential(from, length)),
        2 => (share(), share()).prop_map(|(from, length)| Step::Trim(from, length * length)),
        1 => Just(Step::Pad),
        1 => (1usize..20, 3usize..12).prop_map(|(pages, enough)| Step::Idle(pages, enough)),
        1 => (1usize..200).prop_map(Step::Fold),
    ]
}

fn drives() -> impl Strategy<Value = (Geometry, Collection)> {
    let policies = vec![GcPolicy::Greedy, GcPolicy::Fifo, GcPolicy::Random, GcPolicy::DChoices, GcPolicy::CostBenefit];
    let pacing = prop::sample::select(vec![GcPacing::Paced, GcPacing::Line]);
    let collection = (prop::sample::select(policies), 1u32..5, 1u32..=2, pacing, 3u32..=5);
    let page = prop_oneof![(1u32..=6).prop_map(|n| (n, 1)), (1u32..=4, 1u32..=4)];
    let cache = (prop_oneof![Just(0u64), 1u64..6], prop_oneof![Just(0.0f64), 1.0..100.0], any::<bool>());
    let rows = (2u64..=12, 1u32..=3);
    let sizes = (page, rows, 24u64..40, 0.01f64..0.5);
    (sizes, collection, cache).prop_map(|(sizes, collection, (slc_superblocks, dynamic_percent, direct))| {
        let ((m, per_program), (rows, dies), superblocks, op) = sizes;
        let n = m * per_program;
        let (policy, choices, frontiers, pacing, reserve) = collection;
        let units_per_superblock = u64::from(n * dies) * rows;
        let open = 2 + u64::from(dynamic_percent > 0.0);
        let kept = (superblocks - u64::from(reserve) - open) * units_per_superblock;
        let units = (kept as f64 / (1.0 + op)) as u64;
        let geometry = Geometry {
            units,
            units_per_page: n,
            units_per_sense: m,
            dies,
            units_per_superblock,
            superblocks,
            erase_ns: 0,
            hot_units: 0,
            hot_superblocks: 0,
            slc_superblocks,
            // Of cells with four bits.
            slc_units_per_superblock: (rows * u64::from(per_program) / 4).max(1) * u64::from(m * dies),
            slc_erase_ns: 0,
        };
        let when_full = if direct { SlcWhenFull::Direct } else { SlcWhenFull::Fold };
        let slc = SlcRules { dynamic_percent, when_full };
        (geometry, Collection { policy, choices, frontiers, pacing, reserve, slc })
    })
}

/// A share of the units, and of the superblocks beside those that both pools need, is hot.
fn pooled(drive: (Geometry, Collection), units: f64, superblocks: f64) -> (Geometry, Collection) {
    let (mut g, mut collection) = drive;
    collection.slc = SlcRules::NONE;
    (g.slc_superblocks, g.hot_units) = (0, ((g.units as f64 * units) as u64).max(1));
    // What the cold pool needs on its own, the hot one has beside.
    let not_in_use = u64::from(collection.reserve) + 2;
    let spare = g.superblocks - not_in_use - g.units.div_ceil(g.units_per_superblock);
    g.hot_superblocks = not_in_use + g.hot_units.div_ceil(g.units_per_superblock) + (spare as f64 * superblocks) as u64;
    g.superblocks += not_in_use + 1;
    (g, collection)
}

fn any_drives() -> impl Strategy<Value = (Geometry, Collection)> {
    let shares = (0.0f64..0.99, 0.0f64..1.0);
    prop_oneof![
        2 => drives(),
        1 => (drives(), shares).prop_map(|(drive, (units, superblocks))| pooled(drive, units, superblocks)),
    ]
}

/// The drive and, for each pool, its plain one.
struct Both {
    ftl: Ftl,
    plains: Vec<Plain>,
    work: Vec<FlashWork>,
    /// Read operations of each pool until now.
    senses: [u64; 2],
    /// Erases of each superblock until now.
    erases: Vec<u32>,
}

impl Both {
    fn new(geometry: Geometry, collection: Collection) -> Self {
        let ftl = Ftl::new(geometry, collection).unwrap();
        let cold = Geometry {
            units: geometry.units - geometry.hot_units,
            superblocks: geometry.superblocks - geometry.hot_superblocks,
            ..geometry
        };
        let mut plains = vec![Plain::new(&cold, collection)];
        plains[0].first = (geometry.hot_superblocks as usize, geometry.hot_units);
        if geometry.hot_superblocks > 0 {
            let hot = Geometry { units: geometry.hot_units, superblocks: geometry.hot_superblocks, ..geometry };
            plains.insert(0, Plain::new(&hot, collection));
        }
        let erases = vec![0; ftl.superblocks.len()];
        Self { ftl, plains, work: vec![], senses: [0; 2], erases }
    }

    fn plain(&mut self, unit: u64) -> (&mut Plain, u64) {
        let pool = self.plains.iter().rposition(|plain| plain.first.1 <= unit).unwrap();
        let plain = &mut self.plains[pool];
        let first = plain.first.1;
        (plain, unit - first)
    }

    /// Write units in pieces that end with the page, as the drive does.
    fn write(&mut self, mut first: u64, end: u64) {
        while first < end {
            let count = (end - first).min(u64::from(self.ftl.room_in_page(first)));
            self.ftl.write(first, count as u32, &mut self.work);
            for unit in first..first + count {
                let (plain, unit) = self.plain(unit);
                plain.write(Some(unit));
            }
            first += count;
        }
    }

    /// What was done, by the pools its pages are in.
    fn count_work(&mut self) {
        let geometry = *self.ftl.geometry();
        let pages = geometry.hot_superblocks as u32 * self.ftl.pages_per_superblock;
        for work in self.work.drain(..) {
            let works = if let FlashWork::Move(moves) = work { moves.one_by_one(&geometry) } else { vec![work] };
            for work in works {
                match work {
                    FlashWork::CollectRead { page, senses, .. } => {
                        let pool = usize::from(self.plains.len() == 2 && page >= pages);
                        self.senses[pool] += u64::from(senses);
                    }
                    FlashWork::Program { page, erase, .. } => {
                        self.erases[(page / self.ftl.pages_per_superblock) as usize] += u32::from(erase);
                    }
                    FlashWork::Move(_) => unreachable!("moves are taken apart"),
                }
            }
        }
    }

    fn assert_same_victims(&mut self) {
        self.count_work();
        self.ftl.settle();
        for (pool, plain) in self.plains.iter().enumerate() {
            self.ftl.select_pool(pool);
            plain.assert_same_victim(&self.ftl, self.senses[pool]);
        }
    }

    fn assert_same(&mut self) {
        self.count_work();
        self.ftl.settle();
        // What was released is erased, block by block, when it is filled again.
        let dies = self.ftl.geometry().dies;
        for (block, erased) in self.ftl.superblocks.iter().zip(&self.erases) {
            let (all, before) = (block.erases * dies, block.erases.saturating_sub(1) * dies);
            let law = match block.state {
                State::Full => all..=all,
                State::Free => before..=before,
                State::Open | State::Retired => before..=all,
            };
            assert!(law.contains(erased), "{erased} erases of {block:?}");
        }
        for (pool, plain) in self.plains.iter().enumerate() {
            self.ftl.select_pool(pool);
            plain.assert_same(&self.ftl, self.senses[pool]);
        }
        self.ftl.check();
    }

    fn step(&mut self, step: Step) {
        let units = self.ftl.geometry().units;
        let range = |from: f64, length: f64| {
            let first = (from * units as f64) as u64;
            first..first + (length * (units - first) as f64) as u64
        };
        match step {
            Step::Random(places) => {
                for place in places {
                    let unit = (place * units as f64) as u64;
                    self.write(unit, unit + 1);
                    self.assert_same_victims();
                }
            }
            Step::Sequential(from, length) => {
                let range = range(from, length);
                self.write(range.start, range.end);
            }
            Step::Trim(from, length) => {
                self.ftl.trim(range(from, length));
                for unit in range(from, length) {
                    let (plain, unit) = self.plain(unit);
                    plain.home[unit as usize] = None;
                }
                self.plains.iter_mut().for_each(Plain::leave_main);
            }
            Step::Pad => self.in_each_pool(|ftl, plain, work| {
                if ftl.pad(work) {
                    (plain.host.filled..plain.host_page()).for_each(|_| plain.write(None));
                }
            }),
            Step::Idle(pages, enough) => self.in_each_pool(|ftl, plain, work| {
                for _ in 0..pages {
                    assert_eq!(ftl.collect_idly(enough as u64, work), plain.collect_idly(enough));
                }
            }),
            Step::Fold(pages) => self.in_each_pool(|ftl, plain, work| {
                for _ in 0..pages {
                    assert_eq!(ftl.fold_idly(work), plain.fold_idly());
                }
            }),
        }
        self.assert_same();
    }

    fn in_each_pool(&mut self, work: impl Fn(&mut Ftl, &mut Plain, &mut Vec<FlashWork>)) {
        for (pool, plain) in self.plains.iter_mut().enumerate() {
            self.ftl.settle();
            self.ftl.select_pool(pool);
            work(&mut self.ftl, plain, &mut self.work);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 300, ..Default::default() })]

    #[test]
    fn the_mapping_does_what_the_obvious_one_does((geometry, collection) in any_drives(), steps in prop::collection::vec(step(), 1..20)) {
        let mut both = Both::new(geometry, collection);
        steps.into_iter().for_each(|step| both.step(step));
    }
}

/// A cache that is folded over and over, while the host is in the main area, at one page of it after the other: it
/// leaves with its erases undone, and comes back to them.
#[test]
fn no_erase_is_lost_on_the_way_to_the_cache_and_back() {
    let geometry = Geometry {
        units: 20 * 36,
        units_per_page: 2,
        units_per_sense: 2,
        dies: 3,
        units_per_superblock: 36,
        superblocks: 32,
        erase_ns: 0,
        hot_units: 0,
        hot_superblocks: 0,
        slc_superblocks: 2,
        slc_units_per_superblock: 12,
        slc_erase_ns: 0,
    };
    let collection = Collection {
        policy: GcPolicy::Greedy,
        choices: 1,
        frontiers: 2,
        pacing: GcPacing::Paced,
        reserve: 3,
        slc: SlcRules { dynamic_percent: 0.0, when_full: SlcWhenFull::Direct },
    };
    let mut both = Both::new(geometry, collection);
    for i in 0..300 {
        let from = f64::from(i * 37 % 100) / 100.0;
        both.step(Step::Sequential(from * 0.9, 0.1 + f64::from(i % 23) / 400.0));
        both.step(Step::Fold(100));
    }
    assert!(both.ftl.counters().folded_units > 1000);
}
