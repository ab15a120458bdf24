//! What it costs to make the data of writes: a device that makes it, and does nothing else.

use super::device::{Completion, Device};
use super::null::NullDevice;
use super::uring::WriteData;
use crate::error::{DeviceError, Error};
use crate::units::{Bytes, Nanos};
use crate::workload::{Operation, Request};

/// The null device, with the data of each write made ready as for a real one.
pub struct DataDevice {
    device: NullDevice,
    writes: WriteData,
}

impl DataDevice {
    pub fn new(slots: u32, max_block: Bytes, thread: u32, seed: u64, verifiable: bool) -> Result<Self, Error> {
        let writes = WriteData::new(slots as usize, max_block.0 as usize, thread, seed);
        let mut writes = writes.map_err(|error| DeviceError::from_io("buffers in memory", &error))?;
        if verifiable {
            writes.make_verifiable();
        }
        Ok(Self { device: NullDevice::default(), writes })
    }
}

impl Device for DataDevice {
    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        if request.operation == Operation::Write {
            self.writes.prepare(slot as usize, request.lba, request.bytes.0 as usize);
        }
        self.device.submit(slot, request)
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.device.wait(until, done)
    }

    fn set_entropy(&mut self, percent: u8) {
        self.writes.set_entropy(percent);
    }
}
