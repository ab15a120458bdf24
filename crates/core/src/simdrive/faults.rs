//! Faults on purpose, each bounded and off by default: units that cannot be read, pages that cannot be programmed,
//! pauses of the controller, and a drive that is suddenly gone. They are drawn from a random stream of the drive's
//! own, in the order of its commands: the same drive under the same load fails in the same way.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::drive::SimDrive;
use super::extras::NEVER;
use super::flash::Job;
use super::ftl::{Ftl, State};
use super::params::DriveParameters;
use super::slc::CellMode;
use crate::engine::Completion;
use crate::error::DeviceError;

/// A drive that is gone fails a command after this.
const GONE_NS: u64 = 1_000_000;

/// Draws "yes" with a fixed probability.
#[derive(Debug)]
struct Chance {
    /// Of 2^64.
    below: u128,
}

impl Chance {
    fn new(probability: f64) -> Self {
        Self { below: (probability * 2f64.powi(64)) as u128 }
    }

    fn falls(&self, rng: &mut Xoshiro256PlusPlus) -> bool {
        self.below > 0 && u128::from(rng.next_u64()) < self.below
    }
}

#[derive(Debug)]
pub(super) struct Faults {
    rng: Xoshiro256PlusPlus,
    read_error: Chance,
    read_errors_left: u32,
    /// Units that cannot be read until they are rewritten.
    unreadable: BTreeSet<u64>,
    /// Slots whose read has met one.
    failed: Vec<bool>,
    program_error: Chance,
    bad_blocks_left: u32,
    /// Superblocks to be retired as soon as one is free.
    to_retire: u32,
    spike: Chance,
    spike_ns: u64,
    spikes_left: u32,
    /// Commands until the drive drops out.
    commands_left: u64,
    pub dropout_at: u64,
    /// When the commands given to a drive that is gone fail.
    pub fail_at: u64,
    pub gone: bool,
}

impl Faults {
    /// `None` if all are off.
    pub fn new(p: &DriveParameters, max_slots: u32) -> Option<Box<Self>> {
        let rates = [p.fault_read_error_rate, p.fault_program_error_rate, p.fault_spike_rate];
        let drops = p.fault_dropout_after_ios > 0 || p.fault_dropout_after_s > 0.0;
        if !drops && rates.iter().all(|rate| *rate == 0.0) {
            return None;
        }
        Some(Box::new(Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(p.fault_seed),
            read_error: Chance::new(p.fault_read_error_rate),
            read_errors_left: p.fault_read_errors_max,
            unreadable: BTreeSet::new(),
            failed: vec![false; max_slots as usize],
            program_error: Chance::new(p.fault_program_error_rate),
            bad_blocks_left: p.fault_bad_blocks_max,
            to_retire: 0,
            spike: Chance::new(p.fault_spike_rate),
            spike_ns: (p.fault_spike_ms * 1e6).round() as u64,
            spikes_left: p.fault_spikes_max,
            commands_left: if p.fault_dropout_after_ios > 0 { p.fault_dropout_after_ios } else { u64::MAX },
            dropout_at: if p.fault_dropout_after_s > 0.0 {
                (p.fault_dropout_after_s * 1e9).round() as u64
            } else {
                NEVER
            },
            fail_at: NEVER,
            gone: false,
        }))
    }

    /// Something goes wrong with programs: they cannot be taken for granted.
    pub fn may_fail_programs(&self) -> bool {
        self.program_error.below > 0
    }

    pub fn next_at(&self) -> u64 {
        self.dropout_at.min(self.fail_at)
    }

    /// These units hold new data, or none. Returns those that could not be read.
    pub fn renewed(&mut self, units: std::ops::Range<u64>) -> Vec<u64> {
        let cured: Vec<_> = self.unreadable.range(units).copied().collect();
        cured.iter().for_each(|unit| _ = self.unreadable.remove(unit));
        cured
    }

    /// The unit's new data is lost, and what it held before cannot be read.
    pub fn relapsed(&mut self, unit: u64) {
        self.unreadable.insert(unit);
    }

    /// A purge makes bad blocks no better.
    pub fn purged(&mut self, bad_superblocks: u64) {
        self.unreadable.clear();
        self.to_retire = bad_superblocks as u32;
    }

    /// Whether the read in this slot has failed; to be asked once.
    pub fn take_failure(&mut self, slot: u32) -> bool {
        std::mem::take(&mut self.failed[slot as usize])
    }

    /// The slot's read takes these units, from flash where it says so. Returns how many of them fail for the first time.
    fn read(&mut self, slot: u32, units: impl Iterator<Item = (u64, bool)>) -> u64 {
        let (mut new, mut fails) = (0, false);
        for (unit, in_flash) in units {
            if in_flash
                && self.read_errors_left > 0
                && self.read_error.falls(&mut self.rng)
                && self.unreadable.insert(unit)
            {
                self.read_errors_left -= 1;
                new += 1;
            }
            fails |= self.unreadable.contains(&unit);
        }
        self.failed[slot as usize] = fails;
        new
    }
}

impl SimDrive {
    /// The host submits a command: it may be one too many, or one that the controller pauses at.
    pub(super) fn fault_submit(&mut self) {
        let Some(faults) = &mut self.extras.faults else { return };
        if faults.gone {
            faults.fail_at = faults.fail_at.min(self.now + GONE_NS);
            self.extras.set_alarm();
            return;
        }
        if faults.commands_left == 0 {
            faults.dropout_at = self.now;
            self.extras.set_alarm();
            return;
        }
        faults.commands_left -= 1;
        if faults.spikes_left > 0 && faults.spike.falls(&mut faults.rng) {
            faults.spikes_left -= 1;
            self.extras.counters.spikes += 1;
            let ns = faults.spike_ns;
            self.stall(ns);
        }
    }

    /// The drive looks up the read's units; those in flash may be unreadable.
    pub(super) fn fault_read(&mut self, slot: u32) {
        let Some(faults) = &mut self.extras.faults else { return };
        let command = &self.commands[slot as usize];
        let units = command.first_unit..command.first_unit + u64::from(command.units);
        let open = self.ftl.open_pages();
        let place = |unit| (unit, self.ftl.place_of(unit).is_some_and(|(page, ..)| !open.contains(&page)));
        self.extras.counters.unreadable_units += faults.read(slot, units.map(place));
    }

    /// A page goes to its die. If programming it fails, the data is programmed once more, elsewhere on the die; the
    /// block is bad from then on. As many bad blocks as there are dies make up one superblock less.
    pub(super) fn fault_program(&mut self, die: u32, mode: CellMode) {
        let Some(faults) = &mut self.extras.faults else { return };
        if faults.bad_blocks_left > 0 && faults.program_error.falls(&mut faults.rng) {
            faults.bad_blocks_left -= 1;
            self.extras.counters.bad_blocks += 1;
            faults.to_retire +=
                u32::from(self.extras.counters.bad_blocks.is_multiple_of(u64::from(self.parameters.dies)));
            let done = self.flash.program(die, Job::InnerProgram, mode, false, self.now);
            self.enter_die(die, done);
        }
        let Some(faults) = &mut self.extras.faults else { return };
        if faults.to_retire > 0 && self.ftl.retire() {
            faults.to_retire -= 1;
            self.idle_collection.retired(&self.parameters, self.ftl.pool());
        }
    }

    /// The drive is gone, or what it was given since fails.
    pub(super) fn fault_ring(&mut self, done: &mut Vec<Completion>) {
        let Some(faults) = self.extras.faults.as_mut().filter(|faults| faults.next_at() <= self.now) else { return };
        let vanishes = !faults.gone;
        (faults.gone, faults.dropout_at, faults.fail_at) = (true, NEVER, NEVER);
        self.extras.counters.gone = true;
        self.fail_outstanding(libc::ENODEV, done);
        if vanishes {
            self.stop_at_once();
            self.extras.slots = 0;
            // Power does not bring it back.
            (self.extras.power_loss_at, self.extras.power_on_at) = (NEVER, NEVER);
        }
        self.waiting.clear();
    }

    /// Whether the drive can still be told anything.
    pub(super) fn present(&self) -> Result<(), DeviceError> {
        if !self.extras.faults.as_ref().is_some_and(|faults| faults.gone) {
            return Ok(());
        }
        let problem = "gone, as its parameters (fault_dropout_...) ask".into();
        Err(DeviceError { errno: libc::ENODEV, context: "simulated drive".into(), problem })
    }
}

impl Ftl {
    /// Take a superblock out of use for good. False if none can be spared at the moment.
    pub fn retire(&mut self) -> bool {
        if !self.has_spare() {
            return false;
        }
        let superblock = self.free.pop_back().expect("more are free than the reserve");
        self.superblocks[superblock as usize].state = State::Retired;
        true
    }
}
