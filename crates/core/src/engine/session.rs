//! A session: live workers on one device under test, and the steps that run on them back to back.

mod logged;
mod verified;

use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::clock::monotonic;
use super::device::{Control, Device};
use super::null::NullDevice;
use super::protocol::{Command, Handover, Mailbox, Reply, Shared, StepPlan, StopReason, WorkerReport, WorkerSetup};
use super::result::{StepResult, merge};
use super::uring::{NopDevice, Target, UringDevice, run_promptly};
use super::verify::Ledger;
use super::worker::Worker;
use super::written::Written;
use crate::error::{Error, StimulusError};
use crate::recorder::Recorder;
use crate::simdisk::SimDisk;
use crate::simdrive::SimDrive;
use crate::simulated::Parameters;
use crate::units::Bytes;
use crate::workload::{RequestStream, Stimulus, Stop};

/// The most a step of the session may ask for; buffers are allocated for it before the first step.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub threads: u32,
    pub queue_depth: u32,
    pub block: Bytes,
}

/// Longest step or idle time: a year. Clocks of 64 bits then last for centuries of them.
const MAX_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;

struct Handle {
    commands: Sender<Command>,
    replies: Receiver<Reply>,
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

struct Running {
    reports: Vec<Option<Box<WorkerReport>>>,
}

pub struct Session {
    workers: Vec<Handle>,
    shared: Arc<Shared>,
    target: Option<Arc<Target>>,
    /// What was written, of a session whose writes are verified.
    ledger: Option<Arc<Ledger>>,
    written: Written,
    limits: Limits,
    range: Bytes,
    seed: u64,
    virtual_time: bool,
    steps: u64,
    /// Nothing is outstanding: no step yet, or none since the device was idle.
    drained: bool,
    running: Option<Running>,
    closed: bool,
}

impl Session {
    /// A simulated device in virtual time: one worker drives all threads.
    pub fn simulated(
        parameters: impl Into<Parameters>,
        seed: u64,
        threads: u32,
        queue_depth: u32,
    ) -> Result<Self, Error> {
        let parameters = parameters.into();
        let range = parameters.capacity();
        let limits = Limits { threads, queue_depth, block: Bytes(u64::MAX) };
        let mut session = Self::empty(limits, range, seed, true, None);
        let slots = threads * queue_depth;
        match parameters {
            Parameters::Ssd(parameters) => session.spawn(0, threads, move || Ok(SimDrive::new(*parameters, slots)?))?,
            Parameters::Disk(parameters) => session.spawn(0, threads, move || Ok(SimDisk::new(parameters, slots)))?,
        }
        session.await_done()?;
        Ok(session)
    }

    /// A block device or file through io_uring: a worker per thread.
    pub fn uring(target: Target, seed: u64, limits: Limits) -> Result<Self, Error> {
        let target = Arc::new(target);
        let (range, own) = (target.range(), Arc::clone(&target));
        let make = move |thread| {
            let device = UringDevice::new(&own, thread, limits.queue_depth, limits.block, seed)?;
            Ok(device.one_of(limits.threads))
        };
        Self::threads(range, seed, limits, Some(target), make)
    }

    /// A device that completes at once: what the engine itself costs.
    pub fn null(range: Bytes, seed: u64, threads: u32, queue_depth: u32) -> Result<Self, Error> {
        let limits = Limits { threads, queue_depth, block: Bytes(u64::MAX) };
        Self::on(range, seed, limits, |_| {
            run_promptly();
            Ok(NullDevice::default())
        })
    }

    /// A ring of no-ops: the most that this host's kernel and the engine can do together.
    pub fn nop(range: Bytes, seed: u64, threads: u32, queue_depth: u32) -> Result<Self, Error> {
        let limits = Limits { threads, queue_depth, block: Bytes(u64::MAX) };
        Self::on(range, seed, limits, move |_| Ok(NopDevice::new(queue_depth)?))
    }

    /// Any device that keeps to the monotonic clock: `make` is called for each thread, on that thread.
    pub fn on<D: Device + 'static>(
        range: Bytes,
        seed: u64,
        limits: Limits,
        make: impl Fn(u32) -> Result<D, Error> + Clone + Send + 'static,
    ) -> Result<Self, Error> {
        Self::threads(range, seed, limits, None, make)
    }

    fn threads<D: Device + 'static>(
        range: Bytes,
        seed: u64,
        limits: Limits,
        target: Option<Arc<Target>>,
        make: impl Fn(u32) -> Result<D, Error> + Clone + Send + 'static,
    ) -> Result<Self, Error> {
        let mut session = Self::empty(limits, range, seed, false, target);
        for thread in 0..limits.threads {
            let make = make.clone();
            session.spawn(thread, 1, move || make(thread))?;
        }
        session.await_done()?;
        session.send(iter::repeat_with(|| Command::GetReady))?;
        Ok(session)
    }

    fn empty(limits: Limits, range: Bytes, seed: u64, virtual_time: bool, target: Option<Arc<Target>>) -> Self {
        Self {
            workers: vec![],
            shared: Arc::default(),
            target,
            ledger: None,
            written: Written::default(),
            limits,
            range,
            seed,
            virtual_time,
            steps: 0,
            drained: true,
            running: None,
            closed: false,
        }
    }

    /// Start a worker for `lanes` threads from `first_thread` on. The device is made on the thread that uses it; how
    /// that went is its first reply.
    fn spawn<D: Device + 'static>(
        &mut self,
        first_thread: u32,
        lanes: u32,
        make: impl FnOnce() -> Result<D, Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (commands, inbox) = channel();
        let (outbox, replies) = channel();
        let mailbox = Arc::new(Mailbox::default());
        let setup = WorkerSetup {
            first_thread,
            lanes,
            max_queue_depth: self.limits.queue_depth,
            seed: self.seed,
            range: self.range,
            virtual_time: self.virtual_time,
        };
        let (shared, flag) = (Arc::clone(&self.shared), Arc::clone(&mailbox));
        let body = move || match make() {
            Ok(device) => {
                let _ = outbox.send(Reply::Done(Ok(())));
                Worker::new(device, setup, shared, flag, inbox, outbox).run();
            }
            Err(error) => {
                let _ = outbox.send(Reply::Done(Err(error)));
            }
        };
        let name = format!("flashgauge-{first_thread}");
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(|_| Error::WorkerLost)?;
        self.workers.push(Handle { commands, replies, mailbox, thread: Some(thread) });
        Ok(())
    }

    pub fn range(&self) -> Bytes {
        self.range
    }

    pub fn virtual_time(&self) -> bool {
        self.virtual_time
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Publish the next step; the workers go over to it at once. It must be awaited before the one after.
    pub fn start(
        &mut self,
        stimulus: Stimulus,
        stop: Stop,
        interval_ns: u64,
        stop_on_error: bool,
    ) -> Result<(), Error> {
        self.ready()?;
        self.check(&stimulus, stop, interval_ns)?;
        if stimulus.read_percent < 100.0 {
            self.written.add(stimulus.active_bytes(self.range));
        }
        self.shared.clear();
        self.steps += 1;
        let recorder = || Box::new(Recorder::new(interval_ns).counting_draws(&stimulus));
        let recorders: Vec<_> = self.workers.iter().map(|_| recorder()).collect();
        let origin = (!self.virtual_time).then(monotonic);
        let handover = (!std::mem::take(&mut self.drained)).then(|| Handover::of(self.workers.len()));
        let plan = Arc::new(StepPlan { number: self.steps, stimulus, stop, stop_on_error, origin, handover });
        self.running = Some(Running { reports: self.workers.iter().map(|_| None).collect() });
        self.send(recorders.into_iter().map(|recorder| Command::Step(Arc::clone(&plan), recorder)))
    }

    fn ready(&self) -> Result<(), Error> {
        match (self.closed, &self.running) {
            (true, _) => Err(Error::Closed),
            (_, Some(_)) => Err(Error::Busy),
            _ => Ok(()),
        }
    }

    /// Whether a step could run on this device: everything that can be known before its first I/O.
    pub fn check(&self, stimulus: &Stimulus, stop: Stop, interval_ns: u64) -> Result<(), Error> {
        stimulus.validate()?;
        let over = |what, asked: u64, limit: u64| {
            if asked > limit { Err(StimulusError::OverLimit { what, asked, limit }) } else { Ok(()) }
        };
        over("thread_count", stimulus.thread_count.into(), self.limits.threads.into())?;
        over("queue_depth", stimulus.queue_depth.into(), self.limits.queue_depth.into())?;
        over("block size", stimulus.max_block().0, self.limits.block.0)?;
        let (amount, name) = match stop {
            Stop::Time { ns } | Stop::Burst { ns } => (ns, "the step's time"),
            Stop::Bytes { bytes } | Stop::Fill { bytes } => (bytes / 512, "the step's number of 512-byte sectors"),
            Stop::Ios { ios } => (ios, "the step's number of I/Os"),
        };
        if amount == 0 || interval_ns == 0 {
            return Err(StimulusError::Zero(if interval_ns == 0 { "interval_ns" } else { name }).into());
        }
        if let Some(ns) = stop.window_ns() {
            over("the step's ns", ns, MAX_NS)?;
        }
        over("interval_ns", interval_ns, MAX_NS)?;
        if let Stop::Bytes { bytes } | Stop::Fill { bytes } = stop
            && !bytes.is_multiple_of(self.target.as_ref().map_or(512, |target| target.logical_block().0))
        {
            return Err(StimulusError::BlockSize(bytes).into());
        }
        if let Some(target) = &self.target {
            target.check(stimulus)?;
        }
        // The first and the last thread have the extreme regions.
        for thread in [0, stimulus.thread_count - 1] {
            RequestStream::new(0, thread).set(stimulus, self.range)?;
        }
        Ok(())
    }

    /// One command for each worker.
    fn send(&self, commands: impl Iterator<Item = Command>) -> Result<(), Error> {
        for (worker, command) in self.workers.iter().zip(commands) {
            worker.mailbox.pending.fetch_add(1, Ordering::AcqRel);
            worker.commands.send(command).map_err(|_| Error::WorkerLost)?;
        }
        Ok(())
    }

    /// Completed I/Os and elapsed ns of the step under way.
    pub fn progress(&self) -> (u64, u64) {
        let ios = self.workers.iter().map(|worker| worker.mailbox.ios.load(Ordering::Relaxed)).sum();
        let elapsed = self.workers.iter().map(|worker| worker.mailbox.elapsed_ns.load(Ordering::Relaxed)).max();
        (ios, elapsed.unwrap_or(0))
    }

    /// Wait for the step's result, at most `timeout`. `None`: not yet.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<StepResult>, Error> {
        let deadline = Instant::now() + timeout;
        let Some(running) = &mut self.running else { return Err(Error::Closed) };
        for (worker, report) in self.workers.iter().zip(&mut running.reports) {
            while report.is_none() {
                let left = deadline.saturating_duration_since(Instant::now());
                match worker.replies.recv_timeout(left) {
                    Ok(Reply::Step(part)) => *report = Some(part),
                    Ok(Reply::Done(_)) => continue,
                    Ok(Reply::Failed(error)) => {
                        self.closed = true;
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => return Ok(None),
                    Err(RecvTimeoutError::Disconnected) => {
                        self.closed = true;
                        return Err(Error::WorkerLost);
                    }
                }
            }
        }
        let reports = self.running.take().expect("it runs").reports;
        let reports = reports.into_iter().map(|report| *report.expect("every worker has reported")).collect();
        Ok(Some(merge(reports, self.shared.reason())))
    }

    /// End the step under way early; its result says so.
    pub fn interrupt(&self) {
        self.shared.ask_to_stop(StopReason::Interrupted);
    }

    /// Drain, then send the device nothing for `ns` of its clock.
    pub fn idle(&mut self, ns: u64) -> Result<(), Error> {
        self.ready()?;
        if ns > MAX_NS {
            return Err(StimulusError::OverLimit { what: "idle ns", asked: ns, limit: MAX_NS }.into());
        }
        self.shared.clear();
        self.send(iter::repeat_with(|| Command::Idle(ns)))?;
        self.await_done()?;
        self.drained = true;
        Ok(())
    }

    /// Change the state of a simulated drive, after draining it.
    pub fn control(&mut self, control: Control) -> Result<(), Error> {
        self.ready()?;
        self.send(iter::repeat_with(|| Command::Control(control)))?;
        // Drained first, also where the device refuses.
        let done = self.await_done();
        self.drained = done.is_ok();
        done
    }

    fn await_done(&mut self) -> Result<(), Error> {
        // Every worker's answer is taken, also after a failure: a stale one must not answer the next command.
        let results: Vec<_> = self.workers.iter().map(|worker| worker.replies.recv()).collect();
        for result in results {
            match result {
                Ok(Reply::Done(result)) => result?,
                Ok(Reply::Failed(error)) => return Err(error),
                _ => return Err(Error::WorkerLost),
            }
        }
        Ok(())
    }

    /// Stop and drain all workers.
    pub fn close(&mut self) {
        self.closed = true;
        self.running = None;
        self.interrupt();
        for worker in &self.workers {
            // A worker that has failed is gone already.
            worker.mailbox.pending.fetch_add(1, Ordering::AcqRel);
            let _ = worker.commands.send(Command::Close);
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
        self.workers.clear();
        // The last reference: the device is released before this returns.
        self.target = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
