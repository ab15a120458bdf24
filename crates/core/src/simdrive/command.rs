//! A host command on its way through the drive, and what it costs on the link.

use super::params::{DriveParameters, UNIT};
use crate::workload::{Operation, Request};

/// One direction of the link: time for a command, and its bandwidth.
#[derive(Debug, Clone, Copy)]
pub struct LinkRate {
    overhead_ns: f64,
    ns_per_byte: f64,
    least_ns: f64,
    /// Fixed delay of a command that occupies nothing.
    pub delay_ns: u64,
    /// The controller's time for a command, beside its data.
    pub controller_ns: u64,
    /// Bytes and time of the last overhead and the last transfer: the next ones are the same, as a rule.
    last_overhead: (u64, u64),
    last_transfer: (u64, u64),
}

impl LinkRate {
    pub fn read(p: &DriveParameters) -> Self {
        let link = (p.link_read_overhead_us, p.link_read_mb_per_s, p.link_read_max_iops);
        Self::new(link, p.read_latency_us, p.controller_read_overhead_us)
    }

    pub fn write(p: &DriveParameters) -> Self {
        let link = (p.link_write_overhead_us, p.link_write_mb_per_s, p.link_write_max_iops);
        Self::new(link, p.write_latency_us, p.controller_write_overhead_us)
    }

    fn new((overhead_us, mb_per_s, max_iops): (f64, f64, f64), delay_us: f64, controller_us: f64) -> Self {
        let never = (u64::MAX, 0);
        Self {
            overhead_ns: overhead_us * 1e3,
            ns_per_byte: 1e3 / mb_per_s,
            least_ns: 1e9 / max_iops,
            delay_ns: (delay_us * 1e3).round() as u64,
            controller_ns: (controller_us * 1e3).round() as u64,
            last_overhead: never,
            last_transfer: never,
        }
    }

    /// Time beside the transfer for a command of `bytes`.
    #[inline]
    pub fn overhead(&mut self, bytes: u64) -> u64 {
        if self.last_overhead.0 != bytes {
            let beside_transfer = self.least_ns - bytes as f64 * self.ns_per_byte;
            self.last_overhead = (bytes, (self.overhead_ns.max(beside_transfer) + 0.5) as u64);
        }
        self.last_overhead.1
    }

    #[inline]
    pub fn transfer(&mut self, bytes: u64) -> u64 {
        if self.last_transfer.0 != bytes {
            self.last_transfer = (bytes, (bytes as f64 * self.ns_per_byte + 0.5) as u64);
        }
        self.last_transfer.1
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub operation: Operation,
    pub first_unit: u64,
    pub units: u32,
    pub bytes: u64,
    /// The first and the last unit are written only in part.
    pub partial_first: bool,
    pub partial_last: bool,
    /// Read: operations on dies not done yet. Write: pages not programmed yet.
    pub pending: u32,
    /// Units of a write not in the buffer yet; bytes of a read not on the link yet.
    pub left: u64,
    pub overhead_paid: bool,
}

impl Command {
    /// On a drive of `capacity` bytes: its last unit may be cut short, and is whole all the same.
    #[inline]
    pub fn new(request: &Request, capacity: u64) -> Self {
        let (start, end) = (request.lba.to_bytes().0, request.lba.to_bytes().0 + request.bytes.0);
        let (first, last) = (start / UNIT, (end - 1) / UNIT);
        let units = (last - first + 1) as u32;
        let cut = !end.is_multiple_of(UNIT) && end != capacity;
        Self {
            operation: request.operation,
            first_unit: first,
            units,
            bytes: request.bytes.0,
            partial_first: !start.is_multiple_of(UNIT) || (units == 1 && cut),
            partial_last: units > 1 && cut,
            pending: 0,
            left: if request.operation == Operation::Read { request.bytes.0 } else { u64::from(units) },
            overhead_paid: false,
        }
    }
}
