//! Sessions whose writes are verified, and what their data costs.

use std::sync::Arc;

use super::{Limits, Session};
use crate::engine::datacost::DataDevice;
use crate::engine::uring::{Target, UringDevice};
use crate::engine::verify::{Ledger, Ledgered, Verifier};
use crate::error::{Error, TargetError};
use crate::units::Bytes;

impl Session {
    /// As `uring`, with writes that can be verified, and a ledger of them if the range is not too large for it.
    pub fn verified(target: Target, seed: u64, limits: Limits) -> Result<Self, Error> {
        let range = target.range();
        let target = Arc::new(target);
        let ledger = (range <= Ledger::MOST).then(|| Arc::new(Ledger::new(range)));
        let (own, book) = (Arc::clone(&target), ledger.clone());
        let make = move |thread| {
            let device = UringDevice::new(&own, thread, limits.queue_depth, limits.block, seed)?;
            Ok(Ledgered::new(device.one_of(limits.threads).verifiable(), book.clone(), thread, limits.queue_depth)?)
        };
        let mut session = Self::threads(range, seed, limits, Some(target), make)?;
        session.ledger = ledger;
        Ok(session)
    }

    /// The null device, with the data of writes made ready as for a real one: what that costs.
    pub fn null_with_data(range: Bytes, seed: u64, limits: Limits, verifiable: bool) -> Result<Self, Error> {
        let Limits { queue_depth, block, .. } = limits;
        Self::on(range, seed, limits, move |thread| DataDevice::new(queue_depth, block, thread, seed, verifiable))
    }

    /// The device was purged: what was written before is not there any more.
    pub fn forget_written(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.forget();
        }
    }

    /// Reads back what this session has written; drains first. Not for other sessions than those of `verified`.
    pub fn verifier(&mut self) -> Result<Verifier, Error> {
        let Some(target) = self.target.clone() else {
            return Err(TargetError::NotSupported("only a block device or a file can be read back".into()).into());
        };
        self.idle(0)?;
        Ok(Verifier::open(target.path(), self.range, self.seed)?.with(self.ledger.clone()))
    }
}
