//! What a worker does when it issues nothing: drains, idles, changes the device's state.

use std::time::{Duration, Instant};

use super::Worker;
use crate::engine::device::{Control, Device};
use crate::engine::protocol::{Reply, StopReason};
use crate::error::{DeviceError, Error};
use crate::units::Nanos;

/// A device that returns nothing for so long while it drains is given up.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

impl<D: Device> Worker<D> {
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        let mut last_progress = Instant::now();
        while self.outstanding > 0 {
            self.device.wait(Nanos::MAX, &mut self.done)?;
            if !self.done.is_empty() {
                last_progress = Instant::now();
            } else if last_progress.elapsed() > DRAIN_LIMIT {
                let problem = format!("{} I/Os did not come back; check the kernel log, power-cycle", self.outstanding);
                return Err(DeviceError { errno: libc::ETIMEDOUT, context: "device hangs".into(), problem }.into());
            }
            self.take_completions(false)?;
        }
        Ok(())
    }

    pub(super) fn idle(&mut self, ns: u64) -> Result<(), Error> {
        self.drain()?;
        let until = Nanos(self.device.now().0 + ns);
        while self.device.now() < until && self.shared.reason() == StopReason::Complete {
            self.device.wait(until, &mut self.done)?;
        }
        self.leave();
        Ok(())
    }

    /// Nothing is issued any more.
    fn leave(&mut self) {
        self.current = None;
        self.open_loop = false;
    }

    pub(super) fn control(&mut self, control: Control) -> Result<(), Error> {
        self.drain()?;
        self.leave();
        self.last_completion = None;
        let result = self.device.control(control);
        self.reply(Reply::Done(result));
        Ok(())
    }
}
