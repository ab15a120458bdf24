//! SLC cache: superblocks whose cells hold one bit each, written faster and holding less.
//!
//! The static cache has superblocks of its own, the dynamic one takes free ones of the main area. The host's data goes
//! to the cache while there is room; when it is full, straight to the main area, or the host waits for the oldest to be
//! folded: what is valid is copied to the main area, with the collector's data, and the superblock erased. The same is
//! done while the host is idle. A superblock in which nothing is valid any more costs its erase only. When the main
//! area runs short, superblocks that the dynamic cache took go before all other victims.
//!
//! In SLC mode a page of every plane is programmed at once, and the superblock has 1 / (bits per cell) of its pages.
//! They keep the numbers that the main area has for them; the units that a page does not hold then are never valid.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::collect::Victim;
use super::frontier::Frontier;
use super::ftl::{FlashWork, Ftl, State};
use super::victims::GcPacing;

/// Of the main area, beside the reserve: where host data and collected data go, and one that the cache is filling.
const OPEN: u64 = 3;

/// Where the host's data goes when the SLC cache is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcWhenFull {
    /// To the main area; the cache is folded while the host is idle.
    Direct,
    /// To the cache all the same: the host waits while it is folded.
    Fold,
}

/// Bits per cell of a superblock: as many as it can hold, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellMode {
    Native,
    Slc,
}

/// When there is an SLC cache, beside the superblocks of its own that the geometry gives it.
#[derive(Debug, Clone, Copy)]
pub struct SlcRules {
    /// Of the superblocks that data, packed tightly, would leave free: how many percent may be in SLC mode.
    pub dynamic_percent: f64,
    pub when_full: SlcWhenFull,
}

impl SlcRules {
    pub const NONE: Self = Self { dynamic_percent: 0.0, when_full: SlcWhenFull::Direct };
}

pub(super) struct SlcCache {
    /// Of the static cache.
    pub free: VecDeque<u32>,
    /// Static and dynamic, the one filled first in front; not those that are being folded.
    pub full: VecDeque<u32>,
    /// Superblocks of the main area that are in SLC mode.
    pub dynamic: u64,
    pub fold: Option<Victim>,
    /// Where the host goes on in the main area.
    pub parked: Option<Frontier>,
    /// The host is filling the last room there is: the oldest is folded meanwhile.
    pub folding: bool,
}

impl SlcCache {
    pub fn new(superblocks: std::ops::Range<u32>) -> Self {
        Self {
            free: superblocks.collect(),
            full: VecDeque::new(),
            dynamic: 0,
            fold: None,
            parked: None,
            folding: false,
        }
    }
}

impl Ftl {
    #[inline]
    pub(super) fn is_folding(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.folding)
    }

    /// A free superblock of the cache for the host, in SLC mode; `None` if it is full.
    pub(super) fn take_slc(&mut self, work: &mut Vec<FlashWork>) -> Option<u32> {
        self.slc.as_ref()?;
        self.release_stale();
        let waits = self.collection.slc.when_full == SlcWhenFull::Fold;
        if waits && !self.slc_room() {
            let copied = self.fold_superblock(work);
            self.reclaim_main(copied, work);
        }
        let dynamic_room = self.dynamic_room();
        let slc = self.slc.as_mut()?;
        let superblock = match slc.free.pop_front() {
            None if dynamic_room => {
                slc.dynamic += 1;
                self.free.pop_front()
            }
            superblock => superblock,
        };
        let ahead = waits && superblock.is_some() && self.collection.pacing == GcPacing::Paced && !self.slc_room();
        self.slc.as_mut()?.folding = ahead;
        superblock
    }

    /// A free superblock can be had for the cache.
    fn slc_room(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| !slc.free.is_empty()) || self.dynamic_room()
    }

    fn dynamic_room(&self) -> bool {
        let (percent, reserve) = (self.collection.slc.dynamic_percent, self.collection.reserve as usize);
        let Some(slc) = self.slc.as_ref().filter(|_| percent > 0.0 && self.free.len() > reserve + 1) else {
            return false;
        };
        let valid: u64 = self.superblocks.iter().map(|block| u64::from(block.valid)).sum();
        let kept = valid.div_ceil(self.geometry.units_per_superblock) + reserve as u64 + OPEN;
        let free_space = self.geometry.superblocks.saturating_sub(kept);
        slc.dynamic < (free_space as f64 * percent / 100.0) as u64
    }

    /// The cache has gained room: the host goes there when its page in the main area is full.
    pub(super) fn prefer_slc(&mut self) {
        if self.host.mode == CellMode::Native && self.host.pages_left > 0 && self.slc_room() {
            let mut parked = self.host;
            // The page that is gathering takes its own erase along.
            parked.erases.due(parked.page);
            parked.turn_page();
            self.host.pages_left = 0;
            let slc = self.slc.as_mut().expect("there is room in it");
            assert!(slc.parked.replace(parked).is_none(), "the host is in one place of the main area");
        }
    }

    /// The host has filled a superblock in SLC mode.
    pub(super) fn cache(&mut self, superblock: u32) {
        self.superblocks[superblock as usize].state = State::Full;
        self.slc.as_mut().expect("an SLC superblock").full.push_back(superblock);
    }

    fn release_stale(&mut self) {
        let Some(slc) = self.slc.as_mut() else { return };
        let stale = |superblock: &u32| self.superblocks[*superblock as usize].valid == 0;
        let released: Vec<u32> = slc.full.iter().copied().filter(stale).collect();
        slc.full.retain(|superblock| !released.contains(superblock));
        released.into_iter().for_each(|superblock| self.release(superblock));
    }

    /// What is being folded, or the oldest in the cache.
    fn take_fold(&mut self) -> Option<Victim> {
        let slc = self.slc.as_mut()?;
        if let Some(fold) = slc.fold.take() {
            return Some(fold);
        }
        let superblock = slc.full.pop_front()?;
        Some(self.victim_of(superblock))
    }

    /// For the main area, before any other victim: a superblock that the cache took from it.
    pub(super) fn take_dynamic(&mut self) -> Option<Victim> {
        let of_main = |superblock: u32| u64::from(superblock) < self.geometry.superblocks;
        let slc = self.slc.as_mut()?;
        if let Some(fold) = slc.fold.take_if(|fold| of_main(fold.superblock)) {
            return Some(Victim { cursor: fold.cursor, ..self.victim_of(fold.superblock) });
        }
        let place = slc.full.iter().position(|superblock| of_main(*superblock))?;
        let superblock = slc.full.remove(place)?;
        Some(self.victim_of(superblock))
    }

    /// Fold a superblock to its end. Returns the units copied.
    fn fold_superblock(&mut self, work: &mut Vec<FlashWork>) -> u64 {
        let Some(mut fold) = self.take_fold() else { return 0 };
        let before = self.counters.folded_units;
        self.collect_until(&mut fold, u64::MAX, work);
        self.release(fold.superblock);
        self.counters.folded_units - before
    }

    /// The host has written `units` more to the cache. Fold so much that a superblock is free when this one is full.
    /// Returns the units copied.
    pub(super) fn pace_fold(&mut self, units: u64, work: &mut Vec<FlashWork>) -> u64 {
        if !self.is_folding() {
            return 0;
        }
        let Some(mut fold) = self.take_fold() else { return 0 };
        let before = self.counters.folded_units;
        fold.host_units += units;
        let due = (fold.host_units * fold.valid_at_start).div_ceil(self.geometry.slc_units_per_superblock);
        self.collect_until(&mut fold, due, work);
        self.fold_on(fold);
        self.counters.folded_units - before
    }

    fn fold_on(&mut self, fold: Victim) {
        let done = self.superblocks[fold.superblock as usize].valid == 0;
        if done {
            self.release(fold.superblock);
        }
        let room = self.slc_room();
        let slc = self.slc.as_mut().expect("a superblock of it is folded");
        slc.fold = (!done).then_some(fold);
        slc.folding &= !room;
    }

    /// Fold a page of the drive's own accord. False if there is nothing to fold, or no room for it.
    pub fn fold_idly(&mut self, work: &mut Vec<FlashWork>) -> bool {
        if self.slc.is_none() {
            return false;
        }
        if !self.has_spare() {
            return self.collect_idly(u64::from(self.collection.reserve) + 1, work);
        }
        let Some(mut fold) = self.take_fold() else { return false };
        self.collect_page(&mut fold, work);
        self.fold_on(fold);
        true
    }
}
