//! One io_uring: entries go in by slot, completions come out by slot, and none is lost or invented.
//!
//! Where the kernel can (6.1), completions are processed only inside the thread's own call (DEFER_TASKRUN), so none
//! interrupts it. Limits: Linux 5.11.

use std::io;
use std::mem;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};

use crate::engine::clock::{monotonic, patience, patience_since, spins};
use crate::engine::device::Completion;
use crate::error::DeviceError;
use crate::units::Nanos;

/// How long a device being dropped waits for its I/O.
const DRAIN: Duration = Duration::from_secs(5);
/// IORING_ENTER_GETEVENTS: run what completes I/Os (io_uring_enter(2)).
const GET_EVENTS: u32 = 1;

pub struct Ring {
    pub ring: IoUring,
    /// Result that each slot's I/O must have, plus one; 0 when the slot is free.
    expected: Vec<u32>,
    /// Submitted, but not yet handed over to the kernel.
    pub queued: u32,
    submitted: u64,
    completed: u64,
    /// When the last call of `wait` returned completions, if it did.
    recently: Option<Nanos>,
}

impl Ring {
    /// A ring for slots 0..`slots` with the best flags the kernel has: they were added in 6.1, 5.19 and 5.18.
    pub fn open(slots: u32) -> io::Result<Self> {
        let mut all = IoUring::builder();
        all.setup_submit_all().setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun();
        let mut some = IoUring::builder();
        some.setup_submit_all().setup_coop_taskrun();
        let unknown_flag = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
        let ring = all.build(slots);
        let ring = ring.or_else(|error| if unknown_flag(&error) { some.build(slots) } else { Err(error) });
        let ring = ring.or_else(|error| if unknown_flag(&error) { IoUring::new(slots) } else { Err(error) })?;
        Ok(Self { ring, expected: vec![0; slots as usize], queued: 0, submitted: 0, completed: 0, recently: None })
    }

    /// I/Os submitted and not yet completed.
    pub fn in_flight(&self) -> u64 {
        self.submitted - self.completed
    }

    pub fn is_free(&self, slot: u32) -> bool {
        self.expected[slot as usize] == 0
    }

    /// Queue an entry in a free slot; success is when it returns `result`.
    ///
    /// # Safety
    /// What the entry points to must stay valid, and its buffer unused by others, until its completion was reaped.
    #[inline]
    pub unsafe fn push(&mut self, entry: squeue::Entry, slot: u32, result: u32) {
        assert!(self.is_free(slot), "slot {slot} is in flight");
        // SAFETY: by this function's own contract.
        unsafe { self.ring.submission().push(&entry.user_data(u64::from(slot))) }.expect("an entry for each slot");
        self.expected[slot as usize] = result + 1;
        self.submitted += 1;
        self.queued += 1;
    }

    /// Give the kernel what is queued. What it does not take now it takes, or reports, in `wait`.
    #[inline]
    pub fn hand_over(&mut self) {
        self.queued = 0;
        let _ = self.ring.submit();
    }

    /// Hand over what is queued, wait for a completion until `until`, and take all there are.
    #[inline]
    pub fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.in_flight() == u64::from(self.queued) && self.queued > 0 {
            // The device has nothing to do: it begins before this thread prepares to sleep, so that what comes back within
            // a few us finds it awake. Waking it takes tens of us where an idle CPU of a virtual machine has to be started.
            self.hand_over();
        }
        let recently = self.recently.take();
        self.enter(recently.map_or_else(|| patience(until), |recently| patience_since(recently, until)))?;
        self.reap(done);
        while done.is_empty() && spins(until) {
            self.enter(Duration::ZERO)?;
            self.reap(done);
        }
        Ok(())
    }

    fn enter(&mut self, patience: Duration) -> Result<(), DeviceError> {
        loop {
            let result = if patience.is_zero() {
                let queued = self.ring.submission().len() as u32;
                // SAFETY: no argument is passed; the entries are valid by the contract of `push`.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }
            } else {
                let timeout = Timespec::from(patience);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            };
            match result.map_err(|error| (error.raw_os_error(), error)) {
                // EINTR: a signal, the caller asks again. ETIME: nothing completed in time.
                Ok(_) | Err((Some(libc::EINTR | libc::ETIME), _)) => {}
                Err((_, error)) => return Err(DeviceError::from_io("io_uring_enter", &error)),
            }
            // Short of memory the kernel may take only some, and then it does not wait either.
            if self.ring.submission().is_empty() {
                self.queued = 0;
                return Ok(());
            }
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let completions = self.ring.completion();
        if completions.is_empty() {
            return;
        }
        // After the queue was looked at, so that no I/O completes before it was.
        let at = monotonic();
        self.recently = Some(at);
        for entry in completions {
            let slot = entry.user_data() as usize;
            let expected = mem::take(&mut self.expected[slot]);
            assert!(expected > 0, "slot {slot} completed without an I/O");
            let result = match entry.result() {
                errno if errno < 0 => Err(-errno),
                bytes if bytes as u32 == expected - 1 => Ok(()),
                _ => Err(libc::EIO),
            };
            self.completed += 1;
            done.push(Completion { slot: slot as u32, at, result });
        }
        assert!(self.completed <= self.submitted, "more I/Os completed than were submitted");
    }

    /// Wait for what is in flight. False: the kernel may still use the buffers.
    pub fn drain(&mut self) -> bool {
        let end = Nanos(monotonic().0 + DRAIN.as_nanos() as u64);
        let mut done = vec![];
        while self.in_flight() > 0 && monotonic() < end {
            if self.wait(end, &mut done).is_err() {
                return false;
            }
        }
        self.in_flight() == 0
    }
}
