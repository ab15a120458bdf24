//! The one trait every device under test fits: io_uring, null, simulated, faulty.

use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Lba, Nanos};
use crate::workload::Request;

/// A finished I/O. `at` is when the host learned of it. `result`: the errno of a failed one.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    pub slot: u32,
    pub at: Nanos,
    pub result: Result<(), i32>,
}

/// A change of state that only a simulated drive makes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Purge,
    WriteCache(bool),
    /// The host needs this range no longer: what lies wholly in it is unmapped.
    Trim {
        lba: Lba,
        bytes: Bytes,
    },
    /// Power is lost, and comes back.
    PowerLoss,
}

/// Energy and temperature of a device over a time. `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    pub span_ns: u64,
    pub energy_j: f64,
    /// Mean over the time, and highest.
    pub temperature_c: Option<f64>,
    pub temperature_max_c: Option<f64>,
    /// How long the device has slowed itself down because it was hot.
    pub throttled_ns: Option<u64>,
}

/// A device as one engine thread sees it. A slot is the caller's number for an outstanding I/O; it is free
/// again once its completion was returned. Nothing is retried.
pub trait Device {
    /// The device's clock.
    fn now(&mut self) -> Nanos;

    /// This one will be submitted before long: a hint, which changes nothing.
    #[inline]
    fn expect(&mut self, _request: &Request) {}

    /// Prepare a part of what later I/Os will need, while there is nothing else to do. False: all is ready.
    fn get_ready(&mut self) -> bool {
        false
    }

    /// Queue one I/O. It may be held back until `wait`, but no longer.
    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError>;

    /// Hand over all that is queued, then wait until something completed or `until` has passed, and append what
    /// completed to `done`, in order of time. A real device returns after 50 ms at the latest, so that its
    /// thread can be asked to stop. With nothing outstanding this is idling until `until`.
    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError>;

    /// Like `wait`, in virtual time, but what completes before `until` may come together while the device cannot begin
    /// what is submitted next: when each was issued in place of another, it would have done nothing but queue.
    #[inline]
    fn wait_together(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.wait(until, done)
    }

    /// The data pattern of the writes to come: share of it that is random.
    fn set_entropy(&mut self, percent: u8);

    /// Energy and temperature since this was last asked, of a device that knows them by itself.
    fn conditions(&mut self) -> Option<Conditions> {
        None
    }

    /// Change the state of an idle device. Only the simulated drive can: a real one is purged by other tools.
    fn control(&mut self, control: Control) -> Result<(), Error> {
        Err(TargetError::NotSupported(format!("{control:?} is only possible on a simulated drive")).into())
    }
}
