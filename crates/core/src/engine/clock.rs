//! The clock of real devices, and how long they may wait.
//!
//! `Instant` is CLOCK_MONOTONIC on Linux. Times count from the process's first look at the clock, so all
//! threads share one zero; they mean nothing to another process. The engine looks at it once for all that completed
//! together: reading the CPU's own counter instead would save little (docs/engine.md), and would have to be checked
//! against this clock.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::units::Nanos;

/// A device's `wait` returns after this at the latest, so that its thread can be asked to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Less than this is not slept: waking up may take as long.
const SPIN: Duration = Duration::from_micros(50);

static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the process first asked. Never runs backwards, on any thread.
#[inline]
pub fn monotonic() -> Nanos {
    let elapsed = ZERO.elapsed();
    Nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
}

/// How long a `wait` until `until` may take: nothing once it has passed, never over 50 ms. It ends a little early,
/// so that what is due then is not late.
#[inline]
pub(super) fn patience(until: Nanos) -> Duration {
    if until == Nanos::MAX {
        return LONGEST_WAIT;
    }
    Duration::from_nanos(until.since(monotonic())).saturating_sub(SPIN).min(LONGEST_WAIT)
}

/// The same, soon after `recently`, for which the clock need not be asked when there is ample time.
#[inline]
pub(super) fn patience_since(recently: Nanos, until: Nanos) -> Duration {
    let ample = 2 * LONGEST_WAIT.as_nanos() as u64;
    if until.since(recently) > ample { LONGEST_WAIT } else { patience(until) }
}

/// Whether what is left until then is too short to sleep.
#[inline]
pub(super) fn spins(until: Nanos) -> bool {
    (1..=SPIN.as_nanos() as u64).contains(&until.since(monotonic()))
}

/// Do nothing until `until`, for 50 ms at most.
pub(super) fn rest(until: Nanos) {
    thread::sleep(patience(until));
    while spins(until) {
        std::hint::spin_loop();
    }
}
