//! Write frontiers: where the next unit of host or collected data goes.
//!
//! With two, host data and collected data each fill a superblock of their own. With one, they fill the same
//! superblock page by page, each taking the next page when its own is full; a superblock is then full when neither
//! has a page in it any more. Host data may also go to the SLC cache, in superblocks of its own.

use std::ops::Range;

use super::ftl::{FlashWork, Ftl, State, Superblock};
use super::slc::CellMode;

/// A page that data is gathering in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frontier {
    pub superblock: u32,
    /// Physical number of the page, and the units in it.
    pub page: u32,
    pub filled: u32,
    /// Pages of the superblock after that one; 0 when the superblock is shared.
    pub pages_left: u32,
    /// Pages of the superblock that are the first of a die's block, and the block holds old data: each die erases
    /// its block just before it programs the first page there.
    pub erases_left: u32,
    /// Units that a page takes.
    pub page_units: u32,
    pub mode: CellMode,
}

impl Frontier {
    pub const NOWHERE: Self = Self {
        superblock: 0,
        page: 0,
        filled: 0,
        pages_left: 0,
        erases_left: 0,
        page_units: 0,
        mode: CellMode::Native,
    };

    /// What must be done to program the page; `host`: units of host data in it.
    #[inline]
    pub fn program(&self, host: Option<u32>) -> FlashWork {
        FlashWork::Program { page: self.page, erase: self.erases_left > 0, mode: self.mode, host }
    }

    /// The page is full, go on to the next one. True if there is none in this superblock.
    #[inline]
    pub fn turn_page(&mut self) -> bool {
        if self.pages_left == 0 {
            return true;
        }
        self.page += 1;
        self.filled = 0;
        self.pages_left -= 1;
        self.erases_left = self.erases_left.saturating_sub(1);
        false
    }
}

impl Ftl {
    /// The frontiers of a fresh pool.
    pub(super) fn open_frontiers(&mut self) {
        if self.collection.frontiers == 1 {
            self.shared = Some(Frontier::NOWHERE);
        }
        self.host = self.next_host_place(&mut vec![]);
        self.collector = self.next_place();
    }

    /// The host's page was the last it had.
    pub(super) fn move_host(&mut self, work: &mut Vec<FlashWork>) {
        let left = self.host.superblock;
        if self.host.mode == CellMode::Slc {
            // It may be the one that must be folded now.
            self.cache(left);
            self.host = self.next_host_place(work);
        } else {
            self.host = self.next_host_place(work);
            self.close(left);
        }
    }

    /// The collector's page was the last it had.
    pub(super) fn move_collector(&mut self) {
        let left = self.collector.superblock;
        self.collector = self.next_place();
        self.close(left);
    }

    /// A frontier has left the superblock: it is full, unless there is still a page of the other's in it, or it has
    /// pages to go back to.
    fn close(&mut self, superblock: u32) {
        let parked = self.slc.as_ref().and_then(|slc| slc.parked);
        let shared = self.shared.filter(|shared| shared.pages_left > 0);
        let open = [Some(self.host), Some(self.collector), parked, shared];
        if open.iter().flatten().all(|place| place.superblock != superblock) {
            self.superblocks[superblock as usize].state = State::Full;
            self.victims.filled(superblock, self.clock());
        }
    }

    /// A superblock of the cache; or where the host was last in the main area, or the next place there.
    fn next_host_place(&mut self, work: &mut Vec<FlashWork>) -> Frontier {
        if let Some(superblock) = self.take_slc(work) {
            return self.open(superblock, CellMode::Slc);
        }
        let parked = self.slc.as_mut().and_then(|slc| slc.parked.take());
        parked.unwrap_or_else(|| self.next_place())
    }

    /// A new superblock, or the next page of the shared one.
    fn next_place(&mut self) -> Frontier {
        let Some(mut shared) = self.shared else { return self.open_superblock() };
        if shared.turn_page() {
            shared = self.open_superblock();
        }
        self.shared = Some(shared);
        Frontier { pages_left: 0, ..shared }
    }

    fn open_superblock(&mut self) -> Frontier {
        let superblock = self.free.pop_front().expect("collection keeps a reserve of free superblocks");
        self.open(superblock, CellMode::Native)
    }

    fn open(&mut self, superblock: u32, mode: CellMode) -> Frontier {
        let block = &mut self.superblocks[superblock as usize];
        (block.state, block.mode) = (State::Open, mode);
        let (pages, page_units) = match mode {
            CellMode::Native => (self.pages_per_superblock, self.geometry.units_per_page),
            CellMode::Slc => {
                let units = self.geometry.units_per_sense;
                ((self.geometry.slc_units_per_superblock / u64::from(units)) as u32, units)
            }
        };
        Frontier {
            superblock,
            page: superblock * self.pages_per_superblock,
            filled: 0,
            pages_left: pages - 1,
            erases_left: if block.used { self.geometry.dies } else { 0 },
            page_units,
            mode,
        }
    }

    /// Of the pool: units of flash that hold data, valid or stale, which collection has not yet gone over: what the theory of
    /// write amplification calls the size of the drive. The rest is free, open, or collected and not yet erased.
    pub fn occupied_units(&self) -> u64 {
        let n = self.geometry.units_per_page;
        let room = |f: &Frontier| u64::from(f.pages_left * n + (n - f.filled));
        let shared = self.shared.map_or(0, |shared| u64::from(shared.pages_left * n));
        let open = room(&self.host) + room(&self.collector) + shared;
        let collected = self.victim.map_or(0, |victim| victim.cursor);
        let used = |block: &&Superblock| !matches!(block.state, State::Free | State::Retired);
        let Range { start, end } = self.victims.range;
        let superblocks = self.superblocks[start as usize..end as usize].iter().filter(used).count() as u64;
        superblocks * self.geometry.units_per_superblock - open - collected
    }
}
