//! Sessions whose writes are verified, and sessions on devices of the caller's making.

use std::sync::Arc;

use super::{Limits, Session};
use crate::engine::datacost::DataDevice;
use crate::engine::device::Device;
use crate::engine::uring::{Target, UringDevice};
use crate::engine::verify::{Ledger, Ledgered, Verifier};
use crate::error::{Error, TargetError};
use crate::units::Bytes;

impl Session {
    /// As `uring`, with writes that can be verified, and a ledger of them if the range is not too large for it.
    pub fn verified(target: Target, seed: u64, limits: Limits) -> Result<Self, Error> {
        let target = Arc::new(target);
        let mut session = Self::empty(limits, target.range(), seed, false, Some(Arc::clone(&target)));
        session.ledger = (target.range() <= Ledger::MOST).then(|| Arc::new(Ledger::new(target.range())));
        for thread in 0..limits.threads {
            let (target, ledger) = (Arc::clone(&target), session.ledger.clone());
            let device = move || {
                UringDevice::new(&target, thread, limits.queue_depth, limits.block, seed).map(UringDevice::verifiable)
            };
            match ledger {
                Some(ledger) => session
                    .spawn(thread, 1, move || Ok(Ledgered::new(device()?, ledger, thread, limits.queue_depth)?))?,
                None => session.spawn(thread, 1, device)?,
            }
        }
        Ok(session)
    }

    /// A session on what `make` makes for each thread.
    pub fn on<D: Device + 'static>(
        range: Bytes,
        seed: u64,
        limits: Limits,
        make: impl Fn(u32) -> Result<D, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let mut session = Self::empty(limits, range, seed, false, None);
        let make = Arc::new(make);
        for thread in 0..limits.threads {
            let make = Arc::clone(&make);
            session.spawn(thread, 1, move || make(thread))?;
        }
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
