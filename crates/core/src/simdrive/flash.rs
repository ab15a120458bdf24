//! Dies, channels and the controller's data path: each does one thing at a time, dies reads first where the parameters
//! say so.
//!
//! A read operation holds the die for tR, then its channel for the transfer. A program holds the channel for the
//! transfer, then the die for tPROG. All that goes over a channel also goes through the controller (memory, error
//! correction, encryption), which takes it from all channels in the order in which transfers begin; one is done when
//! the slower of the two is. Suspension is in `suspend`. Limits: a read takes the
//! whole die, whatever plane it is of; no cache reads; and a die waits for a page's transfer.
//!
//! Work of the drive's own that waits on a die is folded into the work queued behind it: nobody waits for its end,
//! and one event does for both. As nothing may overtake, that changes no time but the channel's; where reads may, each
//! is on its own.

use std::collections::VecDeque;

use super::divisor::Divisor;
use super::moves::Moves;
use super::params::{DriveParameters, Geometry, UNIT};
use super::slc::CellMode;
use super::suspend::Suspension;

/// Programs that may be folded into one job: the channel takes the data of all of them first.
const MOST_FOLDED: u32 = 4;

/// What a die is doing, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Data for the host command in this slot.
    HostRead { slot: u32, units: u32 },
    /// Data that is being collected, or read to be modified.
    InnerRead { units: u32 },
    /// A page of host data, of so many units; `page` is its physical page number.
    HostProgram { page: u32, units: u32 },
    /// A page of collected data or of the mapping table.
    InnerProgram,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    job: Job,
    die_ns: u64,
    /// Pages that go over the channel before the die begins, and how long that takes the channel and the controller.
    programs: u32,
    channel_ns: u64,
    controller_ns: u64,
}

/// A queue whose last job is at hand: most that come are folded into it.
#[derive(Debug, Default)]
struct Queue {
    before: VecDeque<Queued>,
    last: Option<Queued>,
}

impl Queue {
    #[inline]
    fn back_mut(&mut self) -> Option<&mut Queued> {
        self.last.as_mut()
    }

    #[inline]
    fn push_back(&mut self, queued: Queued) {
        if let Some(last) = self.last.replace(queued) {
            self.before.push_back(last);
        }
    }

    #[inline]
    fn pop_front(&mut self) -> Option<Queued> {
        self.before.pop_front().or_else(|| self.last.take())
    }

    fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.before.iter().chain(&self.last)
    }
}

#[derive(Debug, Default)]
pub(super) struct Die {
    channel: usize,
    pub(super) current: Option<Job>,
    pub(super) reads: VecDeque<Queued>,
    others: Queue,
}

/// Times of one operation on cells of one mode, in ns.
#[derive(Debug, Clone, Copy)]
pub struct CellTimes {
    pub read_ns: u64,
    pub program_ns: u64,
    pub erase_ns: u64,
    /// Transfer of a full page.
    pub page_transfer_ns: u64,
    /// The same through the controller; 0: it is no limit.
    pub page_controller_ns: u64,
}

/// Times of one operation, in ns.
#[derive(Debug, Clone, Copy)]
pub struct FlashTimes {
    /// By mode.
    pub cells: [CellTimes; 2],
    /// Transfer of one unit over the channel.
    pub unit_transfer_ns: u64,
    pub unit_controller_ns: u64,
    pub rmw_ns: u64,
    /// Before the first read that goes before a program under way.
    pub suspend_ns: u64,
}

impl FlashTimes {
    pub fn new(p: &DriveParameters) -> Self {
        let geometry = p.geometry();
        let ns = |us: f64| (us * 1e3).round() as u64;
        let at = |units: u32, mb_per_s: f64| (f64::from(units) * UNIT as f64 * 1e3 / mb_per_s).round() as u64;
        let unit_ns = |units: u32| at(units, p.channel_mb_per_s);
        let controller_ns = |units: u32| at(units, p.controller_rate());
        let native = CellTimes {
            read_ns: ns(p.read_us),
            program_ns: ns(p.program_us),
            erase_ns: geometry.erase_ns,
            page_transfer_ns: unit_ns(geometry.units_per_page),
            page_controller_ns: controller_ns(geometry.units_per_page),
        };
        let slc = CellTimes {
            read_ns: ns(p.slc_read_us),
            program_ns: ns(p.slc_program_us),
            erase_ns: geometry.slc_erase_ns,
            page_transfer_ns: unit_ns(geometry.units_per_sense),
            page_controller_ns: controller_ns(geometry.units_per_sense),
        };
        Self {
            cells: [native, slc],
            unit_transfer_ns: unit_ns(1),
            unit_controller_ns: controller_ns(1),
            rmw_ns: ns(p.rmw_us),
            suspend_ns: ns(p.suspend_us),
        }
    }
}

/// What the dies have been given to do, since the drive was made, in cells of one mode: pages of all planes read,
/// programs of all planes, of one page each or of as many as one writes, and blocks of all planes erased.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlashCounts {
    pub reads: u64,
    pub programs: u64,
    pub erases: u64,
}

pub struct Flash {
    pub(super) dies: Vec<Die>,
    /// One for each die where programs may be suspended, else none.
    pub(super) suspensions: Vec<Suspension>,
    pub(super) suspend_ns: u64,
    pub(super) suspends_per_program: u32,
    die_count: Divisor,
    /// When each channel is free.
    channels: Vec<u64>,
    /// When the controller is.
    controller: u64,
    times: FlashTimes,
    read_priority: bool,
    /// By mode.
    counts: [FlashCounts; 2],
}

impl Flash {
    /// Where `suspends` reads, and not 0, may go before a program under way, reads have priority too.
    pub fn new(dies: u32, channels: u32, times: FlashTimes, read_priority: bool, suspends: u32) -> Self {
        Self {
            dies: (0..dies).map(|die| Die { channel: (die % channels) as usize, ..Die::default() }).collect(),
            die_count: Divisor::new(u64::from(dies)),
            channels: vec![0; channels as usize],
            controller: 0,
            suspensions: vec![Suspension::default(); if suspends > 0 { dies as usize } else { 0 }],
            suspend_ns: times.suspend_ns,
            suspends_per_program: suspends,
            times,
            read_priority: read_priority || suspends > 0,
            counts: [FlashCounts::default(); 2],
        }
    }

    pub fn counts(&self) -> [FlashCounts; 2] {
        self.counts
    }

    pub fn die_of(&self, page: u32) -> u32 {
        self.die_count.remainder(page)
    }

    /// What so many read operations of one mode take; they are counted.
    #[inline]
    pub fn sense_ns(&mut self, mode: CellMode, senses: u32) -> u64 {
        self.counts[mode as usize].reads += u64::from(senses);
        self.times.cells[mode as usize].read_ns * u64::from(senses)
    }

    /// Queue read operations on `die` that take `die_ns` in all. Returns when the die is done, if it begins at once.
    #[inline(always)]
    pub fn read(&mut self, die: u32, die_ns: u64, job: Job, now: u64) -> Option<u64> {
        let queued = Queued { job, die_ns, programs: 0, channel_ns: 0, controller_ns: 0 };
        let host = matches!(job, Job::HostRead { .. });
        if host
            && !self.suspensions.is_empty()
            && let Some(from) = self.suspend(die, now)
        {
            return Some(self.begin(die, queued, from));
        }
        self.queue(die, queued, host && self.read_priority, now)
    }

    /// Queue what collecting pages together takes; `begun` gets each die that begins with it at once, and when it is
    /// done. Pages that follow each other are on dies that do.
    #[inline]
    pub fn move_units(&mut self, moves: &Moves, geometry: &Geometry, now: u64, mut begun: impl FnMut(u32, u64)) {
        let (n, dies) = (geometry.units_per_page, geometry.dies);
        let (read_ns, native) =
            (self.times.cells[moves.mode as usize].read_ns, self.times.cells[CellMode::Native as usize]);
        let (mut from, mut to) = (self.die_of(moves.from), self.die_of(moves.to));
        let (mut left, mut filled, mut programs, mut reads) = (moves.valid, moves.filled, 0u32, 0u32);
        while left != 0 {
            let here = left & (u64::MAX >> (u64::BITS - n));
            left = left.unbounded_shr(n);
            if here != 0 {
                let units = here.count_ones();
                filled += units;
                if filled >= n {
                    filled -= n;
                    let erase_ns = if moves.erases >> programs & 1 != 0 { native.erase_ns } else { 0 };
                    let (channel_ns, controller_ns) = (native.page_transfer_ns, native.page_controller_ns);
                    let die_ns = native.program_ns + erase_ns;
                    let program = Queued { job: Job::InnerProgram, die_ns, programs: 1, channel_ns, controller_ns };
                    if let Some(done) = self.queue(to, program, false, now) {
                        begun(to, done);
                    }
                    programs += 1;
                    to = if to + 1 == dies { 0 } else { to + 1 };
                }
                let senses = geometry.senses(here);
                reads += senses;
                let (job, die_ns) = (Job::InnerRead { units }, read_ns * u64::from(senses));
                let read = Queued { job, die_ns, programs: 0, channel_ns: 0, controller_ns: 0 };
                if let Some(done) = self.queue(from, read, false, now) {
                    begun(from, done);
                }
            }
            from = if from + 1 == dies { 0 } else { from + 1 };
        }
        self.counts[moves.mode as usize].reads += u64::from(reads);
        let counts = &mut self.counts[CellMode::Native as usize];
        counts.programs += u64::from(programs);
        counts.erases += u64::from(moves.erases.count_ones());
    }

    /// Queue a read-modify-write's read.
    pub fn modify(&mut self, die: u32, mode: CellMode, now: u64) -> Option<u64> {
        let die_ns = self.sense_ns(mode, 1) + self.times.rmw_ns;
        self.queue(
            die,
            Queued { job: Job::InnerRead { units: 1 }, die_ns, programs: 0, channel_ns: 0, controller_ns: 0 },
            false,
            now,
        )
    }

    /// Queue a program, after an erase if `erase`.
    #[inline]
    pub fn program(&mut self, die: u32, job: Job, mode: CellMode, erase: bool, now: u64) -> Option<u64> {
        let counts = &mut self.counts[mode as usize];
        counts.programs += 1;
        counts.erases += u64::from(erase);
        let times = &self.times.cells[mode as usize];
        let die_ns = times.program_ns + if erase { times.erase_ns } else { 0 };
        let (channel_ns, controller_ns) = (times.page_transfer_ns, times.page_controller_ns);
        let queued = Queued { job, die_ns, programs: 1, channel_ns, controller_ns };
        self.queue(die, queued, false, now)
    }

    /// Inlined, so that what is queued is made in its place: its copying cost more than all else here. What is folded
    /// is only added up.
    #[inline(always)]
    fn queue(&mut self, die: u32, queued: Queued, first: bool, now: u64) -> Option<u64> {
        let state = &mut self.dies[die as usize];
        if state.current.is_none() {
            return Some(self.begin(die, queued, now));
        }
        if first {
            state.reads.push_back(queued);
            return None;
        }
        match state.others.back_mut() {
            Some(last) if !self.read_priority && folds(last.job) && last.programs < MOST_FOLDED => {
                let before = std::mem::replace(&mut last.job, queued.job);
                last.die_ns += queued.die_ns;
                if queued.programs > 0 {
                    last.programs += queued.programs;
                    last.channel_ns += queued.channel_ns;
                    last.controller_ns += queued.controller_ns;
                }
                if let Job::InnerRead { units } = before {
                    let across = self.times.unit_transfer_ns * u64::from(units);
                    let through = self.times.unit_controller_ns * u64::from(units);
                    if last.programs > 0 && last.die_ns > across {
                        // The channel takes it when the program begins, which for that begins as much earlier.
                        last.channel_ns += across;
                        last.die_ns -= across;
                        last.controller_ns += through;
                    } else {
                        self.channels[state.channel] += across;
                        self.controller += through;
                    }
                }
            }
            _ => state.others.push_back(queued),
        }
        None
    }

    #[inline(always)]
    fn begin(&mut self, die: u32, queued: Queued, now: u64) -> u64 {
        self.dies[die as usize].current = Some(queued.job);
        if queued.programs == 0 {
            return now + queued.die_ns;
        }
        let channel = &mut self.channels[self.dies[die as usize].channel];
        *channel = now.max(*channel) + queued.channel_ns;
        let across = *channel;
        let begins = across.max(self.control(queued.controller_ns, now));
        self.may_suspend(die, begins, begins + queued.die_ns);
        begins + queued.die_ns
    }

    /// Occupy the controller for `ns`, after all else it has to do; returns when that is over.
    #[inline]
    pub fn control(&mut self, ns: u64, now: u64) -> u64 {
        self.controller = now.max(self.controller) + ns;
        self.controller
    }

    /// Programs that wait on the die, and one for what it is doing.
    pub fn backlog(&self, die: u32) -> u32 {
        let held = u32::from(self.is_suspended(die));
        let die = &self.dies[die as usize];
        u32::from(die.current.is_some()) + held + die.others.iter().map(|queued| queued.programs).sum::<u32>()
    }

    #[inline]
    fn is_suspended(&self, die: u32) -> bool {
        self.suspensions.get(die as usize).is_some_and(Suspension::is_on)
    }

    /// Whether the die programs a page of so many units of host data.
    #[inline]
    pub fn programs_host_data(&self, die: u32, size: u32) -> bool {
        matches!(self.dies[die as usize].current, Some(Job::HostProgram { units, .. }) if units == size)
    }

    /// The die's job is done at `now`: returns it, and when the next one on the die will be.
    #[inline(always)]
    pub fn finish(&mut self, die: u32, now: u64) -> (Job, Option<u64>) {
        let job = self.dies[die as usize].current.take().expect("a die finishes what it began");
        if self.is_suspended(die) && !self.stays_suspended(die) {
            return (job, Some(self.resume(die, now)));
        }
        let state = &mut self.dies[die as usize];
        let next = state.reads.pop_front().or_else(|| state.others.pop_front());
        (job, next.map(|queued| self.begin(die, queued, now)))
    }

    /// Channels and controller go on with what they are doing so much later.
    pub fn postpone(&mut self, now: u64, ns: u64) {
        let both = self.channels.iter_mut().chain(std::iter::once(&mut self.controller));
        both.filter(|free| **free > now).for_each(|free| *free += ns);
        self.postpone_programs(now, ns);
    }

    /// Whatever the dies and channels were doing, they do no more.
    pub fn stop(&mut self, now: u64) {
        for die in &mut self.dies {
            *die = Die { channel: die.channel, ..Die::default() };
        }
        self.suspensions.fill(Suspension::default());
        self.channels.fill(now);
        self.controller = now;
    }

    /// Move `units` units read on `die` over its channel and through the controller, which takes `overhead_ns` beside;
    /// returns when they are across.
    #[inline(always)]
    pub fn transfer(&mut self, die: u32, units: u32, overhead_ns: u64, now: u64) -> u64 {
        let channel = &mut self.channels[self.dies[die as usize].channel];
        *channel = now.max(*channel) + self.times.unit_transfer_ns * u64::from(units);
        let across = *channel;
        across.max(self.control(overhead_ns + self.times.unit_controller_ns * u64::from(units), now))
    }
}

/// Whether a waiting job may be folded into the next: nobody waits for its end.
fn folds(job: Job) -> bool {
    matches!(job, Job::InnerRead { .. } | Job::InnerProgram)
}
