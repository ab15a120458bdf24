//! Stimulus -> a deterministic stream of requests, one stream per thread per run.
//!
//! The generator is xoshiro256++ (64-bit output, section 6 asks for at least 48), seeded once per run; thread
//! i starts 2^128 * i draws along, so that streams never overlap. Offsets are drawn by multiplication with
//! rejection (Lemire, ACM TOMACS 2019): exactly uniform for any range, independent of capacity. A stream goes
//! on from step to step; so does its sequential position.

mod arrivals;
mod draw;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::error::StimulusError;
use crate::units::{Bytes, Lba, SECTOR};
pub use arrivals::{ArrivalKind, Arrivals, Rate};
use draw::{Placement, Range, below, cumulative, pick, threshold};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Read,
    Write,
}

/// One I/O to issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    pub lba: Lba,
    pub bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LbaGroup {
    pub start_percent: f64,
    pub end_percent: f64,
    pub probability_percent: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Access {
    Random,
    /// Each thread covers its own region of the active range, wrapping at its end. `restart` begins at the
    /// region's start; otherwise the position of the last sequential step is kept.
    Sequential {
        #[serde(default)]
        restart: bool,
    },
    /// Each I/O is, with this probability, the next one in sequence in the thread's region, and else random.
    Mixed {
        sequential_percent: f64,
    },
    /// Random within one of several parts of the active range, chosen with the given probabilities.
    Groups {
        groups: Vec<LbaGroup>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockShare {
    pub bytes: u64,
    pub weight: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActiveRange {
    pub start_percent: f64,
    pub end_percent: f64,
}

/// What I/O to issue (DESIGN section 3). `alignment_bytes`: `None` aligns each I/O to its own size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stimulus {
    pub access: Access,
    pub block_sizes: Vec<BlockShare>,
    pub read_percent: f64,
    pub active_range: ActiveRange,
    pub thread_count: u32,
    pub queue_depth: u32,
    #[serde(default = "full_entropy")]
    pub entropy_percent: u8,
    #[serde(default)]
    pub alignment_bytes: Option<u64>,
    /// `None`: a closed loop, in which the next I/O is issued when one completes.
    #[serde(default)]
    pub rate: Option<Rate>,
}

fn full_entropy() -> u8 {
    100
}

/// When a step ends. `Bytes`, `Fill` and `Ios` count exactly so much over all threads together; after a `Fill`, as
/// after a time, the same I/O goes on uncounted until the next step is there. After a `Burst`, which is a time too,
/// the device is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stop {
    Time { ns: u64 },
    Burst { ns: u64 },
    Bytes { bytes: u64 },
    Fill { bytes: u64 },
    Ios { ios: u64 },
}

impl Stop {
    /// The window's length of a step that ends by time.
    pub fn window_ns(self) -> Option<u64> {
        match self {
            Stop::Time { ns } | Stop::Burst { ns } => Some(ns),
            _ => None,
        }
    }
}

impl Stimulus {
    pub fn from_json(text: &str) -> Result<Self, StimulusError> {
        serde_json::from_str(text).map_err(|e| StimulusError::Format(e.to_string()))
    }

    pub fn max_block(&self) -> Bytes {
        let used = self.block_sizes.iter().filter(|share| share.weight > 0);
        Bytes(used.map(|share| share.bytes).max().unwrap_or(0))
    }

    /// Check everything that does not depend on the device.
    pub fn validate(&self) -> Result<(), StimulusError> {
        let percent = |name, value: f64| {
            if (0.0..=100.0).contains(&value) { Ok(()) } else { Err(StimulusError::Percent(name)) }
        };
        percent("read_percent", self.read_percent)?;
        percent("entropy_percent", f64::from(self.entropy_percent))?;
        if let Access::Mixed { sequential_percent } = self.access {
            percent("sequential_percent", sequential_percent)?;
        }
        percent("active_range.start_percent", self.active_range.start_percent)?;
        percent("active_range.end_percent", self.active_range.end_percent)?;
        if self.thread_count == 0 {
            return Err(StimulusError::Zero("thread_count"));
        }
        if self.queue_depth == 0 {
            return Err(StimulusError::Zero("queue_depth"));
        }
        if self.block_sizes.iter().all(|share| share.weight == 0) {
            return Err(StimulusError::Zero("the sum of the block sizes' weights"));
        }
        for share in &self.block_sizes {
            if share.bytes == 0 || share.bytes % SECTOR != 0 {
                return Err(StimulusError::BlockSize(share.bytes));
            }
        }
        if let Some(alignment) = self.alignment_bytes
            && (alignment == 0 || alignment % SECTOR != 0)
        {
            return Err(StimulusError::Alignment(alignment));
        }
        self.rate.map_or(Ok(()), Rate::validate)?;
        self.validate_groups()
    }

    fn validate_groups(&self) -> Result<(), StimulusError> {
        let Access::Groups { groups } = &self.access else { return Ok(()) };
        for group in groups {
            let ends = [group.start_percent, group.end_percent, group.probability_percent];
            if ends.iter().any(|value| !(0.0..=100.0).contains(value)) || group.start_percent >= group.end_percent {
                return Err(StimulusError::Percent("each LBA group's start, end and probability"));
            }
        }
        let sum: f64 = groups.iter().map(|group| group.probability_percent).sum();
        if (sum - 100.0).abs() > 1e-6 {
            return Err(StimulusError::GroupProbability(sum));
        }
        Ok(())
    }
}

/// Which of the stimulus's block sizes (of those with a weight) and LBA groups a request belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Draw {
    pub size: usize,
    pub group: usize,
}

#[derive(Debug, Clone)]
enum Plan {
    Random(Vec<Vec<Placement>>),
    /// `share`: sectors of every thread's region but the last; `range`: of all regions together.
    Sequential {
        region: Range,
        share: u64,
        range: u64,
    },
    /// Sequential in `region` for draws below `sequential_below`, else random.
    Mixed {
        region: Range,
        sequential_below: u128,
        placements: Vec<Placement>,
    },
}

/// One thread's endless stream of requests; survives from step to step.
#[derive(Debug, Clone)]
pub struct RequestStream {
    rng: Xoshiro256PlusPlus,
    thread: u32,
    position: u64,
    plan: Plan,
    /// Cumulative thresholds over block sizes; sectors of each.
    sizes: Vec<(u128, u64)>,
    /// Cumulative thresholds over LBA groups.
    groups: Vec<u128>,
    read_below: u128,
    /// Requests drawn ahead, and how many of them are taken.
    ahead: [(Request, Draw); TOGETHER],
    taken: usize,
    /// Random generator and position before they were drawn.
    mark: (Xoshiro256PlusPlus, u64),
}

/// Requests that are drawn together: their addresses are known long before they are needed.
const TOGETHER: usize = 16;

impl RequestStream {
    /// The stream of `thread` (0-based) in the run with this seed.
    pub fn new(seed: u64, thread: u32) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..thread {
            rng.jump();
        }
        let nothing = Plan::Sequential { region: Range { start: 0, end: 0 }, share: 0, range: 1 };
        Self {
            mark: (rng.clone(), 0),
            rng,
            thread,
            position: 0,
            plan: nothing,
            sizes: vec![],
            groups: vec![],
            read_below: 0,
            ahead: [(Request { operation: Operation::Read, lba: Lba(0), bytes: Bytes(0) }, Draw::default()); TOGETHER],
            taken: TOGETHER,
        }
    }

    /// Go over to a stimulus on a device of `capacity`. The random stream and the sequential position continue.
    pub fn set(&mut self, stimulus: &Stimulus, capacity: Bytes) -> Result<(), StimulusError> {
        stimulus.validate()?;
        self.put_back();
        let device = Range { start: 0, end: Lba::from_bytes(capacity).0 };
        let active = Range::of(device, stimulus.active_range.start_percent, stimulus.active_range.end_percent);
        let shares: Vec<_> = stimulus.block_sizes.iter().filter(|share| share.weight > 0).collect();
        let total: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
        self.sizes = cumulative(shares.iter().map(|share| f64::from(share.weight) / total))
            .into_iter()
            .zip(shares.iter().map(|share| share.bytes / SECTOR))
            .collect();
        self.read_below = threshold(stimulus.read_percent / 100.0);
        self.groups.clear();
        match &stimulus.access {
            Access::Random => self.plan = Plan::Random(vec![self.placements(active, stimulus)?]),
            Access::Groups { groups } => {
                self.groups = cumulative(groups.iter().map(|group| group.probability_percent / 100.0));
                let parts = groups
                    .iter()
                    .map(|group| self.placements(Range::of(active, group.start_percent, group.end_percent), stimulus));
                self.plan = Plan::Random(parts.collect::<Result<_, _>>()?);
            }
            Access::Sequential { restart } => {
                let (region, share) = self.take_region(active, stimulus, *restart)?;
                self.plan = Plan::Sequential { region, share, range: active.len() };
            }
            Access::Mixed { sequential_percent } => {
                let (region, _) = self.take_region(active, stimulus, false)?;
                let placements = self.placements(active, stimulus)?;
                self.plan = Plan::Mixed { region, sequential_below: threshold(sequential_percent / 100.0), placements };
            }
        }
        Ok(())
    }

    fn placements(&self, range: Range, stimulus: &Stimulus) -> Result<Vec<Placement>, StimulusError> {
        let alignment = |sectors| stimulus.alignment_bytes.map_or(sectors, |bytes| bytes / SECTOR);
        self.sizes.iter().map(|&(_, sectors)| Placement::new(range, sectors, alignment(sectors))).collect()
    }

    /// This thread's region of the range, and the share of it that each thread but the last has. The position stays
    /// where it is if that is in the region.
    fn take_region(
        &mut self,
        active: Range,
        stimulus: &Stimulus,
        restart: bool,
    ) -> Result<(Range, u64), StimulusError> {
        let block = stimulus.max_block().0 / SECTOR;
        let threads = u64::from(stimulus.thread_count);
        // Regions begin on a block boundary and the last one takes the remainder: together they are the range.
        let share = active.len() / threads / block * block;
        let start = active.start + u64::from(self.thread) * share;
        let last = u64::from(self.thread) == threads - 1;
        let region = Range { start, end: if last { active.end } else { start + share } };
        if region.len() < block {
            return Err(StimulusError::RangeTooSmall { range: region.len() * SECTOR, block: block * SECTOR });
        }
        if restart || self.position < region.start || self.position >= region.end {
            self.position = region.start;
        }
        Ok((region, share))
    }

    /// This thread's share of `bytes` split among `threads`, were it not the last one (which takes the rest). In sequence
    /// a whole number of passes over the range is one over each region; another share is rounded down to 4 KiB.
    pub fn share_of(&self, bytes: u64, threads: u64) -> u64 {
        let whole = |part: u64| part / 4096 * 4096;
        match &self.plan {
            Plan::Random(_) | Plan::Mixed { .. } => whole(bytes / threads),
            Plan::Sequential { share, range, .. } => {
                let part = (u128::from(bytes) * u128::from(*share) / u128::from(*range)) as u64;
                if bytes.is_multiple_of(range * SECTOR) { part } else { whole(part) }
            }
        }
    }

    /// The next request, or a shorter one where a sequential region ends: every LBA is reached, none twice.
    #[inline]
    pub fn next_request(&mut self) -> Request {
        self.next_announced(|_| {})
    }

    /// The next request; those that will come soon after it are announced.
    #[inline]
    pub fn next_announced(&mut self, announce: impl FnMut(&Request)) -> Request {
        if self.taken >= TOGETHER {
            self.draw_ahead(announce);
        }
        self.taken += 1;
        self.ahead[self.taken - 1].0
    }

    #[inline(never)]
    fn draw_ahead(&mut self, mut announce: impl FnMut(&Request)) {
        self.mark = (self.rng.clone(), self.position);
        self.taken = 0;
        if let (Plan::Random(groups), [(_, sectors)], false) = (&self.plan, &self.sizes[..], self.mixes_operations())
            && let [group] = &groups[..]
        {
            // As `draw` does it, with all that is the same each time done once.
            let (placement, bytes) = (group[0], Bytes(sectors * SECTOR));
            let operation = if self.read_below == 0 { Operation::Write } else { Operation::Read };
            for ahead in &mut self.ahead {
                let lba = Lba(placement.start + below(&mut self.rng, placement.positions) * placement.step);
                *ahead = (Request { operation, lba, bytes }, Draw::default());
                announce(&ahead.0);
            }
            return;
        }
        for i in 0..TOGETHER {
            self.ahead[i] = self.draw();
            announce(&self.ahead[i].0);
        }
    }

    fn mixes_operations(&self) -> bool {
        (1..1 << 64).contains(&self.read_below)
    }

    /// What was drawn ahead and not taken will be drawn anew.
    fn put_back(&mut self) {
        if self.taken < TOGETHER {
            (self.rng, self.position) = self.mark.clone();
            for _ in 0..self.taken {
                self.draw();
            }
            self.taken = TOGETHER;
        }
    }

    #[inline]
    fn draw(&mut self) -> (Request, Draw) {
        let operation = self.draw_operation();
        let size = if self.sizes.len() == 1 { 0 } else { pick(&mut self.rng, self.sizes.iter().map(|s| s.0)) };
        let sectors = self.sizes[size].1;
        match &self.plan {
            Plan::Random(groups) => {
                let group = if groups.len() == 1 { 0 } else { pick(&mut self.rng, self.groups.iter().copied()) };
                let placement = groups[group][size];
                let lba = placement.start + below(&mut self.rng, placement.positions) * placement.step;
                let request = Request { operation, lba: Lba(lba), bytes: Bytes(sectors * SECTOR) };
                (request, Draw { size, group })
            }
            Plan::Sequential { region, .. } => {
                let request = Self::next_in_sequence(&mut self.position, *region, operation, sectors);
                (request, Draw { size, group: 0 })
            }
            Plan::Mixed { region, sequential_below, placements } => {
                let draw = Draw { size, group: 0 };
                if u128::from(self.rng.next_u64()) < *sequential_below {
                    return (Self::next_in_sequence(&mut self.position, *region, operation, sectors), draw);
                }
                let placement = placements[size];
                let lba = placement.start + below(&mut self.rng, placement.positions) * placement.step;
                (Request { operation, lba: Lba(lba), bytes: Bytes(sectors * SECTOR) }, draw)
            }
        }
    }

    #[inline]
    fn next_in_sequence(position: &mut u64, region: Range, operation: Operation, sectors: u64) -> Request {
        let lba = *position;
        let sectors = sectors.min(region.end - lba);
        *position = if lba + sectors == region.end { region.start } else { lba + sectors };
        Request { operation, lba: Lba(lba), bytes: Bytes(sectors * SECTOR) }
    }

    /// What the last request was drawn as; meaningless for a sequential stimulus of one block size.
    #[inline]
    pub fn last_draw(&self) -> Draw {
        self.ahead[self.taken - 1].1
    }

    #[inline]
    fn draw_operation(&mut self) -> Operation {
        let read = if self.mixes_operations() {
            u128::from(self.rng.next_u64()) < self.read_below
        } else {
            self.read_below > 0
        };
        if read { Operation::Read } else { Operation::Write }
    }
}
