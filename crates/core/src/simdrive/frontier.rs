//! Write frontiers: where the next unit of host or collected data goes.
//!
//! With two, host data and collected data each fill a superblock of their own. With one, they fill the same
//! superblock page by page, each taking the next page when its own is full; a superblock is then full when neither
//! has a page in it any more.

use super::ftl::{Ftl, State};

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
}

impl Frontier {
    pub const NOWHERE: Self = Self { superblock: 0, page: 0, filled: 0, pages_left: 0, erases_left: 0 };

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
    /// The frontiers of a fresh drive.
    pub(super) fn open_frontiers(&mut self) {
        if self.collection.frontiers == 1 {
            self.shared = Some(Frontier::NOWHERE);
        }
        self.host = self.next_place();
        self.collector = self.next_place();
    }

    /// The host's page was the last it had.
    pub(super) fn move_host(&mut self) {
        let left = self.host.superblock;
        self.host = self.next_place();
        self.close(left);
    }

    /// The collector's page was the last it had.
    pub(super) fn move_collector(&mut self) {
        let left = self.collector.superblock;
        self.collector = self.next_place();
        self.close(left);
    }

    /// A frontier has left the superblock: it is full, unless there is still a page of the other's in it.
    fn close(&mut self, superblock: u32) {
        if superblock != self.host.superblock && superblock != self.collector.superblock {
            self.superblocks[superblock as usize].state = State::Full;
            self.victims.filled(superblock, self.clock());
        }
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
        self.superblocks[superblock as usize].state = State::Open;
        let used = self.superblocks[superblock as usize].used;
        Frontier {
            superblock,
            page: superblock * self.pages_per_superblock,
            filled: 0,
            pages_left: self.pages_per_superblock - 1,
            erases_left: if used { self.geometry.dies } else { 0 },
        }
    }

    /// Units of flash that hold data, valid or stale, which collection has not yet gone over: what the theory of
    /// write amplification calls the size of the drive. The rest is free, open, or collected and not yet erased.
    pub fn occupied_units(&self) -> u64 {
        let n = self.geometry.units_per_page;
        let room = |f: &Frontier| u64::from(f.pages_left * n + (n - f.filled));
        let shared = self.shared.map_or(0, |shared| u64::from(shared.pages_left * n));
        let open = room(&self.host) + room(&self.collector) + shared;
        let collected = self.victim.map_or(0, |victim| victim.cursor);
        let superblocks = (self.superblocks.len() - self.free.len()) as u64;
        superblocks * self.geometry.units_per_superblock - open - collected
    }
}
