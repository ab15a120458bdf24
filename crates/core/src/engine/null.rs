//! A device that does nothing and completes everything at once: what remains is the engine's own overhead.

use super::clock::{monotonic, rest};
use super::device::{Completion, Device};
use crate::error::DeviceError;
use crate::units::Nanos;
use crate::workload::Request;

/// Completes every I/O, unseen, at the next `wait`.
#[derive(Debug, Default)]
pub struct NullDevice {
    queued: Vec<u32>,
}

impl NullDevice {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Device for NullDevice {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    fn submit(&mut self, slot: u32, _request: &Request) -> Result<(), DeviceError> {
        self.queued.push(slot);
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.queued.is_empty() {
            rest(until);
            return Ok(());
        }
        let at = monotonic();
        done.extend(self.queued.drain(..).map(|slot| Completion { slot, at, result: Ok(()) }));
        Ok(())
    }

    fn set_entropy(&mut self, _percent: u8) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Lba};
    use crate::workload::Operation;

    #[test]
    fn everything_submitted_completes_once() {
        let mut device = NullDevice::new();
        let request = Request { operation: Operation::Read, lba: Lba(0), bytes: Bytes(4096) };
        let (mut done, mut completed, mut batch) = (vec![], 0, 0);
        while completed < 10_007 {
            batch = (batch % 31 + 1).min(10_007 - completed);
            let before = device.now();
            (0..batch).for_each(|slot| device.submit(slot, &request).unwrap());
            device.wait(Nanos::MAX, &mut done).unwrap();
            assert!(done.iter().map(|completion| completion.slot).eq(0..batch));
            assert!(done.iter().all(|completion| completion.result.is_ok() && completion.at >= before));
            done.clear();
            completed += batch;
        }
        assert_eq!(completed, 10_007);
    }

    #[test]
    fn idling_ends_at_its_time_or_after_50_ms() {
        let mut device = NullDevice::new();
        let mut idle = |ns| {
            let start = device.now();
            device.wait(Nanos(start.0.saturating_add(ns)), &mut vec![]).unwrap();
            device.now().since(start)
        };
        assert!((5_000_000..45_000_000).contains(&idle(5_000_000)), "5 ms asked");
        assert!((50_000_000..200_000_000).contains(&idle(u64::MAX)), "no end asked");
    }
}
