//! The disk as the host sees it: commands through controller, queue, heads and interface, in virtual time.
//!
//! Read: slot -> controller -> heads -> interface -> host, the last two at the same time. Write: slot -> controller ->
//! interface -> heads -> host, or, with the cache enabled, -> cache -> host, and from the cache to the heads in the
//! queue's order. A write that finds the cache full waits in its slot.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::mechanics::{Access, Mechanics};
use super::params::DiskParameters;
use super::queue::{Job, Queue};
use crate::engine::{Completion, Control, Device};
use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Lba, Nanos, SECTOR};
use crate::workload::{Operation, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The controller has the command, and a write's data.
    Arrived(u32),
    /// The heads are done with their job.
    Transferred,
    /// The host learns that the command in this slot is done.
    Done(u32),
}

/// What the cache holds, from a write's acknowledgement until the heads have written it.
#[derive(Debug, Default)]
struct WriteCache {
    enabled: bool,
    bytes: u64,
    writes: u32,
    /// Commands whose data is here and has no room yet.
    waiting: VecDeque<u32>,
}

pub struct SimDisk {
    parameters: DiskParameters,
    mechanics: Mechanics,
    now: u64,
    /// By time, equal times in the order they were entered.
    calendar: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    commands: Vec<Request>,
    active: u32,
    waiting: VecDeque<u32>,
    queue: Queue,
    /// Under way at the heads.
    transfer: Option<(Job, Access)>,
    track: u64,
    after_sector: u64,
    controller_free: u64,
    link_free: [u64; 2],
    cache: WriteCache,
}

impl SimDisk {
    /// A disk with its cache enabled and its heads at the outermost track.
    pub fn new(parameters: DiskParameters, max_slots: u32) -> Self {
        let nothing = Request { operation: Operation::Read, lba: Lba(0), bytes: Bytes(512) };
        let age_limit_ns = (parameters.queue_age_limit_ms * 1e6).round() as u64;
        Self {
            mechanics: Mechanics::new(&parameters),
            now: 0,
            calendar: BinaryHeap::new(),
            sequence: 0,
            commands: vec![nothing; max_slots as usize],
            active: 0,
            waiting: VecDeque::new(),
            queue: Queue { policy: parameters.queue_policy, age_limit_ns, jobs: vec![] },
            transfer: None,
            track: 0,
            after_sector: 0,
            controller_free: 0,
            link_free: [0; 2],
            cache: WriteCache { enabled: true, ..WriteCache::default() },
            parameters,
        }
    }

    fn enter(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.calendar.push(Reverse((at, self.sequence, event)));
    }

    fn pop_until(&mut self, until: u64) -> Option<(u64, Event)> {
        let Reverse((at, _, event)) = *self.calendar.peek()?;
        if at > until {
            return None;
        }
        self.calendar.pop();
        Some((at, event))
    }

    fn link_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * 1e3 / self.parameters.link_mb_per_s).round() as u64
    }

    fn admit(&mut self, slot: u32) {
        self.active += 1;
        let Request { operation, bytes, .. } = self.commands[slot as usize];
        self.controller_free =
            self.now.max(self.controller_free) + (self.parameters.controller_us * 1e3).round() as u64;
        let mut ready = self.controller_free;
        if operation == Operation::Write {
            ready = self.link_free[1].max(ready) + self.link_ns(bytes.0);
            self.link_free[1] = ready;
        }
        self.enter(ready, Event::Arrived(slot));
    }

    fn arrived(&mut self, slot: u32) {
        let Request { operation, lba, bytes } = self.commands[slot as usize];
        if operation == Operation::Write && self.cache.enabled {
            self.cache.waiting.push_back(slot);
            self.fill_cache();
        } else if operation == Operation::Read && self.queue.covered(lba.0, bytes.0 / SECTOR) {
            self.link_free[0] = self.link_free[0].max(self.now) + self.link_ns(bytes.0);
            self.enter(self.link_free[0], Event::Done(slot));
        } else {
            self.queue_job(slot, Some(slot));
        }
        self.start_transfer();
    }

    /// The command's access joins the queue; `waits`: the host waits for it.
    fn queue_job(&mut self, slot: u32, waits: Option<u32>) {
        let Request { operation, lba, bytes } = self.commands[slot as usize];
        let (place, sectors) = (self.mechanics.place(lba.0), bytes.0 / SECTOR);
        let job = Job { slot: waits, operation, first_sector: lba.0, sectors, place, since: self.now };
        self.queue.jobs.push(job);
    }

    fn fill_cache(&mut self) {
        while let Some(&slot) = self.cache.waiting.front() {
            let Request { lba, bytes, .. } = self.commands[slot as usize];
            // What is overwritten before it is on the disk costs the heads nothing.
            if !self.queue.cached(lba.0, bytes.0 / SECTOR) {
                let room = self.cache.bytes + bytes.0 <= self.parameters.write_cache_kib * 1024;
                let free = room && self.cache.writes < self.parameters.write_cache_segments;
                if !free && self.cache.writes > 0 {
                    return;
                }
                self.cache.bytes += bytes.0;
                self.cache.writes += 1;
                self.queue_job(slot, None);
            }
            self.cache.waiting.pop_front();
            self.enter(self.now, Event::Done(slot));
        }
    }

    /// If the heads have nothing to do, give them the job that is next.
    fn start_transfer(&mut self) {
        if self.transfer.is_some() {
            return;
        }
        let Some(job) = self.queue.next(&self.mechanics, self.track, self.after_sector, self.now) else { return };
        let access = self.mechanics.access(self.track, self.now, job.place, job.sectors, job.operation);
        self.transfer = Some((job, access));
        self.enter(access.end, Event::Transferred);
    }

    fn transferred(&mut self) {
        let (job, access) = self.transfer.take().expect("the heads were under way");
        self.track = access.track;
        self.after_sector = job.first_sector + job.sectors;
        let bytes = job.sectors * SECTOR;
        match (job.slot, job.operation) {
            (Some(slot), Operation::Read) => {
                // The interface begins with the heads, and cannot end before them.
                self.link_free[0] = (self.link_free[0].max(access.begin) + self.link_ns(bytes)).max(self.now);
                self.enter(self.link_free[0], Event::Done(slot));
            }
            (Some(slot), Operation::Write) => self.enter(self.now, Event::Done(slot)),
            (None, _) => {
                self.cache.bytes -= bytes;
                self.cache.writes -= 1;
                self.fill_cache();
            }
        }
        self.start_transfer();
    }

    /// Advance by one event; the slot of a command that the host now knows to be done.
    fn handle(&mut self, event: Event) -> Option<u32> {
        match event {
            Event::Arrived(slot) => self.arrived(slot),
            Event::Transferred => self.transferred(),
            Event::Done(slot) => {
                self.active -= 1;
                if let Some(next) = self.waiting.pop_front() {
                    self.admit(next);
                }
                return Some(slot);
            }
        }
        None
    }

    /// Volatile write cache on or off. The disk must be idle; turning it off writes out what it holds.
    fn set_write_cache(&mut self, enabled: bool) {
        assert_eq!(self.active, 0, "the cache is switched on an idle disk");
        while let Some((at, event)) = self.pop_until(u64::MAX) {
            self.now = at;
            assert!(self.handle(event).is_none(), "an idle disk has no command to complete");
        }
        assert_eq!((self.cache.bytes, self.cache.writes), (0, 0), "all of the cache was written");
        self.cache.enabled = enabled;
    }
}

impl Device for SimDisk {
    fn now(&mut self) -> Nanos {
        Nanos(self.now)
    }

    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        self.commands[slot as usize] = *request;
        if self.active < self.parameters.queue_slots {
            self.admit(slot);
        } else {
            self.waiting.push_back(slot);
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        while let Some((at, event)) = self.pop_until(until.0) {
            self.now = at;
            if let Some(slot) = self.handle(event) {
                done.push(Completion { slot, at: Nanos(at), result: Ok(()) });
                return Ok(());
            }
        }
        assert!(until != Nanos::MAX, "a disk with nothing to do was asked to wait forever");
        self.now = self.now.max(until.0);
        Ok(())
    }

    /// Incompressible or not, the disk stores every byte.
    fn set_entropy(&mut self, _percent: u8) {}

    fn control(&mut self, control: Control) -> Result<(), Error> {
        match control {
            // A disk has no state that a purge could return: what was written does not slow down what will be.
            Control::Purge => Ok(()),
            Control::WriteCache(enabled) => {
                self.set_write_cache(enabled);
                Ok(())
            }
            Control::Trim { .. } => Err(TargetError::NotSupported("a disk knows no TRIM".into()).into()),
            Control::PowerLoss => {
                Err(TargetError::NotSupported("only a simulated SSD can lose its power".into()).into())
            }
        }
    }
}
