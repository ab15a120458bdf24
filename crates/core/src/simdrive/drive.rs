//! The drive as the host sees it: commands through the link, the write buffer and the dies, in virtual time.
//!
//! Read: slot -> die (tR) -> channel -> link -> host. Write: slot -> link -> buffer -> host, and from the buffer
//! page by page to the dies. A write that finds the buffer full waits in its slot, which is how a saturated drive
//! slows the host down. With the cache disabled and no power-loss protection, a write is done when it is in flash.

use std::collections::VecDeque;

use super::command::{Command, LinkRate};
use super::events::{Calendar, Event};
use super::extras::Extras;
use super::flash::{Flash, FlashTimes, Job};
use super::ftl::{FlashWork, Ftl};
use super::idle::IdleCollection;
use super::memory::fresh_ftl;
use super::params::{DriveParameters, UNIT};
use super::stream::LEAST_PAGES;
use crate::engine::{Completion, Conditions, Control, Device};
use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Lba, Nanos};
use crate::workload::{Operation, Request};

/// How many units ahead of a write the tables it will change are fetched.
pub(super) const OVERWRITE_AHEAD: u64 = 8;

/// Small requests' map entries are fetched when they are drawn, others' when they are submitted.
const EXPECTED_UNITS: u32 = 16;

pub struct SimDrive {
    pub(super) parameters: DriveParameters,
    pub(super) now: u64,
    pub(super) calendar: Calendar,
    pub(super) ftl: Ftl,
    pub(super) flash: Flash,
    pub(super) read_link: LinkRate,
    pub(super) write_link: LinkRate,
    /// When the link is free: [0] for reads and for both on a half-duplex link, [1] for writes.
    pub(super) link_free: [u64; 2],
    write_lane: usize,
    pub(super) commands: Vec<Command>,
    /// Commands in the drive, and those the host still holds.
    pub(super) active: u32,
    pub(super) waiting: VecDeque<u32>,
    cache_enabled: bool,
    /// Units free in the buffer; below 0 for a moment when an open page is padded.
    pub(super) buffer_free: i64,
    pub(super) buffer_waiting: VecDeque<u32>,
    /// Writes between slot and buffer; while there are any, an open page may yet fill.
    pub(super) writes_on_link: u32,
    /// Unit by unit and event by event: what the fast ways must give the same answers as.
    #[cfg(test)]
    pub(super) plainly: bool,
    pub(super) idle_collection: IdleCollection,
    /// Writes in the drive that are worth streaming.
    pub(super) large_writes: u32,
    /// Units of the largest write that is not.
    pub(super) most_small: u32,
    /// Commands to tell when a host page is programmed, by physical page; only where flash is waited for.
    pub(super) page_waiters: Vec<(u32, Vec<u32>)>,
    /// ... by pool.
    pub(super) open_page_waiters: [Vec<u32>; 2],
    /// Write commands since a page of the mapping table was programmed.
    pub(super) unmapped_writes: u64,
    pub(super) map_die: u32,
    pub(super) work: Vec<FlashWork>,
    /// Time and units a read needs from each die, and which dies those are: kept to save allocations.
    pub(super) die_need: Vec<(u64, u32)>,
    pub(super) dies_needed: Vec<u32>,
    pub(super) extras: Extras,
}

impl SimDrive {
    /// A drive fresh out of the box, its write cache enabled, for slots 0..`max_slots`.
    pub fn new(parameters: DriveParameters, max_slots: u32) -> Result<Self, TargetError> {
        let ftl = fresh_ftl(&parameters)?;
        let p = &parameters;
        let nothing = Request { operation: Operation::Read, lba: Lba(0), bytes: Bytes(512) };
        Ok(Self {
            now: 0,
            calendar: Calendar::new(p.dies),
            ftl,
            flash: Flash::new(p.dies, p.channels, FlashTimes::new(p), p.read_priority, p.suspends()),
            read_link: LinkRate::read(p),
            write_link: LinkRate::write(p),
            link_free: [0; 2],
            write_lane: usize::from(p.full_duplex),
            commands: vec![Command::new(&nothing, p.capacity_bytes); max_slots as usize],
            active: 0,
            waiting: VecDeque::new(),
            cache_enabled: true,
            buffer_free: p.buffer_units(),
            buffer_waiting: VecDeque::new(),
            writes_on_link: 0,
            #[cfg(test)]
            plainly: false,
            idle_collection: IdleCollection::new(p, 0),
            large_writes: 0,
            most_small: LEAST_PAGES * p.geometry().units_per_page,
            page_waiters: vec![],
            open_page_waiters: [vec![], vec![]],
            unmapped_writes: 0,
            map_die: 0,
            work: vec![],
            die_need: vec![(0, 0); p.dies as usize],
            dies_needed: vec![],
            extras: Extras::new(p, max_slots),
            parameters,
        })
    }

    pub fn parameters(&self) -> &DriveParameters {
        &self.parameters
    }

    /// Every law of conservation, checked in full: slow, for tests.
    pub fn check(&self) {
        self.ftl.check();
        if let Some(track) = &self.extras.track {
            track.check(&self.ftl);
        }
        assert!(self.buffer_free <= self.parameters.buffer_units(), "more left the buffer than entered it");
    }

    /// Back to fresh out of the box. The drive must be idle; time goes on.
    pub fn purge(&mut self) -> Result<(), TargetError> {
        assert_eq!(self.active, 0, "a purge needs an idle drive");
        self.finish_background();
        self.ftl.purge();
        self.extras.purged(self.parameters.dies);
        self.idle_collection = IdleCollection::new(&self.parameters, self.idle_collection.since);
        // What was gathering in the open page is gone too.
        self.buffer_free = self.parameters.buffer_units();
        (self.unmapped_writes, self.map_die) = (0, 0);
        Ok(())
    }

    /// Volatile write cache on or off. The drive must be idle; turning it off writes out what it holds.
    pub fn set_write_cache(&mut self, enabled: bool) {
        assert_eq!(self.active, 0, "the cache is switched on an idle drive");
        self.cache_enabled = enabled;
        self.flush_open_page();
        self.finish_background();
    }

    /// Unmap a range, in no time. The drive must be idle. A unit that lies in it only in part stays.
    pub fn trim(&mut self, lba: Lba, bytes: Bytes) -> Result<(), TargetError> {
        assert_eq!(self.active, 0, "an idle drive is trimmed");
        let (start, capacity) = (lba.to_bytes().0, self.parameters.capacity_bytes);
        let Some(end) = start.checked_add(bytes.0).filter(|end| *end <= capacity) else {
            return Err(TargetError::Unusable {
                path: "simulated drive".into(),
                problem: format!("{} bytes from LBA {} on end beyond its capacity", bytes.0, lba.0),
                cure: format!("trim within its {capacity} bytes"),
            });
        };
        // The drive's last unit may be cut short, and is whole all the same.
        let last = if end == capacity { self.ftl.geometry().units } else { end / UNIT };
        let first = start.div_ceil(UNIT);
        let units = first..last.max(first);
        self.extras.trimmed(&units);
        self.ftl.trim(units);
        Ok(())
    }

    /// Let all programs and collection in flight end, and what happens to the drive meanwhile happen.
    fn finish_background(&mut self) {
        self.idle_collection.begun = 0;
        while !self.calendar.nothing_until(u64::MAX) {
            let Some((at, event)) = self.calendar.pop_until(self.extras.alarm, false) else {
                let mut failed = vec![];
                self.ring(&mut failed);
                assert!(failed.is_empty(), "an idle drive has no command to fail");
                continue;
            };
            self.now = at;
            let completed = self.handle(event);
            assert!(completed.is_none(), "an idle drive has no command to complete");
        }
        // Later if power was lost: no command has been there since it came back.
        self.idle_collection.since = self.idle_collection.since.max(self.now);
    }

    /// A write is not done before its data is in flash.
    pub(super) fn waits_for_flash(&self) -> bool {
        !self.cache_enabled && !self.parameters.power_loss_protection
    }

    #[inline]
    pub(super) fn admit(&mut self, slot: u32) {
        self.active += 1;
        match self.commands[slot as usize].operation {
            Operation::Read => self.admit_read(slot),
            Operation::Write => self.admit_write(slot),
        }
    }

    #[inline(always)]
    pub(super) fn enter_die(&mut self, die: u32, done: Option<u64>) {
        if done.is_some() {
            self.calendar.set_die(die, done);
        }
    }

    fn admit_write(&mut self, slot: u32) {
        let Command { bytes, first_unit, units, .. } = self.commands[slot as usize];
        self.ftl.expect_overwrite(first_unit..first_unit + u64::from(units).min(OVERWRITE_AHEAD));
        let busy = self.write_link.overhead(bytes) + self.write_link.transfer(bytes);
        self.large_writes += u32::from(self.is_large(units));
        let free = &mut self.link_free[self.write_lane];
        *free = self.now.max(*free) + busy;
        self.writes_on_link += 1;
        self.calendar.enter(*free, Event::Arrived(slot));
    }

    /// Hand what the FTL asks for to the dies.
    pub(super) fn start_work(&mut self) {
        for i in 0..self.work.len() {
            match self.work[i] {
                FlashWork::Move(moves) if self.extras.watches => {
                    moves.one_by_one(self.ftl.geometry()).into_iter().for_each(|work| self.start(work));
                }
                FlashWork::Move(moves) => {
                    let (geometry, calendar) = (self.ftl.geometry(), &mut self.calendar);
                    self.flash.move_units(&moves, geometry, self.now, |die, done| calendar.set_die(die, Some(done)));
                }
                work => self.start(work),
            }
        }
        self.work.clear();
    }

    #[inline]
    fn start(&mut self, work: FlashWork) {
        let (die, done) = match work {
            FlashWork::CollectRead { page, units, senses, mode } => {
                let die = self.flash.die_of(page);
                let die_ns = self.flash.sense_ns(mode, senses);
                (die, self.flash.read(die, die_ns, Job::InnerRead { units }, self.now))
            }
            FlashWork::Program { page, erase, mode, host } => {
                let die = self.flash.die_of(page);
                if self.extras.watches {
                    self.watch_program(die, mode, host.is_some());
                }
                let job = host.map_or(Job::InnerProgram, |units| Job::HostProgram { page, units });
                let waiters = &mut self.open_page_waiters[self.ftl.pool()];
                if host.is_some() && !waiters.is_empty() {
                    self.page_waiters.push((page, std::mem::take(waiters)));
                }
                (die, self.flash.program(die, job, mode, erase, self.now))
            }
            FlashWork::Move(_) => unreachable!("moves are started together, or taken apart"),
        };
        self.enter_die(die, done);
    }

    /// Go on until a command is done, or `until`. `TOGETHER`: until one is whose place no other takes, in the drive, that
    /// was submitted before; those done by then come before `until`.
    fn advance<const TOGETHER: bool>(&mut self, until: Nanos, done: &mut Vec<Completion>) {
        let mut end = until.0;
        loop {
            let horizon = end.min(self.extras.alarm);
            if self.large_writes > 0 {
                self.stream(horizon);
            }
            if self.active == 0 {
                self.idle(horizon);
            }
            let Some((at, event)) = self.calendar.pop_until(horizon, self.buffer_free <= 0) else {
                if self.rings(end) {
                    self.ring(done);
                    if done.is_empty() {
                        continue;
                    }
                    return;
                }
                break;
            };
            self.now = at;
            if let Some(slot) = self.handle(event) {
                self.ftl.settle();
                let result = if self.extras.watches { self.watch_done(slot) } else { Ok(()) };
                done.push(Completion { slot, at: Nanos(at), result });
                // With none waiting, the host's next command begins at once.
                if !TOGETHER || self.waiting.is_empty() || self.extras.watches {
                    return;
                }
                end = until.0 - 1;
            }
        }
        self.ftl.settle();
        if !TOGETHER || done.is_empty() {
            assert!(until != Nanos::MAX, "a drive with nothing to do was asked to wait forever");
            self.now = self.now.max(until.0);
        }
    }

    /// Advance by one event; the slot of a command that the host now knows to be done.
    #[inline(always)]
    fn handle(&mut self, event: Event) -> Option<u32> {
        match event {
            Event::Die(die) => {
                let (job, next) = self.flash.finish(die, self.now);
                self.calendar.set_die(die, next);
                self.die_done(die, job);
                if self.idle_collection.begun > 0 {
                    self.work_idly();
                }
                None
            }
            Event::Arrived(slot) => {
                self.arrived(slot);
                self.fill_buffer();
                None
            }
            Event::ReadDone(slot) | Event::WriteDone(slot) => {
                self.active -= 1;
                self.idle_collection.since = self.now;
                if let Some(next) = self.waiting.pop_front() {
                    self.admit(next);
                }
                Some(slot)
            }
        }
    }

    #[inline(always)]
    fn die_done(&mut self, die: u32, job: Job) {
        match job {
            Job::HostRead { slot, units } => {
                let overhead_ns =
                    if self.commands[slot as usize].overhead_paid { 0 } else { self.read_link.controller_ns };
                let ready = self.flash.transfer(die, units, overhead_ns, self.now);
                let command = &mut self.commands[slot as usize];
                command.pending -= 1;
                let last = command.pending == 0;
                let bytes = if last { command.left } else { command.left.min(u64::from(units) * UNIT) };
                let at = self.send_on_link(slot, bytes, ready);
                if last {
                    self.calendar.enter(at, Event::ReadDone(slot));
                }
            }
            Job::InnerRead { units } => {
                self.flash.transfer(die, units, 0, self.now);
            }
            Job::InnerProgram => {}
            Job::HostProgram { page, units } => {
                if self.extras.watches {
                    self.watch_programmed(die);
                }
                self.buffer_free += i64::from(units);
                self.tell_waiters(page);
                self.fill_buffer();
            }
        }
    }
}

impl Device for SimDrive {
    fn now(&mut self) -> Nanos {
        Nanos(self.now)
    }

    #[inline(always)]
    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        let command = Command::new(request, self.parameters.capacity_bytes);
        if command.units > EXPECTED_UNITS {
            self.ftl.expect(command.first_unit, command.units);
        }
        self.commands[slot as usize] = command;
        self.idle_collection.begun = 0;
        if self.extras.watches {
            self.watch_submit(slot);
        }
        if self.active < self.extras.slots {
            self.admit(slot);
        } else {
            self.waiting.push_back(slot);
        }
        Ok(())
    }

    #[inline]
    fn expect(&mut self, request: &Request) {
        if request.bytes.0 <= u64::from(EXPECTED_UNITS) * UNIT {
            self.ftl.expect(request.lba.to_bytes().0 / UNIT, 1);
        }
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.advance::<false>(until, done);
        Ok(())
    }

    fn wait_together(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.advance::<true>(until, done);
        Ok(())
    }

    /// Incompressible or not, the simulated drive stores every byte.
    fn set_entropy(&mut self, _percent: u8) {}

    fn conditions(&mut self) -> Option<Conditions> {
        self.take_conditions()
    }

    fn control(&mut self, control: Control) -> Result<(), Error> {
        self.present()?;
        match control {
            Control::Purge => self.purge()?,
            Control::WriteCache(enabled) => self.set_write_cache(enabled),
            Control::Trim { lba, bytes } => self.trim(lba, bytes)?,
            Control::PowerLoss => self.power_loss(&mut vec![])?,
        }
        Ok(())
    }
}
