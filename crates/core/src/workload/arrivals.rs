//! When the I/Os of an open loop are due: an absolute schedule, which nothing that the device does can delay.
//!
//! Fixed arrivals are evenly spaced over all threads together. Poisson arrivals are independent in each thread, which
//! together is a Poisson process of the whole rate. The k-th fixed arrival is computed from k, the Poisson ones add up
//! to within nanoseconds over a year: neither drifts. The draws have a stream of their own for each thread, so that
//! the offsets of the I/Os are the same at any rate.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::error::StimulusError;
use crate::units::Nanos;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    Fixed,
    Poisson,
}

/// An open loop: so many I/Os per second over all threads, whether or not the device keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub ios_per_s: f64,
    pub arrivals: ArrivalKind,
}

impl Rate {
    /// More than any device, and few enough that arrivals keep nanoseconds apart.
    pub const MOST: f64 = 1e9;

    pub(super) fn validate(self) -> Result<(), StimulusError> {
        let possible = self.ios_per_s > 0.0 && self.ios_per_s <= Self::MOST;
        if possible { Ok(()) } else { Err(StimulusError::Rate(self.ios_per_s)) }
    }
}

/// Sets these random numbers apart from those of offsets and data, which start from the same seed.
const ARRIVAL_STREAM: u64 = 0x6172_7269_7661_6c73;

/// One thread's arrivals.
#[derive(Debug, Clone)]
pub struct Arrivals {
    rng: Xoshiro256PlusPlus,
    thread: u32,
    kind: ArrivalKind,
    origin: Nanos,
    /// Between two arrivals of the whole stimulus, and of this thread's Poisson process.
    spacing_ns: f64,
    mean_ns: f64,
    threads: u64,
    /// Fixed arrivals so far; Poisson: ns from the origin to the next one.
    count: u64,
    offset_ns: f64,
    next: Nanos,
}

impl Arrivals {
    /// Those of `thread` (0-based) in the run with this seed; none are due before `begin`.
    pub fn new(seed: u64, thread: u32) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ ARRIVAL_STREAM);
        (0..thread).for_each(|_| rng.jump());
        Self {
            rng,
            thread,
            kind: ArrivalKind::Fixed,
            origin: Nanos(0),
            spacing_ns: 0.0,
            mean_ns: 0.0,
            threads: 1,
            count: 0,
            offset_ns: 0.0,
            next: Nanos::MAX,
        }
    }

    /// A new schedule, from `origin` on.
    pub fn begin(&mut self, rate: Rate, threads: u32, origin: Nanos) {
        self.kind = rate.arrivals;
        self.origin = origin;
        self.threads = u64::from(threads);
        self.spacing_ns = 1e9 / rate.ios_per_s;
        self.mean_ns = self.spacing_ns * f64::from(threads);
        (self.count, self.offset_ns) = (0, 0.0);
        self.schedule();
    }

    /// When the next I/O is due.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// The next I/O is issued, or given up: go on to the one after.
    #[inline]
    pub fn take(&mut self) {
        self.count += 1;
        self.schedule();
    }

    fn schedule(&mut self) {
        let offset = match self.kind {
            ArrivalKind::Fixed => (self.count * self.threads + u64::from(self.thread)) as f64 * self.spacing_ns,
            ArrivalKind::Poisson => {
                self.offset_ns += exponential(&mut self.rng) * self.mean_ns;
                self.offset_ns
            }
        };
        self.next = Nanos(self.origin.0.saturating_add(offset as u64));
    }
}

/// An exponentially distributed number of mean 1.
fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    // 53 random bits make a number above 0, up to 1.
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -ln(uniform)
}

/// The natural logarithm of a normal number, from operations that IEEE 754 defines to the last bit: the library's differs
/// from one system to another, and a simulated run must not. By ln m = 2 artanh((m - 1) / (m + 1)).
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let sum = (0..11).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * s * sum + exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_librarys() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let drawn = (0..100_000).map(|_| ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64);
        for x in drawn.chain([1.0, 0.5, f64::EPSILON, 1e-16, 0.999_999_999, 0.707]) {
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().abs().max(0.1), "{x}: {} and {}", ln(x), x.ln());
        }
    }
}
