//! A ring without a device: every request becomes an IORING_OP_NOP, which the kernel completes at once.
//!
//! What remains is the cost of the ring, of the kernel's calls and of the engine: the most this host can issue.

use super::{Ring, cause, run_promptly};
use crate::engine::clock::{monotonic, rest};
use crate::engine::device::{Completion, Device};
use crate::error::{DeviceError, TargetError};
use crate::units::Nanos;
use crate::workload::Request;

/// One thread's ring of no-ops. It stays on the thread that made it.
pub struct NopDevice {
    ring: Ring,
}

impl NopDevice {
    pub fn new(max_queue_depth: u32) -> Result<Self, TargetError> {
        let ring = Ring::open(max_queue_depth).map_err(|error| {
            let (problem, cure) = cause(&error);
            TargetError::NotSupported(format!("{problem}; {cure}"))
        })?;
        run_promptly();
        Ok(Self { ring })
    }
}

impl Device for NopDevice {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    #[inline]
    fn submit(&mut self, slot: u32, _request: &Request) -> Result<(), DeviceError> {
        // SAFETY: a no-op points to nothing.
        unsafe { self.ring.push(io_uring::opcode::Nop::new().build(), slot, 0) };
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.ring.in_flight() == 0 {
            rest(until);
            return Ok(());
        }
        self.ring.wait(until, done)
    }

    fn set_entropy(&mut self, _percent: u8) {}
}

impl Drop for NopDevice {
    fn drop(&mut self) {
        self.ring.drain();
    }
}
