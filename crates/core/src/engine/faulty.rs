//! A device in memory that does wrong on purpose, for tests: it fails I/Os, loses writes, puts them in the wrong place,
//! changes bits, and completes in another order than was submitted. All of it follows from a seed, and is counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::clock::{monotonic, rest};
use super::device::{Completion, Device};
use super::uring::WriteData;
use crate::error::{DeviceError, Error};
use crate::units::{Bytes, Lba, Nanos};
use crate::workload::{Operation, Request};

/// How often each fault happens, of 1000 I/Os (writes, but for `fail`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub fail: u32,
    /// Acknowledged, and not stored.
    pub lose: u32,
    /// Stored elsewhere.
    pub misdirect: u32,
    /// Stored with one bit changed.
    pub corrupt: u32,
    /// Whether I/Os complete in the order in which they were submitted.
    pub in_order: bool,
}

/// I/Os that met each fault, and the sectors that these left wrong at the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Injected {
    pub failed: u64,
    pub lost: u64,
    pub misdirected: u64,
    pub corrupted: u64,
    pub submitted: u64,
    pub completed: u64,
    /// The most that were outstanding together.
    pub most_outstanding: u64,
}

/// The memory that all threads' devices share.
#[derive(Debug, Clone)]
pub struct Medium {
    data: Arc<Mutex<Vec<u8>>>,
}

impl Medium {
    pub fn new(range: Bytes) -> Self {
        Self { data: Arc::new(Mutex::new(vec![0; range.0 as usize])) }
    }

    /// A copy of what it holds.
    pub fn contents(&self) -> Vec<u8> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Pending {
    slot: u32,
    request: Request,
    /// Of a write: what to store.
    data: Vec<u8>,
}

/// One thread's end of the device.
pub struct FaultyDevice {
    medium: Medium,
    faults: Faults,
    rng: Xoshiro256PlusPlus,
    writes: WriteData,
    pending: Vec<Pending>,
    injected: Arc<Mutex<Injected>>,
}

impl FaultyDevice {
    /// `seed`: of the run, which its stamps carry, and of the faults.
    pub fn new(
        medium: &Medium,
        thread: u32,
        slots: u32,
        max_block: Bytes,
        seed: u64,
        faults: Faults,
        injected: &Arc<Mutex<Injected>>,
    ) -> Result<Self, Error> {
        let writes = WriteData::new(slots as usize, max_block.0 as usize, thread, seed);
        let mut writes = writes.map_err(|error| DeviceError::from_io("buffers in memory", &error))?;
        writes.make_verifiable();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(thread) << 32);
        let (medium, injected) = (medium.clone(), Arc::clone(injected));
        Ok(Self { medium, faults, rng, writes, pending: vec![], injected })
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.rng.next_u64() % 1000 < u64::from(per_mille)
    }

    fn count(&self, change: impl FnOnce(&mut Injected)) {
        change(&mut self.injected.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Store a write, or do with it what its fault says. Returns the I/O's result.
    fn carry_out(&mut self, mut io: Pending) -> Result<(), i32> {
        if self.happens(self.faults.fail) {
            self.count(|injected| injected.failed += 1);
            return Err(libc::EIO);
        }
        if io.request.operation == Operation::Read {
            return Ok(());
        }
        let mut at = io.request.lba.to_bytes().0 as usize;
        if self.happens(self.faults.lose) {
            self.count(|injected| injected.lost += 1);
            return Ok(());
        }
        if self.happens(self.faults.corrupt) {
            self.count(|injected| injected.corrupted += 1);
            let bit = self.rng.next_u64() as usize % (io.data.len() * 8);
            io.data[bit / 8] ^= 1 << (bit % 8);
        }
        let range = self.medium.lock().len();
        if self.happens(self.faults.misdirect) && range > io.data.len() {
            self.count(|injected| injected.misdirected += 1);
            let places = (range - io.data.len()) / 512 + 1;
            let elsewhere = self.rng.next_u64() as usize % (places - 1) * 512;
            at = if elsewhere >= at { elsewhere + 512 } else { elsewhere };
        }
        self.medium.lock()[at..at + io.data.len()].copy_from_slice(&io.data);
        Ok(())
    }
}

impl Device for FaultyDevice {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        assert!(self.pending.iter().all(|io| io.slot != slot), "slot {slot} is in flight");
        let Request { operation, lba: Lba(_), bytes } = *request;
        let data = if operation == Operation::Write {
            let length = bytes.0 as usize;
            let start = self.writes.prepare(slot as usize, request.lba, length);
            self.writes.prepared(start, length).to_vec()
        } else {
            vec![]
        };
        self.pending.push(Pending { slot, request: *request, data });
        let outstanding = self.pending.len() as u64;
        self.count(|injected| {
            injected.submitted += 1;
            injected.most_outstanding = injected.most_outstanding.max(outstanding);
        });
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.pending.is_empty() {
            rest(until);
            return Ok(());
        }
        let completing = 1 + self.rng.next_u64() as usize % self.pending.len();
        for _ in 0..completing {
            let place = if self.faults.in_order { 0 } else { self.rng.next_u64() as usize % self.pending.len() };
            let io = self.pending.remove(place);
            let slot = io.slot;
            let result = self.carry_out(io);
            self.count(|injected| injected.completed += 1);
            done.push(Completion { slot, at: monotonic(), result });
        }
        Ok(())
    }

    fn set_entropy(&mut self, percent: u8) {
        self.writes.set_entropy(percent);
    }
}
