//! Energy and temperature, on request: so much for each page read, programmed and erased, for each command and byte, and
//! an idle power; a first-order thermal model; and a drive that slows down when it gets hot.
//!
//! C dT/dt = P - (T - ambient) / R, with R C the time constant: T goes towards ambient + P R exponentially. The drive
//! begins at what its idle power alone makes it. Above one temperature the drive stands still for a share of each
//! period of 10 ms that grows in proportion, up to nearly all of it at another: as a drive whose clock is gated between
//! its two thermal management temperatures (NVMe TMT1 and TMT2). Only arithmetic that is the same on every machine is used.
//! What a program costs that writes several pages is theirs together. An operation in SLC mode takes the power of the
//! same operation on all bits of a cell, for its own time.
//! Limits: work is charged when a die is given it, up to its time in the queue early; one temperature for all.

use super::drive::SimDrive;
use super::extras::NEVER;
use super::flash::FlashCounts;
use super::params::DriveParameters;
use crate::engine::Conditions;

/// How often the temperature is brought up to date and throttling with it.
const PERIOD_NS: u64 = 10_000_000;
/// The drive works for this share of the time at least, however hot it is.
const LEAST_OPEN: f64 = 0.01;

/// Of one operation on cells of one mode.
#[derive(Debug)]
struct CellEnergies {
    read_j: f64,
    program_j: f64,
    erase_j: f64,
}

impl CellEnergies {
    /// In native mode, and in SLC mode.
    fn of(p: &DriveParameters) -> [Self; 2] {
        // Blocks of a drive that is simulated smaller than it is are shorter.
        let block = p.geometry().erase_ns as f64 / (p.erase_ms * 1e6);
        let native = Self {
            read_j: p.read_uj / 1e6,
            program_j: p.program_uj / 1e6 * f64::from(p.pages_per_program),
            erase_j: p.erase_uj / 1e6 * block,
        };
        let slc = Self {
            read_j: native.read_j * p.slc_read_us / p.read_us,
            program_j: native.program_j * p.slc_program_us / p.program_us,
            erase_j: native.erase_j * p.slc_erase_ms / p.erase_ms,
        };
        [native, slc]
    }

    fn joules(&self, done: &FlashCounts) -> f64 {
        done.reads as f64 * self.read_j + done.programs as f64 * self.program_j + done.erases as f64 * self.erase_j
    }
}

#[derive(Debug)]
pub(super) struct Energy {
    idle_w: f64,
    /// By mode.
    cells: [CellEnergies; 2],
    command_j: f64,
    byte_j: f64,
    ambient_c: f64,
    /// 0: there is no thermal model.
    kelvin_per_w: f64,
    time_constant_s: f64,
    /// Where throttling begins, and where it is strongest.
    throttle_c: Option<(f64, f64)>,
    commands: u64,
    bytes: u64,
    /// Up to when, and up to which work, everything below is known.
    at: u64,
    work_j: f64,
    temperature_c: f64,
    pub next_at: u64,
    /// Since somebody asked.
    since: u64,
    joules: f64,
    degree_seconds: f64,
    max_c: f64,
    throttled_ns: u64,
}

/// Some energy is.
pub(super) fn is_given(p: &DriveParameters) -> bool {
    let energies = [p.idle_w, p.read_uj, p.program_uj, p.erase_uj, p.command_uj, p.transfer_nj_per_byte];
    energies.iter().any(|energy| *energy > 0.0)
}

impl Energy {
    /// `None` if no energy is given.
    pub fn new(p: &DriveParameters) -> Option<Box<Self>> {
        if !is_given(p) {
            return None;
        }
        let thermal = p.thermal_resistance_c_per_w > 0.0;
        let temperature_c = p.ambient_c + p.idle_w * p.thermal_resistance_c_per_w;
        Some(Box::new(Self {
            idle_w: p.idle_w,
            cells: CellEnergies::of(p),
            command_j: p.command_uj / 1e6,
            byte_j: p.transfer_nj_per_byte / 1e9,
            ambient_c: p.ambient_c,
            kelvin_per_w: p.thermal_resistance_c_per_w,
            time_constant_s: p.thermal_time_constant_s,
            throttle_c: (thermal && p.throttle_full_c > 0.0).then_some((p.throttle_from_c, p.throttle_full_c)),
            commands: 0,
            bytes: 0,
            at: 0,
            work_j: 0.0,
            temperature_c,
            next_at: if thermal { PERIOD_NS } else { NEVER },
            since: 0,
            joules: 0.0,
            degree_seconds: 0.0,
            max_c: temperature_c,
            throttled_ns: 0,
        }))
    }

    pub fn command(&mut self, bytes: u64) {
        self.commands += 1;
        self.bytes += bytes;
    }

    /// Bring everything up to `now`, when the dies have been given so much work.
    fn advance(&mut self, now: u64, done: [FlashCounts; 2]) {
        if now == self.at {
            return; // Work at this instant belongs to the time after it.
        }
        let seconds = (now - self.at) as f64 / 1e9;
        let work_j = self.cells.iter().zip(&done).map(|(cells, done)| cells.joules(done)).sum::<f64>()
            + self.commands as f64 * self.command_j
            + self.bytes as f64 * self.byte_j;
        let joules = work_j - self.work_j + self.idle_w * seconds;
        self.work_j = work_j;
        self.joules += joules;
        if self.open() < 1.0 {
            self.throttled_ns += now - self.at;
        }
        self.at = now;
        let goal_c = self.ambient_c + joules / seconds * self.kelvin_per_w;
        let left = (self.temperature_c - goal_c) * decay(seconds / self.time_constant_s);
        self.degree_seconds += goal_c * seconds + (self.temperature_c - goal_c - left) * self.time_constant_s;
        self.temperature_c = goal_c + left;
        self.max_c = self.max_c.max(self.temperature_c);
    }

    /// The share of the time that the drive works.
    fn open(&self) -> f64 {
        self.throttle_c.map_or(1.0, |(from, full)| ((full - self.temperature_c) / (full - from)).clamp(LEAST_OPEN, 1.0))
    }

    fn conditions(&mut self) -> Conditions {
        let span_ns = self.at - self.since;
        let seconds = span_ns as f64 / 1e9;
        let thermal = self.kelvin_per_w > 0.0;
        let mean_c = if span_ns > 0 { self.degree_seconds / seconds } else { self.temperature_c };
        let conditions = Conditions {
            span_ns,
            energy_j: self.joules,
            temperature_c: thermal.then_some(mean_c),
            temperature_max_c: thermal.then_some(self.max_c),
            throttled_ns: thermal.then_some(self.throttled_ns),
        };
        (self.since, self.joules, self.degree_seconds) = (self.at, 0.0, 0.0);
        (self.max_c, self.throttled_ns) = (self.temperature_c, 0);
        conditions
    }
}

/// e^-x for x >= 0, by halving until a short series is exact: the library's own differs from machine to machine.
fn decay(x: f64) -> f64 {
    let (mut small, mut halvings) = (x.min(1000.0), 0);
    while small > 0.05 {
        small /= 2.0;
        halvings += 1;
    }
    let series = (1..=8).rev().fold(1.0, |sum, n| 1.0 - small / f64::from(n) * sum);
    (0..halvings).fold(series, |value, _| value * value)
}

impl SimDrive {
    /// The temperature is due to be looked at; a hot drive stands still for a while.
    pub(super) fn energy_ring(&mut self) {
        let counts = self.flash.counts();
        let Some(energy) = self.extras.energy.as_mut().filter(|energy| energy.next_at <= self.now) else { return };
        energy.advance(self.now, counts);
        energy.next_at = self.now + PERIOD_NS;
        let shut = 1.0 - energy.open();
        if shut > 0.0 {
            self.stand_still((shut * PERIOD_NS as f64) as u64);
        }
    }

    /// The whole drive does nothing for so long, and goes on where it was.
    fn stand_still(&mut self, ns: u64) {
        self.calendar.postpone(ns);
        self.flash.postpone(self.now, ns);
        self.stall(ns);
    }

    /// Energy and temperature since this was last asked; `None` if the drive has none.
    pub(super) fn take_conditions(&mut self) -> Option<Conditions> {
        let counts = self.flash.counts();
        let energy = self.extras.energy.as_mut()?;
        energy.advance(self.now, counts);
        Some(energy.conditions())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn decay_is_exp_of_minus_x() {
        for x in [0.0, 1e-9, 1e-4, 0.01, 0.05, 0.051, 0.7, 1.0, 3.3, 20.0, 300.0, 1e9] {
            let (ours, theirs) = (super::decay(x), (-x).exp());
            assert!((ours - theirs).abs() <= 1e-12 * theirs.max(1e-300), "{x}: {ours}, not {theirs}");
        }
    }
}
