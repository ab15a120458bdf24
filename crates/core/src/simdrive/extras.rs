//! What a drive does beside its normal work, each part on request and off by default: a record of what it holds, sudden
//! loss of power, faults, energy and temperature.
//!
//! Normal work asks one flag whether anybody watches, for each command and page, and one alarm clock for each event.

use super::command::Command;
use super::drive::SimDrive;
use super::energy::{self, Energy};
use super::events::Calendar;
use super::faults::Faults;
use super::params::DriveParameters;
use super::slc::CellMode;
use super::track::Track;
use crate::engine::Completion;
use crate::error::TargetError;
use crate::units::Nanos;
use crate::workload::Operation;

pub(super) const NEVER: u64 = u64::MAX;

/// What has gone wrong so far, on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters {
    pub power_losses: u64,
    /// Units that became unreadable; rewritten ones included.
    pub unreadable_units: u64,
    /// Blocks that failed to be programmed.
    pub bad_blocks: u64,
    pub spikes: u64,
    /// The drive has dropped out.
    pub gone: bool,
}

pub(super) struct Extras {
    /// Some part wants to see commands and programs.
    pub watches: bool,
    /// When something happens to the drive without a command.
    pub alarm: u64,
    /// Commands the drive takes at a time: none while its power comes on.
    pub slots: u32,
    pub track: Option<Box<Track>>,
    pub faults: Option<Box<Faults>>,
    pub energy: Option<Box<Energy>>,
    pub counters: FaultCounters,
    pub power_loss_at: u64,
    pub power_on_at: u64,
    /// Which slots have a command that is not done.
    outstanding: Vec<bool>,
}

impl Extras {
    pub fn new(p: &DriveParameters, max_slots: u32) -> Self {
        let track = p.tracks_data().then(|| Box::new(Track::new(p.dies, max_slots)));
        let faults = Faults::new(p, max_slots);
        let energy = Energy::new(p);
        let at = |seconds: f64| if seconds > 0.0 { (seconds * 1e9).round() as u64 } else { NEVER };
        let mut extras = Self {
            watches: track.is_some() || faults.is_some() || energy.is_some(),
            alarm: NEVER,
            slots: p.queue_slots,
            track,
            faults,
            energy,
            counters: FaultCounters::default(),
            power_loss_at: at(p.fault_power_loss_after_s),
            power_on_at: NEVER,
            outstanding: vec![false; max_slots as usize],
        };
        extras.set_alarm();
        extras
    }

    pub fn purged(&mut self, dies: u32) {
        if let Some(track) = &mut self.track {
            track.clear();
        }
        if let Some(faults) = &mut self.faults {
            faults.purged(self.counters.bad_blocks / u64::from(dies));
        }
    }

    pub fn trimmed(&mut self, units: &std::ops::Range<u64>) {
        if let Some(track) = &mut self.track {
            track.trim(units);
        }
        if let Some(faults) = &mut self.faults {
            faults.renewed(units.clone());
        }
    }

    pub fn set_alarm(&mut self) {
        let faults = self.faults.as_ref().map_or(NEVER, |faults| faults.next_at());
        let energy = self.energy.as_ref().map_or(NEVER, |energy| energy.next_at);
        self.alarm = self.power_loss_at.min(self.power_on_at).min(faults).min(energy);
    }
}

/// What is wrong with the parameters of these parts, if anything: the parameter, and the problem.
pub(super) fn problem(p: &DriveParameters) -> Option<(&'static str, &'static str)> {
    let thermal = p.thermal_resistance_c_per_w > 0.0;
    if thermal && !energy::is_given(p) {
        return Some(("thermal_resistance_c_per_w", "no effect without an energy, such as idle_w or program_uj"));
    }
    let throttles = p.throttle_full_c > 0.0;
    if throttles && !thermal {
        return Some(("throttle_full_c", "no effect without thermal_resistance_c_per_w"));
    }
    if throttles && p.throttle_full_c < p.throttle_from_c + 0.1 {
        return Some(("throttle_full_c", "must be above throttle_from_c"));
    }
    let retired = u64::from(p.fault_bad_blocks_max / p.dies);
    if p.fault_program_error_rate > 0.0 && retired >= p.spare_superblocks() {
        return Some(("fault_bad_blocks_max", "so many would leave no spare superblock"));
    }
    None
}

/// What the user has given, though it changes nothing: the parameter, and the problem. A preset may say it all the
/// same, of a part that is switched on in a run.
pub(super) fn without_effect(
    p: &DriveParameters,
    given: impl Fn(&str) -> bool,
) -> Option<(&'static str, &'static str)> {
    let cached = p.slc_static_mib > 0 || p.slc_dynamic_percent > 0.0;
    let vain = [
        (
            p.slc_fold_after_ms > 0.0 && !cached,
            "slc_fold_after_ms",
            "no effect without slc_static_mib or slc_dynamic_percent",
        ),
        (!p.suspend, "suspend_us", "no effect without suspend"),
        (!p.suspend, "suspend_reads", "no effect without suspend"),
        (p.throttle_full_c == 0.0, "throttle_from_c", "no effect without throttle_full_c"),
        (p.idle_collect_after_ms == 0.0, "idle_collect_free_percent", "no effect without idle_collect_after_ms"),
        (p.fault_read_error_rate == 0.0, "fault_read_errors_max", "no effect without fault_read_error_rate"),
        (p.fault_program_error_rate == 0.0, "fault_bad_blocks_max", "no effect without fault_program_error_rate"),
        (p.fault_spike_rate == 0.0, "fault_spike_ms", "no effect without fault_spike_rate"),
        (p.fault_spike_rate == 0.0, "fault_spikes_max", "no effect without fault_spike_rate"),
    ];
    let (_, name, problem) = vain.into_iter().find(|(vain, name, _)| *vain && given(name))?;
    Some((name, problem))
}

impl SimDrive {
    /// The host submits the command in this slot.
    #[cold]
    pub(super) fn watch_submit(&mut self, slot: u32) {
        self.extras.outstanding[slot as usize] = true;
        if let Some(track) = &mut self.extras.track {
            track.read[slot as usize].clear();
            if self.commands[slot as usize].operation == Operation::Write {
                track.write_submitted(slot);
            }
        }
        if let Some(energy) = &mut self.extras.energy {
            energy.command(self.commands[slot as usize].bytes);
        }
        self.fault_submit();
    }

    /// The drive looks up where the read's units are.
    #[cold]
    pub(super) fn watch_read(&mut self, slot: u32) {
        let Command { first_unit, units, .. } = self.commands[slot as usize];
        if let Some(track) = &mut self.extras.track {
            let units = first_unit..first_unit + u64::from(units);
            track.read[slot as usize] = units.map(|unit| self.ftl.stamp_of(unit)).collect();
        }
        self.fault_read(slot);
    }

    /// The write's next units are about to go into the buffer.
    #[cold]
    pub(super) fn watch_write(&mut self, slot: u32, unit: u64, count: u32, partial: bool) {
        if let Some(track) = &mut self.extras.track {
            track.accept(slot, unit..unit + u64::from(count), &mut self.ftl);
        }
        if !partial {
            self.fault_write(unit..unit + u64::from(count));
        }
    }

    /// A page goes to its die to be programmed.
    #[cold]
    pub(super) fn watch_program(&mut self, die: u32, mode: CellMode, host: bool) {
        if let Some(track) = self.extras.track.as_mut().filter(|_| host) {
            track.sent(die, self.ftl.pool());
        }
        self.fault_program(die, mode);
    }

    /// A page of a write that is streamed, from `unit` on, goes to its die.
    #[cold]
    pub(super) fn watch_stream(&mut self, die: u32, slot: u32, unit: u64) {
        if let Some(track) = &mut self.extras.track {
            let units = unit..unit + u64::from(self.ftl.host_page().0);
            track.accept(slot, units, &mut self.ftl);
            track.sent(die, self.ftl.pool());
        }
        self.fault_write(unit..unit + u64::from(self.ftl.host_page().0));
    }

    /// New data of these units is in the buffer. Should it be lost, what cannot be read now is back.
    fn fault_write(&mut self, units: std::ops::Range<u64>) {
        let Some(faults) = &mut self.extras.faults else { return };
        let cured = faults.renewed(units);
        if let Some(track) = &mut self.extras.track {
            cured.into_iter().for_each(|unit| track.spoiled(unit));
        }
    }

    /// The die has programmed a page of host data.
    #[cold]
    pub(super) fn watch_programmed(&mut self, die: u32) {
        if let Some(track) = &mut self.extras.track {
            track.programmed(die);
        }
    }

    /// What the host is told of the command in this slot.
    #[cold]
    pub(super) fn watch_done(&mut self, slot: u32) -> Result<(), i32> {
        self.extras.outstanding[slot as usize] = false;
        let failed = self.extras.faults.as_mut().is_some_and(|faults| faults.take_failure(slot));
        if failed { Err(libc::EIO) } else { Ok(()) }
    }

    /// The alarm rings at `until` or before. To wait forever for a drive with nothing to do is not meant.
    #[cold]
    pub(super) fn rings(&self, until: u64) -> bool {
        self.extras.alarm <= until && (until != NEVER || self.extras.outstanding.contains(&true))
    }

    /// The alarm rings before anything else is to happen.
    #[cold]
    pub(super) fn ring(&mut self, done: &mut Vec<Completion>) {
        self.now = self.now.max(self.extras.alarm);
        if self.extras.power_on_at <= self.now {
            self.extras.power_on_at = NEVER;
            self.extras.slots = self.parameters.queue_slots;
            self.admit_waiting();
        }
        if self.extras.power_loss_at <= self.now {
            self.extras.power_loss_at = NEVER;
            self.lose_power(done);
        }
        self.fault_ring(done);
        self.energy_ring();
        self.extras.set_alarm();
    }

    /// Power is lost now, and comes back. `done` gets the failures of what was outstanding. Errors: the drive keeps
    /// no record of what it holds.
    pub fn power_loss(&mut self, done: &mut Vec<Completion>) -> Result<(), TargetError> {
        if self.extras.track.is_none() {
            let problem = "needed to know what a power loss leaves; open the drive with track_data=true";
            return Err(TargetError::DriveParameter { name: "track_data".into(), problem: problem.into() });
        }
        self.lose_power(done);
        self.extras.set_alarm();
        Ok(())
    }

    /// Commands outstanding fail. Data in the buffer is lost unless it is protected; of each unit that loses its newest
    /// data, the newest version that was programmed is back. What the dies were doing is finished, or undone, and the
    /// mapping restored, within the time it takes until the power is on.
    fn lose_power(&mut self, done: &mut Vec<Completion>) {
        if self.extras.counters.gone {
            return; // Nor does power bring it back.
        }
        self.extras.counters.power_losses += 1;
        self.fail_outstanding(libc::EIO, done);
        self.stop_at_once();
        if let Some(track) = &mut self.extras.track {
            let lost = track.clear();
            let lost = if self.parameters.power_loss_protection { vec![] } else { lost };
            for (unit, write, unreadable) in lost {
                self.ftl.revert(unit, write);
                if let Some(faults) = self.extras.faults.as_mut().filter(|_| unreadable) {
                    faults.relapsed(unit);
                }
            }
        }
        let on = self.now + (self.parameters.power_on_ms * 1e6).round() as u64;
        (self.extras.slots, self.extras.power_on_at) = (0, on);
        self.idle_collection.since = on;
    }

    pub(super) fn fail_outstanding(&mut self, errno: i32, done: &mut Vec<Completion>) {
        for (slot, outstanding) in self.extras.outstanding.iter_mut().enumerate().filter(|(_, is)| **is) {
            *outstanding = false;
            if let Some(faults) = &mut self.extras.faults {
                faults.take_failure(slot as u32);
            }
            done.push(Completion { slot: slot as u32, at: Nanos(self.now), result: Err(errno) });
        }
    }

    /// Nothing is under way any more, in the link, in the buffer or in the dies.
    pub(super) fn stop_at_once(&mut self) {
        self.calendar = Calendar::new(self.parameters.dies);
        self.flash.stop(self.now);
        self.drop_commands();
        self.ftl.settle();
        // The open pages do not go on after this; what they hold is programmed, or will be undone.
        for pool in 0..self.ftl.pools() {
            self.ftl.select_pool(pool);
            self.ftl.pad(&mut self.work);
        }
        self.work.clear();
        self.buffer_free = self.parameters.buffer_units();
        self.idle_collection.begun = 0;
    }

    /// The controller does nothing for so long, what the dies do goes on.
    pub(super) fn stall(&mut self, ns: u64) {
        self.link_free = self.link_free.map(|free| free.max(self.now) + ns);
    }

    /// Take the commands that the host holds back, as many as there is room for.
    fn admit_waiting(&mut self) {
        while self.active < self.extras.slots
            && let Some(slot) = self.waiting.pop_front()
        {
            self.admit(slot);
        }
    }

    /// Forget every command.
    fn drop_commands(&mut self) {
        self.active = 0;
        (self.writes_on_link, self.large_writes) = (0, 0);
        self.link_free = [self.now; 2];
        self.waiting.clear();
        self.buffer_waiting.clear();
        self.page_waiters.clear();
        self.open_page_waiters.iter_mut().for_each(Vec::clear);
    }

    /// The write that a unit of 4 KiB reads as, by its number, counted from 1 in the order of submission; 0: it was
    /// never written, or is trimmed. Panics if `track_data` is off.
    pub fn stamp_of(&self, unit: u64) -> u64 {
        assert!(self.extras.track.is_some(), "data is tracked");
        self.ftl.stamp_of(unit)
    }

    /// What the last read in this slot read: `stamp_of` each of its units. Panics if `track_data` is off.
    pub fn read_back(&self, slot: u32) -> &[u64] {
        &self.extras.track.as_ref().expect("data is tracked").read[slot as usize]
    }

    /// What has gone wrong so far, on purpose.
    pub fn faults(&self) -> FaultCounters {
        self.extras.counters
    }

    /// Writes submitted so far.
    pub fn writes_submitted(&self) -> u64 {
        self.extras.track.as_ref().expect("data is tracked").writes
    }
}
