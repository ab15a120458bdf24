//! The clock of real devices, and how long they may wait.
//!
//! `Instant` is CLOCK_MONOTONIC on Linux. Times count from the process's first look at the clock, so all
//! threads share one zero; they mean nothing to another process.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::units::Nanos;

/// A device's `wait` returns after this at the latest, so that its thread can be asked to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the process first asked. Never runs backwards, on any thread.
#[inline]
pub fn monotonic() -> Nanos {
    let elapsed = ZERO.elapsed();
    Nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
}

/// How long a `wait` until `until` may take: nothing once it has passed, never over 50 ms.
#[inline]
pub(super) fn patience(until: Nanos) -> Duration {
    Duration::from_nanos(until.since(monotonic())).min(LONGEST_WAIT)
}
