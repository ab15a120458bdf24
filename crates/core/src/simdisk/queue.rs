//! What waits for the heads, and which of it goes next.

use super::mechanics::{Mechanics, Place};
use super::params::QueuePolicy;
use crate::workload::Operation;

/// One access that the heads have to make.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// The command that waits for it; `None`: a write that is done for the host, on its way from the cache.
    pub slot: Option<u32>,
    pub operation: Operation,
    pub first_sector: u64,
    pub sectors: u64,
    pub place: Place,
    pub since: u64,
}

/// Jobs in the order in which they came.
#[derive(Debug)]
pub struct Queue {
    pub policy: QueuePolicy,
    pub age_limit_ns: u64,
    pub jobs: Vec<Job>,
}

impl Queue {
    /// Take the job that goes next, the earliest of equals.
    pub fn next(&mut self, mechanics: &Mechanics, track: u64, after_sector: u64, now: u64) -> Option<Job> {
        let oldest = self.jobs.first()?;
        let jobs = || self.jobs.iter().enumerate();
        let overdue = self.age_limit_ns > 0 && now - oldest.since >= self.age_limit_ns;
        let next = match self.policy {
            _ if overdue => None,
            QueuePolicy::Fifo => None,
            QueuePolicy::Elevator => jobs().min_by_key(|(_, job)| (job.first_sector < after_sector, job.first_sector)),
            QueuePolicy::Sptf => jobs().min_by_key(|(_, job)| {
                let positioning = mechanics.positioning_ns(track, now, job.place, job.operation);
                (job.first_sector != after_sector, positioning)
            }),
        };
        let index = next.map_or(0, |(index, _)| index);
        Some(self.jobs.remove(index))
    }

    /// The write of just this range that is in the cache and not begun.
    pub fn cached(&self, first_sector: u64, sectors: u64) -> bool {
        let same = |job: &&Job| (job.first_sector, job.sectors) == (first_sector, sectors);
        self.jobs.iter().filter(|job| job.slot.is_none()).any(|job| same(&job))
    }

    /// A write in the cache holds all of the range.
    pub fn covered(&self, first_sector: u64, sectors: u64) -> bool {
        let holds =
            |job: &Job| job.first_sector <= first_sector && first_sector + sectors <= job.first_sector + job.sectors;
        self.jobs.iter().any(|job| job.slot.is_none() && holds(job))
    }
}
