//! Which superblock is collected next: the policies of the literature, and how their work is spread over time.

use std::ops::Range;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::ftl::{State, Superblock};
use super::slc::SlcRules;

/// Of the drive's own random numbers. A drive that is purged draws the same ones again.
pub(super) const SEED: u64 = 0x5eed_0f7e_d21e;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// The one with the fewest valid units; the lowest numbered of equals.
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// Any.
    Random,
    /// Of d that are drawn (with replacement), the one with the fewest valid units; the first drawn of equals
    /// [Van Houdt 2013].
    DChoices,
    /// The one with the greatest age x (1 - u) / u, age since it was filled, u its valid share [Rosenblum and
    /// Ousterhout 1992, for flash Kawaguchi 1995]; the lowest numbered of equals.
    CostBenefit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPacing {
    /// A little with each page the host writes.
    Paced,
    /// A whole victim at once, each time the host has used up what the last one gave.
    Line,
}

/// How garbage is collected.
#[derive(Debug, Clone, Copy)]
pub struct Collection {
    pub policy: GcPolicy,
    /// d of `DChoices`.
    pub choices: u32,
    /// 2: host data and collected data apart; 1: together.
    pub frontiers: u32,
    pub pacing: GcPacing,
    /// Superblocks that are kept free.
    pub reserve: u32,
    pub slc: SlcRules,
}

/// The choice of victims, and what it needs to know.
pub(super) struct Victims {
    policy: GcPolicy,
    choices: u32,
    /// The superblocks to choose from.
    pub range: Range<u32>,
    /// When each was last filled, in units written.
    filled_at: Vec<u64>,
    rng: Xoshiro256PlusPlus,
}

impl Victims {
    pub fn new(collection: &Collection, range: Range<u32>) -> Self {
        Self {
            policy: collection.policy,
            choices: collection.choices,
            filled_at: vec![0; range.len()],
            range,
            rng: Xoshiro256PlusPlus::seed_from_u64(SEED),
        }
    }

    pub fn filled(&mut self, superblock: u32, now: u64) {
        self.filled_at[(superblock - self.range.start) as usize] = now;
    }

    /// The full superblock to collect; `None` if collecting would gain nothing anywhere.
    pub fn choose(&mut self, superblocks: &[Superblock], capacity: u64, now: u64) -> Option<u32> {
        let of_pool = &superblocks[self.range.start as usize..self.range.end as usize];
        self.choose_of(of_pool, capacity, now).map(|index| self.range.start + index)
    }

    fn choose_of(&mut self, superblocks: &[Superblock], capacity: u64, now: u64) -> Option<u32> {
        let full = || superblocks.iter().enumerate().filter(|(_, block)| block.state == State::Full);
        if self.policy != GcPolicy::Greedy && !full().any(|(_, block)| u64::from(block.valid) < capacity) {
            return None;
        }
        match self.policy {
            GcPolicy::Greedy => {
                // The first of those with the least valid data, and some that is not.
                let (mut least, mut best) = (capacity, None);
                for (index, block) in superblocks.iter().enumerate() {
                    if u64::from(block.valid) < least && block.state == State::Full {
                        (least, best) = (u64::from(block.valid), Some(index as u32));
                    }
                }
                best
            }
            GcPolicy::Fifo => full().min_by_key(|(index, _)| self.filled_at[*index]).map(|(index, _)| index as u32),
            GcPolicy::Random => Some(self.draw(superblocks)),
            GcPolicy::DChoices => {
                let drawn = (0..self.choices).map(|_| self.draw(superblocks));
                drawn.min_by_key(|superblock| superblocks[*superblock as usize].valid)
            }
            GcPolicy::CostBenefit => {
                // Fractions, compared without rounding; an age is at least 1.
                let fraction = |index: usize, block: &Superblock| {
                    let stale = capacity - u64::from(block.valid);
                    (u128::from(now - self.filled_at[index] + 1) * u128::from(stale), u128::from(block.valid))
                };
                let best = full().map(|(index, block)| (index, fraction(index, block))).reduce(|best, other| {
                    let ((benefit, cost), (other_benefit, other_cost)) = (best.1, other.1);
                    if other_benefit * cost > benefit * other_cost { other } else { best }
                });
                best.map(|(index, _)| index as u32)
            }
        }
    }

    /// Any full superblock, each as likely as the others. There is one.
    fn draw(&mut self, superblocks: &[Superblock]) -> u32 {
        loop {
            let draw = u128::from(self.rng.next_u64()) * superblocks.len() as u128;
            let superblock = (draw >> 64) as u32;
            if superblocks[superblock as usize].state == State::Full {
                return superblock;
            }
        }
    }
}
