//! Asking the workers for a log of every I/O.

use std::sync::atomic::Ordering;

use super::Session;
use crate::engine::iolog::{self, LogReader};
use crate::engine::protocol::Command;
use crate::error::Error;

impl Session {
    /// From now on log every I/O. To be asked once, between steps; the reader must be read.
    pub fn log_ios(&mut self) -> Result<LogReader, Error> {
        self.ready()?;
        let (ends, reader) = iolog::open(self.workers.len(), self.virtual_time, self.steps);
        for (worker, end) in self.workers.iter().zip(ends) {
            worker.mailbox.pending.fetch_add(1, Ordering::AcqRel);
            worker.commands.send(Command::Log(end)).map_err(|_| Error::WorkerLost)?;
        }
        self.await_done()?;
        Ok(reader)
    }
}
