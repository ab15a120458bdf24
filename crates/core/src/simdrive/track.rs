//! What would be lost if the power went now: the units whose newest data is not in flash yet, and what flash has of
//! them. Kept on request (`track_data`), and needed for sudden power loss.

use std::collections::{BTreeMap, VecDeque};

use super::ftl::Ftl;
use super::stamps::UNWRITTEN;

#[derive(Debug, Clone, Copy)]
struct Versions {
    newest: u64,
    /// The newest one that is programmed, and whether that cannot be read.
    durable: u64,
    unreadable: bool,
}

/// A unit, its version in flash, and whether that cannot be read.
pub(super) type InFlash = (u64, u64, bool);

/// Writes are numbered from 1 in the order in which the host submits them; that is also the order in which the drive
/// takes their data.
#[derive(Debug)]
pub(super) struct Track {
    pub writes: u64,
    /// Number of the write in each slot.
    of_slot: Vec<u64>,
    /// What the last read in each slot read, unit by unit.
    pub read: Vec<Vec<u64>>,
    /// Units whose newest data is in the buffer only.
    volatile: BTreeMap<u64, Versions>,
    /// Units in the open page of each pool, and the writes these are of.
    open: [Vec<(u64, u64)>; 2],
    /// For each die, the host pages it was given to program: the units in them, and the writes these are of.
    in_flight: Vec<VecDeque<Vec<(u64, u64)>>>,
}

impl Track {
    pub fn new(dies: u32, slots: u32) -> Self {
        Self {
            writes: 0,
            of_slot: vec![UNWRITTEN; slots as usize],
            read: vec![vec![]; slots as usize],
            volatile: BTreeMap::new(),
            open: [vec![], vec![]],
            in_flight: vec![VecDeque::new(); dies as usize],
        }
    }

    pub fn write_submitted(&mut self, slot: u32) {
        self.writes += 1;
        self.of_slot[slot as usize] = self.writes;
    }

    /// The write's next units go into the buffer and the open page of their pool; `ftl` does not map them yet.
    pub fn accept(&mut self, slot: u32, units: std::ops::Range<u64>, ftl: &mut Ftl) {
        let write = self.of_slot[slot as usize];
        ftl.stamp(write);
        for unit in units {
            let in_flash = || Versions { newest: write, durable: ftl.stamp_of(unit), unreadable: false };
            self.volatile.entry(unit).or_insert_with(in_flash).newest = write;
            self.open[ftl.pool()].push((unit, write));
        }
    }

    /// What flash has of the unit, whose newest data is in the buffer, cannot be read.
    pub fn spoiled(&mut self, unit: u64) {
        self.volatile.get_mut(&unit).expect("its newest data is in the buffer").unreadable = true;
    }

    /// The pool's open page goes to the die.
    pub fn sent(&mut self, die: u32, pool: usize) {
        self.in_flight[die as usize].push_back(std::mem::take(&mut self.open[pool]));
    }

    /// The die has programmed the host page that it was given first.
    pub fn programmed(&mut self, die: u32) {
        let page = self.in_flight[die as usize].pop_front().expect("a die programs what it was given");
        for (unit, write) in page {
            if let Some(versions) = self.volatile.get_mut(&unit) {
                versions.unreadable &= versions.durable >= write;
                versions.durable = versions.durable.max(write);
                if versions.durable == versions.newest {
                    self.volatile.remove(&unit);
                }
            }
        }
    }

    /// The host needs the units no longer: none of their versions will be wanted again.
    pub fn trim(&mut self, units: &std::ops::Range<u64>) {
        self.volatile.retain(|unit, _| !units.contains(unit));
        for page in self.in_flight.iter_mut().flatten().chain(&mut self.open) {
            page.retain(|(unit, _)| !units.contains(unit));
        }
    }

    /// Nothing is in the buffer, nor on its way to flash. Returns what was.
    pub fn clear(&mut self) -> Vec<InFlash> {
        self.in_flight.iter_mut().for_each(VecDeque::clear);
        self.open.iter_mut().for_each(Vec::clear);
        std::mem::take(&mut self.volatile).into_iter().map(|(unit, v)| (unit, v.durable, v.unreadable)).collect()
    }

    /// The laws of this record, against the mapping: slow, for tests.
    pub fn check(&self, ftl: &Ftl) {
        for (unit, versions) in &self.volatile {
            assert_eq!(ftl.stamp_of(*unit), versions.newest, "unit {unit} reads as last written");
            assert!(versions.durable < versions.newest, "unit {unit} is volatile");
        }
    }
}
