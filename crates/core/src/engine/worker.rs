//! One engine thread: keeps its lanes' queues full, records, and goes over from step to step without a pause.
//!
//! A lane is one thread of the stimulus. A real device has a worker per lane; the simulated drive has one worker
//! for all lanes, since virtual time is one. After the window of a timed step the worker goes on issuing the same
//! stimulus, unrecorded, until the next step is there (bridge I/Os): the device is never idle in between. In
//! virtual time nothing happens between steps, so the worker rests instead. Steps that end by bytes or I/O count
//! drain, but for a fill, which goes on like a timed step.
//!
//! The window of a timed step opens when the last I/O of the step before has come back (`worker/handover.rs`). Until then
//! the queue holds both kinds, and counting from there would charge the new step for the old one's slow I/Os: 128
//! outstanding 1 MiB writes take a second to return.

mod handover;
mod open_loop;
mod rest;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use self::handover::HANDOVER_LIMIT_NS;
use super::device::{Completion, Device};
use super::iolog::{LogEnd, Row};
use super::progress::{Current, Lane, Slot};
use super::protocol::{Before, Command, Gone, Mailbox, Reply, Shared, StepPlan, StopReason, WorkerReport, WorkerSetup};
use crate::error::Error;
use crate::recorder::{ErrorTally, Recorder};
use crate::units::{Bytes, Nanos};
use crate::workload::{Arrivals, Operation, RequestStream, Stop};

pub struct Worker<D> {
    device: D,
    setup: WorkerSetup,
    lanes: Vec<Lane>,
    slots: Vec<Slot>,
    outstanding: u64,
    current: Option<Current>,
    /// Whether the step under way has a schedule, and a lane that follows it.
    open_loop: bool,
    /// All workers are there: from now on the device may get ready when there is nothing else to do.
    may_get_ready: bool,
    /// When the last I/O completed; `None` if the device has since been idle on purpose.
    last_completion: Option<Nanos>,
    bridge_ios: u64,
    written_bytes: u64,
    /// Failures of I/Os that no step counts; the next report carries them, so that none is lost.
    bridge_errors: Vec<ErrorTally>,
    done: Vec<Completion>,
    log: Option<LogEnd>,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    commands: Receiver<Command>,
    replies: Sender<Reply>,
}

impl<D: Device> Worker<D> {
    pub fn new(
        device: D,
        setup: WorkerSetup,
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox>,
        commands: Receiver<Command>,
        replies: Sender<Reply>,
    ) -> Self {
        let lanes = (0..setup.lanes).map(|lane| Lane {
            stream: RequestStream::new(setup.seed, setup.first_thread + lane),
            active: false,
            left: 0,
            arrivals: Arrivals::new(setup.seed, setup.first_thread + lane),
            free: Vec::with_capacity(setup.max_queue_depth as usize),
        });
        let slot = |number: u32| Slot {
            lane: number / setup.max_queue_depth,
            depth: number % setup.max_queue_depth,
            busy: false,
            step: None,
            operation: Operation::Read,
            bytes: Bytes(0),
            lba: 0,
            due: Nanos(0),
        };
        Self {
            lanes: lanes.collect(),
            slots: (0..setup.lanes * setup.max_queue_depth).map(slot).collect(),
            device,
            setup,
            outstanding: 0,
            current: None,
            open_loop: false,
            may_get_ready: false,
            last_completion: None,
            bridge_ios: 0,
            written_bytes: 0,
            bridge_errors: vec![],
            done: Vec::new(),
            log: None,
            shared,
            mailbox,
            commands,
            replies,
        }
    }

    /// Serve commands until `Close`, or until the session is gone.
    pub fn run(mut self) {
        // Also when a bug ends it: the others must not wait for what it has outstanding.
        let _gone = Gone(Arc::clone(&self.shared));
        while let Some(command) = self.next_command() {
            let result = match command {
                Command::Step(plan, recorder) => self.begin(plan, recorder),
                Command::Idle(ns) => self.idle(ns).map(|()| self.reply(Reply::Done(Ok(())))),
                Command::Control(control) => self.control(control),
                Command::Log(end) => {
                    self.log = Some(end);
                    self.reply(Reply::Done(Ok(())));
                    Ok(())
                }
                Command::GetReady => {
                    self.may_get_ready = true;
                    Ok(())
                }
                Command::Close => break,
            };
            if let Err(error) = result.and_then(|()| self.work()) {
                self.reply(Reply::Failed(error));
                return;
            }
        }
        // A device that fails while it drains has nobody left to tell.
        let _ = self.drain();
    }

    fn next_command(&mut self) -> Option<Command> {
        while self.may_get_ready && self.mailbox.pending.load(Ordering::Acquire) == 0 {
            self.may_get_ready = self.device.get_ready();
        }
        let command = self.commands.recv().ok();
        if command.is_some() {
            self.mailbox.pending.fetch_sub(1, Ordering::AcqRel);
        }
        command
    }

    fn reply(&self, reply: Reply) {
        // The session may be gone already; then nobody waits.
        let _ = self.replies.send(reply);
    }

    /// Issue and record until there is a command to look at, or nothing more to do.
    fn work(&mut self) -> Result<(), Error> {
        let mut recently = None;
        while self.mailbox.pending.load(Ordering::Acquire) == 0 {
            let rests = self.current.as_ref().is_none_or(|current| current.reported && self.setup.virtual_time);
            let idles = self.outstanding == 0 && !self.awaits_window();
            if rests || (idles && (!self.open_loop || self.nothing_to_come())) {
                return Ok(());
            }
            let ends = self.current.as_ref().map_or(Nanos::MAX, |current| current.window_end);
            // What completed just now tells the time, unless it must be known exactly.
            let now = match recently {
                Some(now) if !self.open_loop => now,
                _ => self.device.now(),
            };
            let until = if now >= ends { Nanos::MAX } else { ends };
            let until = if self.open_loop { until.min(self.next_due(now)) } else { until };
            // Before the window opens, and after it has closed, each completion may change what is issued next.
            match &self.current {
                Some(current) if current.open && now < ends && !current.reported && !self.open_loop => {
                    self.device.wait_together(until, &mut self.done)?;
                }
                _ => self.device.wait(self.next_look(until, now), &mut self.done)?,
            }
            recently = self.done.last().map(|completion| completion.at);
            self.take_completions(true)?;
            if self.open_loop {
                self.issue_due()?;
            }
            self.report_if_finished();
        }
        Ok(())
    }

    fn begin(&mut self, plan: Arc<StepPlan>, recorder: Box<Recorder>) -> Result<(), Error> {
        let now = self.device.now();
        // Between the I/Os of a schedule the device may be idle: that is no gap.
        let scheduled = self.open_loop || plan.stimulus.rate.is_some();
        let before = match self.last_completion {
            _ if self.outstanding > 0 => Before::Busy,
            Some(at) if !scheduled => Before::IdleSince(at),
            _ => Before::Fresh,
        };
        self.device.set_entropy(plan.stimulus.entropy_percent);
        // What was before, idling for one, is not of this step.
        self.device.conditions();
        self.set_lanes(&plan)?;
        self.schedule(&plan, now);
        let timed = plan.stop.window_ns().is_some();
        let active = self.lanes.iter().any(|lane| lane.active);
        let mut current = Current {
            recorder: Some(recorder),
            began: now,
            foreign: self.outstanding,
            open: false,
            held: false,
            window_end: Nanos::MAX,
            pending: 0,
            submitted_ios: 0,
            missed_ios: 0,
            given_up: false,
            before,
            first_submit: None,
            bridge_ios_before: std::mem::take(&mut self.bridge_ios),
            reported: false,
            plan,
        };
        // A schedule's first I/O is due at its very beginning.
        let first = current.plan.origin.filter(|_| self.open_loop).unwrap_or(now);
        if current.foreign == 0 {
            current.plan.returned(first);
        }
        if !timed || !active || current.plan.nothing_before() {
            current.open(first);
        }
        self.current = Some(current);
        self.open_in_turn();
        self.mailbox.ios.store(0, Ordering::Relaxed);
        self.mailbox.elapsed_ns.store(0, Ordering::Relaxed);
        self.fill(now)?;
        self.report_if_finished();
        Ok(())
    }

    /// Issue in every empty slot that the step uses.
    fn fill(&mut self, now: Nanos) -> Result<(), Error> {
        if self.open_loop {
            return self.issue_due();
        }
        for slot in 0..self.slots.len() as u32 {
            if !self.slots[slot as usize].busy {
                self.issue(slot, now)?;
            }
        }
        Ok(())
    }

    /// Give each lane the new stimulus and its share of an exact stop.
    fn set_lanes(&mut self, plan: &StepPlan) -> Result<(), Error> {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let thread = self.setup.first_thread + index as u32;
            lane.active = thread < plan.stimulus.thread_count;
            if !lane.active {
                continue;
            }
            lane.stream.set(&plan.stimulus, self.setup.range)?;
            let threads = u64::from(plan.stimulus.thread_count);
            let last = u64::from(thread) == threads - 1;
            let share = |total: u64, part: u64| if last { total - part * (threads - 1) } else { part };
            lane.left = match plan.stop {
                Stop::Time { .. } | Stop::Burst { .. } => 0,
                Stop::Ios { ios } => ios / threads + u64::from(u64::from(thread) < ios % threads),
                // A sequential thread gets what its region is of the range, so that a whole number of passes
                // over the range is a whole number of passes over each region.
                Stop::Bytes { bytes } | Stop::Fill { bytes } => share(bytes, lane.stream.share_of(bytes, threads)),
            };
        }
        Ok(())
    }

    /// Issue the next I/O of the slot's lane, if it may have one.
    #[inline(always)]
    fn issue(&mut self, slot: u32, now: Nanos) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let entry = &mut self.slots[slot as usize];
        let lane = &mut self.lanes[entry.lane as usize];
        if !lane.active || entry.depth >= current.plan.stimulus.queue_depth {
            return Ok(());
        }
        if self.shared.reason() != StopReason::Complete {
            return Ok(());
        }
        if !current.open && now.since(current.began) > HANDOVER_LIMIT_NS {
            current.held = true;
            return Ok(());
        }
        let counted = match current.plan.stop {
            Stop::Time { .. } if now >= current.window_end => false,
            Stop::Burst { .. } if now >= current.window_end => return Ok(()),
            Stop::Time { .. } | Stop::Burst { .. } => true,
            Stop::Fill { .. } if lane.left == 0 && !self.setup.virtual_time => false,
            _ if lane.left == 0 => return Ok(()),
            _ => true,
        };
        self.send(slot, now, now, counted)
    }

    /// Issue the next I/O of the slot's lane, which was due at `due`.
    #[inline(always)]
    fn send(&mut self, slot: u32, due: Nanos, now: Nanos, counted: bool) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let entry = &mut self.slots[slot as usize];
        let lane = &mut self.lanes[entry.lane as usize];
        let mut request = lane.stream.next_announced(|request| self.device.expect(request));
        match current.plan.stop {
            Stop::Ios { .. } => lane.left -= 1,
            Stop::Bytes { .. } | Stop::Fill { .. } if counted => {
                request.bytes = request.bytes.min(Bytes(lane.left));
                lane.left -= request.bytes.0;
            }
            _ => {}
        }
        self.device.submit(slot, &request)?;
        if counted && let Some(recorder) = &mut current.recorder {
            if recorder.counts_draws() {
                recorder.count_draw(lane.stream.last_draw());
            }
            if self.open_loop {
                recorder.record_lateness(now.since(due));
            }
            current.pending += 1;
            current.submitted_ios += 1;
            current.first_submit.get_or_insert(now);
        } else {
            self.bridge_ios += 1;
        }
        self.outstanding += 1;
        if let Some(log) = &mut self.log {
            log.submitted(slot, now);
        }
        entry.busy = true;
        entry.step = counted.then_some(current.plan.number);
        entry.operation = request.operation;
        (entry.bytes, entry.lba, entry.due) = (request.bytes, request.lba.0, due);
        Ok(())
    }

    /// Record what completed; issue again in its place unless draining.
    fn take_completions(&mut self, reissue: bool) -> Result<(), Error> {
        self.open_in_turn();
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let slot = &mut self.slots[completion.slot as usize];
            assert!(slot.busy, "a completion belongs to an I/O that is outstanding");
            slot.busy = false;
            self.outstanding -= 1;
            self.last_completion = Some(completion.at);
            if let Some(log) = &mut self.log {
                log.completed(completion.slot, Row::of(slot, self.setup.first_thread, &completion));
            }
            if slot.operation == Operation::Write && completion.result.is_ok() {
                self.written_bytes += slot.bytes.0;
            }
            let own = self.current.as_mut().filter(|current| slot.step == Some(current.plan.number));
            if let Some(current) = own {
                current.pending -= 1;
                let recorder = current.recorder.as_mut().expect("a step with an I/O to come is not reported");
                match completion.result {
                    Ok(()) => recorder.record(slot.operation, slot.bytes, slot.due, completion.at),
                    Err(errno) => {
                        recorder.record_error(slot.operation, errno, slot.lba);
                        if current.plan.stop_on_error {
                            self.shared.ask_to_stop(StopReason::IoError);
                        }
                    }
                }
            } else {
                if let Err(errno) = completion.result {
                    let (operation, first_lba) = (slot.operation, slot.lba);
                    self.bridge_errors.push(ErrorTally { operation, errno, ios: 1, first_lba });
                }
                self.foreign_returned(completion.at);
            }
            match reissue {
                true if self.open_loop => self.release(completion.slot),
                true => self.issue(completion.slot, completion.at)?,
                false => {}
            }
        }
        self.done = done;
        if let Some(current) = self.current.as_mut().filter(|current| current.held && current.open) {
            current.held = false;
            let now = self.device.now();
            self.fill(now)?;
        }
        Ok(())
    }

    fn report_if_finished(&mut self) {
        let Some(current) = &mut self.current else { return };
        if current.reported {
            return;
        }
        let now = self.last_completion.map_or(current.began, |at| at.max(current.began));
        self.mailbox.ios.store(current.recorder.as_ref().map_or(0, |recorder| recorder.ios()), Ordering::Relaxed);
        self.mailbox.elapsed_ns.store(now.since(current.began), Ordering::Relaxed);
        if current.pending > 0 {
            return;
        }
        let stopped = self.shared.reason() != StopReason::Complete;
        let issued_all = match current.plan.stop {
            Stop::Time { .. } | Stop::Burst { .. } if self.open_loop => current.given_up,
            Stop::Time { .. } | Stop::Burst { .. } => {
                self.lanes.iter().all(|lane| !lane.active) || self.device.now() >= current.window_end
            }
            _ => self.lanes.iter().all(|lane| !lane.active || lane.left == 0),
        };
        if !issued_all && !stopped {
            return;
        }
        let timed = current.plan.stop.window_ns().is_some();
        if !current.open {
            current.open(now);
        }
        let window_end = if timed && !stopped { current.window_end } else { now };
        if self.open_loop && timed {
            self.give_up_before(window_end);
        }
        let Some(current) = &mut self.current else { return };
        let Some(mut recorder) = current.recorder.take() else { return };
        recorder.finish(window_end);
        let returned = recorder.ios() + recorder.handover_ios + recorder.error_ios();
        assert_eq!(current.submitted_ios, returned, "submitted = completed + failed");
        recorder.add_errors(&std::mem::take(&mut self.bridge_errors));
        current.reported = true;
        let recorder_start = recorder.start();
        let report = WorkerReport {
            recorder,
            submitted_ios: current.submitted_ios,
            missed_ios: current.missed_ios,
            bridge_ios: current.bridge_ios_before,
            written_bytes: std::mem::take(&mut self.written_bytes),
            before: current.before,
            first_submit: current.first_submit,
            handover_ns: recorder_start.since(current.began),
            window_end,
            conditions: self.device.conditions(),
        };
        self.reply(Reply::Step(Box::new(report)));
        self.log.iter_mut().for_each(LogEnd::flush);
    }
}
