//! Write frontiers: where the next unit of host or collected data goes.
//!
//! With two, host data and collected data each fill a superblock of their own. With one, they fill the same
//! superblock page by page, each taking the next page when its own is full; a superblock is then full when neither
//! has a page in it any more. Host data may also go to the SLC cache, in superblocks of its own.

use std::ops::Range;

use super::ftl::{FlashWork, Ftl, State, Superblock};
use super::memory::NONE;
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
    pub erases: Erases,
    /// Units that a page takes.
    pub page_units: u32,
    pub mode: CellMode,
}

/// The erases that a superblock with old data costs: a block of every die. They are spread over the time in which it is
/// filled, as on a drive that erases ahead what it will write to next: were all dies to erase together, the host
/// would wait for that long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Erases {
    /// The page that is programmed after the next erase, on the same die; `NONE`: no more.
    next: u32,
    first_page: u32,
    done: u32,
    dies: u32,
    pages_of_block: u32,
}

impl Erases {
    pub const NONE: Self = Self { next: NONE, first_page: 0, done: 0, dies: 0, pages_of_block: 0 };

    fn new(first_page: u32, pages: u32, dies: u32) -> Self {
        Self { next: first_page, first_page, done: 0, dies, pages_of_block: pages / dies }
    }

    /// Whether the die of this page erases a block before it programs the page. Pages come in order.
    #[inline]
    pub fn due(&mut self, page: u32) -> bool {
        page == self.next && self.turn()
    }

    /// The same of so many pages from this one on, at most 64: a bit for each.
    #[inline]
    pub fn due_of(&mut self, page: u32, pages: u32) -> u64 {
        let mut due = 0;
        while self.next.wrapping_sub(page) < pages {
            due |= 1 << (self.next - page);
            self.turn();
        }
        due
    }

    #[cold]
    fn turn(&mut self) -> bool {
        self.done += 1;
        self.next = if self.done == self.dies {
            NONE
        } else {
            let row = u64::from(self.done) * u64::from(self.pages_of_block) / u64::from(self.dies);
            self.first_page + row as u32 * self.dies + self.done
        };
        true
    }
}

impl Frontier {
    pub const NOWHERE: Self = Self {
        superblock: 0,
        page: 0,
        filled: 0,
        pages_left: 0,
        erases: Erases::NONE,
        page_units: 0,
        mode: CellMode::Native,
    };

    /// What must be done to program the page; `host`: units of host data in it.
    #[inline]
    pub fn program(&mut self, host: Option<u32>) -> FlashWork {
        FlashWork::Program { page: self.page, erase: self.erases.due(self.page), mode: self.mode, host }
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
        let place = Frontier { pages_left: 0, ..shared };
        shared.erases.due(shared.page);
        self.shared = Some(shared);
        place
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
        let first = superblock * self.pages_per_superblock;
        Frontier {
            superblock,
            page: first,
            filled: 0,
            pages_left: pages - 1,
            erases: if block.used { Erases::new(first, pages, self.geometry.dies) } else { Erases::NONE },
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
