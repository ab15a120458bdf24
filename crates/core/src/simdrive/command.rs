//! A host command on its way through the drive, and what it costs on the link.

use super::params::UNIT;
use crate::workload::{Operation, Request};

/// One direction of the link: time for a command, and its bandwidth.
#[derive(Debug, Clone, Copy)]
pub struct LinkRate {
    overhead_ns: f64,
    ns_per_byte: f64,
    least_ns: f64,
}

impl LinkRate {
    pub fn new(overhead_us: f64, mb_per_s: f64, max_iops: f64) -> Self {
        Self { overhead_ns: overhead_us * 1e3, ns_per_byte: 1e3 / mb_per_s, least_ns: 1e9 / max_iops }
    }

    /// Time beside the transfer for a command of `bytes`.
    #[inline]
    pub fn overhead(&self, bytes: u64) -> u64 {
        (self.overhead_ns.max(self.least_ns - bytes as f64 * self.ns_per_byte) + 0.5) as u64
    }

    #[inline]
    pub fn transfer(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte + 0.5) as u64
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
    pub fn new(request: &Request) -> Self {
        let (start, end) = (request.lba.to_bytes().0, request.lba.to_bytes().0 + request.bytes.0);
        let (first, last) = (start / UNIT, (end - 1) / UNIT);
        let units = (last - first + 1) as u32;
        Self {
            operation: request.operation,
            first_unit: first,
            units,
            bytes: request.bytes.0,
            partial_first: !start.is_multiple_of(UNIT) || (units == 1 && !end.is_multiple_of(UNIT)),
            partial_last: units > 1 && !end.is_multiple_of(UNIT),
            pending: 0,
            left: if request.operation == Operation::Read { request.bytes.0 } else { u64::from(units) },
            overhead_paid: false,
        }
    }
}
