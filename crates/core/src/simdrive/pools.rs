//! Hot and cold data in pools of their own, as a stream directive or a namespace tells them apart: each has its
//! superblocks, with a share of the spare capacity, and its frontiers, and collects its own garbage, so that one never
//! moves the other's data.
//!
//! The mapping works on one pool at a time; the other's state is kept aside, and the two change places when a unit of
//! the other is written.

use std::collections::VecDeque;
use std::ops::Range;

use super::collect::Victim;
use super::frontier::Frontier;
use super::ftl::{Counters, Ftl};
use super::victims::{Collection, Victims};

/// What belongs to one pool.
pub(super) struct Pool {
    pub victims: Victims,
    pub free: VecDeque<u32>,
    pub host: Frontier,
    pub collector: Frontier,
    pub shared: Option<Frontier>,
    pub victim: Option<Victim>,
    pub credit: i64,
    pub counters: Counters,
}

impl Pool {
    pub fn new(collection: &Collection, superblocks: Range<u32>) -> Self {
        Self {
            victims: Victims::new(collection, superblocks.clone()),
            free: superblocks.collect(),
            host: Frontier::NOWHERE,
            collector: Frontier::NOWHERE,
            shared: None,
            victim: None,
            credit: 0,
            counters: Counters::default(),
        }
    }
}

impl Ftl {
    /// How many pools there are.
    pub fn pools(&self) -> usize {
        1 + usize::from(self.other.is_some())
    }

    /// The pool that was written, or selected, last: 0 is the hot one if there are two.
    pub fn pool(&self) -> usize {
        usize::from(self.in_cold)
    }

    /// Go on with that pool. The open page, padding, idle collection and `occupied_units` are of one pool.
    pub fn select_pool(&mut self, pool: usize) {
        if pool != self.pool() {
            self.change_pool();
        }
    }

    /// Go on with the unit's pool.
    #[inline]
    pub(super) fn select(&mut self, unit: u64) {
        if self.other.is_some() && (unit >= self.geometry.hot_units) != self.in_cold {
            self.change_pool();
        }
    }

    #[inline(never)]
    fn change_pool(&mut self) {
        self.settle();
        let other = self.other.as_mut().expect("there are two pools");
        std::mem::swap(&mut self.victims, &mut other.victims);
        std::mem::swap(&mut self.free, &mut other.free);
        std::mem::swap(&mut self.host, &mut other.host);
        std::mem::swap(&mut self.collector, &mut other.collector);
        std::mem::swap(&mut self.shared, &mut other.shared);
        std::mem::swap(&mut self.victim, &mut other.victim);
        std::mem::swap(&mut self.credit, &mut other.credit);
        std::mem::swap(&mut self.counters, &mut other.counters);
        self.in_cold = !self.in_cold;
    }

    /// Of `count` units from `first` on, those of the same pool.
    #[inline]
    pub(super) fn in_pool(&self, first: u64, count: u32) -> u32 {
        if self.in_cold || self.other.is_none() {
            return count;
        }
        u64::from(count).min(self.geometry.hot_units - first) as u32
    }
}
