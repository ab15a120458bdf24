//! A host that remembers what it wrote and judges what it reads: a shadow of the drive, one list of versions for each
//! unit of 4 KiB. Versions are the drive's stamps: the number of the write, counted as the host submits them.

use flashgauge_core::engine::{Completion, Control, Device};
use flashgauge_core::simdrive::{DriveParameters, SimDrive, UNIT};
use flashgauge_core::units::{Bytes, Lba, Nanos, SECTOR};
use flashgauge_core::workload::{Operation, Request};

const EIO: i32 = 5;
const ENODEV: i32 = 19;

/// Never written, or trimmed.
const UNWRITTEN: u64 = 0;

#[derive(Debug, Clone)]
struct Unit {
    /// In the order in which they were submitted; what is older than `floor` may be missing.
    versions: Vec<u64>,
    /// The newest one that was acknowledged, and the newest one that not even a power loss may take back.
    acked: usize,
    floor: usize,
}

impl Unit {
    fn holding(version: u64) -> Self {
        Self { versions: vec![version], acked: 0, floor: 0 }
    }

    fn place(&self, version: u64) -> Option<usize> {
        self.versions.iter().rposition(|known| *known == version)
    }
}

#[derive(Debug, Clone)]
struct Outstanding {
    operation: Operation,
    units: std::ops::Range<u64>,
    /// Of a write: its number. Of a read: for each unit, the oldest version that may be read.
    number: u64,
    oldest: Vec<u64>,
}

pub struct Judge {
    pub drive: SimDrive,
    parameters: DriveParameters,
    units: Vec<Unit>,
    outstanding: Vec<Option<Outstanding>>,
    cache: bool,
    writes: u64,
    losses: u64,
    /// Acknowledged versions that power losses have taken, one for each unit that lost any.
    pub lost_units: u64,
    /// Units that a read has failed on, until they are rewritten.
    bad_reads: u64,
    /// Every completion so far, folded into a number (FNV-1a).
    pub digest: u64,
}

impl Judge {
    /// `parameters` must track data.
    pub fn new(parameters: DriveParameters, max_depth: u32) -> Self {
        Self {
            units: vec![Unit::holding(UNWRITTEN); parameters.geometry().units as usize],
            drive: SimDrive::new(parameters.clone(), max_depth).unwrap(),
            parameters,
            outstanding: vec![None; max_depth as usize],
            cache: true,
            writes: 0,
            losses: 0,
            lost_units: 0,
            bad_reads: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn drops_out(&self) -> bool {
        self.parameters.fault_dropout_after_ios > 0 || self.parameters.fault_dropout_after_s > 0.0
    }

    /// The drive has dropped out: nothing can be learned from it any more.
    pub fn is_gone(&self) -> bool {
        self.drive.faults().gone
    }

    fn volatile(&self) -> bool {
        self.cache && !self.parameters.power_loss_protection
    }

    fn submit(&mut self, slot: u32, request: &Request) {
        let (start, end) = (request.lba.to_bytes().0, request.lba.to_bytes().0 + request.bytes.0);
        let units = start / UNIT..end.div_ceil(UNIT);
        let write = request.operation == Operation::Write;
        self.writes += u64::from(write);
        let oldest = units.clone().map(|unit| {
            let unit = &mut self.units[unit as usize];
            let oldest = unit.versions[unit.acked];
            if write {
                unit.versions.push(self.writes);
            }
            oldest
        });
        let oldest = oldest.collect();
        self.outstanding[slot as usize] =
            Some(Outstanding { operation: request.operation, units, number: self.writes, oldest });
        self.drive.submit(slot, request).unwrap();
        assert_eq!(self.drive.writes_submitted(), self.writes);
    }

    /// Keep `depth` requests outstanding until all have completed. Power is lost after `cut_after` completions.
    pub fn run(&mut self, depth: u32, requests: &[Request], cut_after: Option<usize>) {
        let mut free: Vec<u32> = (0..depth).rev().collect();
        let (mut next, mut completed, mut done) = (0, 0, vec![]);
        while completed < requests.len() {
            while next < requests.len()
                && let Some(slot) = free.pop()
            {
                self.submit(slot, &requests[next]);
                next += 1;
            }
            self.drive.wait(Nanos::MAX, &mut done).unwrap();
            if done.is_empty() {
                continue;
            }
            let before = completed;
            completed += done.len();
            free.extend(done.iter().map(|completion| completion.slot));
            self.take(&mut done);
            if cut_after.is_some_and(|cut| (before + 1..=completed).contains(&cut)) {
                self.drive.power_loss(&mut done).unwrap();
                completed += done.len();
                free.extend(done.iter().map(|completion| completion.slot));
                self.take(&mut done);
            }
        }
    }

    fn take(&mut self, done: &mut Vec<Completion>) {
        let cut = self.drive.faults().power_losses > self.losses;
        for completion in done.drain(..) {
            for value in [u64::from(completion.slot), completion.at.0, completion.result.err().unwrap_or(0) as u64] {
                self.digest = (self.digest ^ value).wrapping_mul(0x100_0000_01b3);
            }
            let io = self.outstanding[completion.slot as usize].take().expect("an I/O completes once");
            match (completion.result, io.operation) {
                (Ok(()), Operation::Write) => self.acknowledged(&io),
                (Ok(()), Operation::Read) => self.judge_read(&io, completion.slot),
                (Err(ENODEV), _) => {
                    assert!(self.drops_out(), "only a drive that drops out says ENODEV");
                }
                (Err(EIO), Operation::Read) if !cut && self.parameters.fault_read_error_rate > 0.0 => {
                    self.bad_reads += 1
                }
                (Err(errno), _) => assert!(cut && errno == EIO, "only a power loss fails an I/O: {errno}"),
            }
        }
        if self.bad_reads > 0 {
            assert!(self.drive.faults().unreadable_units > 0, "a read fails where a unit is unreadable");
        }
        if cut && !self.is_gone() {
            self.judge_loss();
        }
    }

    fn acknowledged(&mut self, io: &Outstanding) {
        let volatile = self.volatile();
        // A read under way may yet give what was there when it was submitted.
        let reads = self.outstanding.iter().flatten().any(|io| io.operation == Operation::Read);
        for unit in io.units.clone() {
            let unit = &mut self.units[unit as usize];
            // Not listed: a newer write was acknowledged before, and is safe.
            let Some(place) = unit.place(io.number) else { continue };
            unit.acked = unit.acked.max(place);
            if !volatile {
                unit.floor = unit.acked;
                if !reads {
                    unit.versions.drain(..unit.floor);
                    (unit.acked, unit.floor) = (0, 0);
                }
            }
        }
    }

    /// Each unit as acknowledged when the read was submitted, or newer.
    fn judge_read(&self, io: &Outstanding, slot: u32) {
        assert_eq!(self.drive.read_back(slot).len(), io.oldest.len(), "the read in slot {slot} was served");
        for ((unit, read), oldest) in io.units.clone().zip(self.drive.read_back(slot)).zip(&io.oldest) {
            let state = &self.units[unit as usize];
            let good = state.place(*read) >= state.place(*oldest) && state.place(*oldest).is_some();
            assert!(good, "unit {unit} read as write {read}, at least {oldest} expected; {state:?}");
        }
    }

    /// After a power loss nothing is outstanding: each unit holds what is safe, or newer, and no more is lost than the
    /// buffer held.
    fn judge_loss(&mut self) {
        self.losses = self.drive.faults().power_losses;
        assert!(self.outstanding.iter().all(Option::is_none), "what was outstanding has failed");
        let mut lost = 0;
        for (number, unit) in self.units.iter_mut().enumerate() {
            let held = self.drive.stamp_of(number as u64);
            let place = unit.place(held).unwrap_or_else(|| panic!("unit {number} holds {held}; {unit:?}"));
            assert!(place >= unit.floor, "unit {number} holds {held}, older than what is safe; {unit:?}");
            lost += u64::from(place < unit.acked);
            *unit = Unit::holding(held);
        }
        assert!(lost as i64 <= self.parameters.buffer_units(), "{lost} units are lost, more than the buffer holds");
        self.lost_units += lost;
        self.drive.check();
    }

    pub fn rest(&mut self, ns: u64) {
        let until = Nanos(self.drive.now().0 + ns);
        let mut done = vec![];
        while self.drive.now() < until {
            self.drive.wait(until, &mut done).unwrap();
            assert!(done.is_empty(), "an idle drive completes nothing");
            self.take(&mut done);
        }
    }

    /// Switching the cache, on or off, writes out what it holds.
    pub fn switch_cache(&mut self, enabled: bool) {
        self.drive.control(Control::WriteCache(enabled)).unwrap();
        // Unless power is lost meanwhile.
        self.take(&mut vec![]);
        if self.is_gone() {
            return;
        }
        self.cache = enabled;
        for unit in &mut self.units {
            *unit = Unit::holding(unit.versions[unit.acked]);
        }
    }

    pub fn trim(&mut self, sector: u64, sectors: u64) {
        self.drive.control(Control::Trim { lba: Lba(sector), bytes: Bytes(sectors * SECTOR) }).unwrap();
        let (start, end) = (sector * SECTOR, (sector + sectors) * SECTOR);
        let whole = end == self.parameters.capacity_bytes;
        let last = if whole { self.units.len() as u64 } else { end / UNIT };
        for unit in start.div_ceil(UNIT)..last {
            self.units[unit as usize] = Unit::holding(UNWRITTEN);
        }
    }

    pub fn purge(&mut self) {
        self.drive.control(Control::Purge).unwrap();
        self.losses = self.drive.faults().power_losses;
        self.units.fill(Unit::holding(UNWRITTEN));
    }

    pub fn lose_power(&mut self) {
        let mut done = vec![];
        self.drive.power_loss(&mut done).unwrap();
        assert!(done.is_empty(), "nothing was outstanding");
        self.take(&mut done);
    }

    /// With nothing outstanding, every unit reads as last acknowledged, and the drive's own laws hold.
    pub fn check(&self) {
        if self.is_gone() {
            return;
        }
        for (number, unit) in self.units.iter().enumerate() {
            let held = self.drive.stamp_of(number as u64);
            assert_eq!(held, unit.versions[unit.acked], "unit {number} of {}", self.units.len());
            assert_eq!(unit.acked + 1, unit.versions.len(), "all writes to unit {number} are acknowledged");
        }
        self.drive.check();
    }
}
