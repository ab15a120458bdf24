//! A host at a simulated drive, without engine and session: a closed loop over the `Device` trait.

use flashgauge_core::engine::Device;
use flashgauge_core::simdrive::{DriveParameters, SimDrive, UNIT};
use flashgauge_core::units::{Bytes, Lba, Nanos, SECTOR};
use flashgauge_core::workload::{Operation, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One finished I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub slot: u32,
    pub submitted: u64,
    pub completed: u64,
}

impl Done {
    pub fn latency(&self) -> u64 {
        self.completed - self.submitted
    }
}

pub struct Host {
    pub drive: SimDrive,
    max_depth: u32,
}

impl Host {
    pub fn new(parameters: DriveParameters, max_depth: u32) -> Self {
        Self { drive: SimDrive::new(parameters, max_depth).unwrap(), max_depth }
    }

    /// Keep `depth` requests outstanding until all have completed. Each must complete exactly once, in order of time.
    pub fn run(&mut self, depth: u32, requests: impl IntoIterator<Item = Request>) -> Vec<Done> {
        assert!(depth <= self.max_depth);
        let mut requests = requests.into_iter().fuse();
        let mut outstanding: Vec<Option<u64>> = vec![None; depth as usize];
        let mut free: Vec<u32> = (0..depth).rev().collect();
        let (mut submitted, mut finished, mut done) = (0, vec![], vec![]);
        let mut last = self.drive.now().0;
        loop {
            while let Some(slot) = free.pop() {
                let Some(request) = requests.next() else { break };
                self.drive.submit(slot, &request).unwrap();
                outstanding[slot as usize] = Some(self.drive.now().0);
                submitted += 1;
            }
            if finished.len() == submitted {
                return finished;
            }
            self.drive.wait(Nanos::MAX, &mut done).unwrap();
            for completion in done.drain(..) {
                let at = completion.at.0;
                assert_eq!(completion.result, Ok(()));
                assert!(at >= last && at == self.drive.now().0, "completions come in order, at the drive's time");
                last = at;
                let begun = outstanding[completion.slot as usize].take().expect("an outstanding I/O completes, once");
                finished.push(Done { slot: completion.slot, submitted: begun, completed: at });
                free.push(completion.slot);
            }
        }
    }

    /// One I/O, alone: its latency.
    pub fn one(&mut self, request: Request) -> u64 {
        self.run(1, [request])[0].latency()
    }

    /// Send nothing for so long.
    pub fn rest(&mut self, ns: u64) {
        let until = Nanos(self.drive.now().0 + ns);
        let mut done = vec![];
        while self.drive.now() < until {
            self.drive.wait(until, &mut done).unwrap();
        }
        assert!(done.is_empty(), "an idle drive completes nothing");
    }

    /// Write `units` mapping units once each, in order, in large I/Os.
    pub fn fill(&mut self, units: u64) {
        let chunk = 256;
        let chunks = (0..units).step_by(chunk as usize);
        self.run(32.min(self.max_depth), chunks.map(|first| write(first, chunk.min(units - first))));
    }

    /// Units the host has written, and units collected, while `work` ran.
    pub fn moved(&mut self, work: impl FnOnce(&mut Self)) -> (u64, u64) {
        let before = self.drive.counters();
        work(self);
        let after = self.drive.counters();
        (after.host_units - before.host_units, after.collected_units - before.collected_units)
    }
}

pub fn request(operation: Operation, sector: u64, sectors: u64) -> Request {
    Request { operation, lba: Lba(sector), bytes: Bytes(sectors * SECTOR) }
}

/// A write of whole mapping units.
pub fn write(unit: u64, units: u64) -> Request {
    request(Operation::Write, unit * UNIT / SECTOR, units * UNIT / SECTOR)
}

/// A read of whole mapping units.
pub fn read(unit: u64, units: u64) -> Request {
    request(Operation::Read, unit * UNIT / SECTOR, units * UNIT / SECTOR)
}

/// Single units drawn from the first `units`, by a generator of the tests' own.
pub fn random_units(seed: u64, units: u64) -> impl Iterator<Item = u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || ((u128::from(rng.next_u64()) * u128::from(units)) >> 64) as u64)
}
