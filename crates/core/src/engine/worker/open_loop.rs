//! The open loop: I/Os are issued when they are due, whatever the device does.
//!
//! What is due while the queue is full waits, and goes out as soon as a slot is free; its latency counts from when it
//! was due. What is still waiting when the window ends is not issued: it is counted as intended, and that is all.

use super::{HANDOVER_LIMIT_NS, Worker};
use crate::engine::device::Device;
use crate::engine::protocol::{StepPlan, StopReason};
use crate::error::Error;
use crate::units::Nanos;
use crate::workload::Stop;

/// A real device is not waited for longer than this: the next step may be there, and its first I/O due.
const LONGEST_WAIT_NS: u64 = 1_000_000;

impl<D: Device> Worker<D> {
    /// Begin the plan's schedule, if it has one, with what slots are free.
    pub(super) fn schedule(&mut self, plan: &StepPlan, now: Nanos) {
        let active = self.lanes.iter().any(|lane| lane.active);
        self.open_loop = plan.stimulus.rate.is_some() && active;
        let Some(rate) = plan.stimulus.rate else { return };
        for lane in &mut self.lanes {
            lane.free.clear();
            lane.arrivals.begin(rate, plan.stimulus.thread_count, plan.origin.unwrap_or(now));
        }
        for (number, slot) in self.slots.iter().enumerate().rev() {
            if !slot.busy && slot.depth < plan.stimulus.queue_depth {
                self.lanes[slot.lane as usize].free.push(number as u32);
            }
        }
    }

    /// A slot of the open loop is free again.
    #[inline]
    pub(super) fn release(&mut self, slot: u32) {
        let entry = &self.slots[slot as usize];
        let depth = self.current.as_ref().map_or(0, |current| current.plan.stimulus.queue_depth);
        if entry.depth < depth {
            self.lanes[entry.lane as usize].free.push(slot);
        }
    }

    /// Issue what is due, as far as there are slots. After the window's end what could not be issued is given up.
    pub(super) fn issue_due(&mut self) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let mut now = self.device.now();
        current.held = !current.open && now.since(current.began) > HANDOVER_LIMIT_NS;
        if current.held || self.shared.reason() != StopReason::Complete {
            return Ok(());
        }
        let (timed, end) = (current.plan.stop.window_ns().is_some(), current.window_end);
        let over = timed && now >= end;
        for index in 0..self.lanes.len() {
            while let Some((due, counted)) = self.due(index)
                && due <= now
                && let Some(slot) = self.lanes[index].free.pop()
            {
                self.lanes[index].arrivals.take();
                self.send(slot, due, now, counted)?;
                now = self.device.now();
            }
        }
        if over {
            self.give_up_before(end);
        }
        Ok(())
    }

    /// When the lane's next I/O is due, and whether it counts; `None` when there is none to come.
    #[inline]
    fn due(&self, lane: usize) -> Option<(Nanos, bool)> {
        let (lane, current) = (&self.lanes[lane], self.current.as_ref()?);
        let due = lane.arrivals.next();
        match current.plan.stop {
            _ if !lane.active => None,
            Stop::Burst { .. } if due >= current.window_end => None,
            Stop::Time { .. } | Stop::Burst { .. } => Some((due, due < current.window_end)),
            Stop::Fill { .. } if !self.setup.virtual_time => Some((due, lane.left > 0)),
            _ => (lane.left > 0).then_some((due, true)),
        }
    }

    /// How long the device may be waited for, at most.
    pub(super) fn next_due(&self, now: Nanos) -> Nanos {
        let lanes = (0..self.lanes.len()).filter(|&lane| !self.lanes[lane].free.is_empty());
        let next = lanes.filter_map(|lane| self.due(lane)).map(|(due, _)| due).min().unwrap_or(Nanos::MAX);
        if self.setup.virtual_time { next } else { next.min(Nanos(now.0 + LONGEST_WAIT_NS)) }
    }

    /// Whether the device is left alone from now on, since nothing more is due.
    pub(super) fn nothing_to_come(&self) -> bool {
        let reported = self.current.as_ref().is_none_or(|current| current.reported);
        reported && (0..self.lanes.len()).all(|lane| self.due(lane).is_none())
    }

    /// Count what was due before then as intended, and do not issue it any more.
    pub(super) fn give_up_before(&mut self, end: Nanos) {
        let Some(current) = self.current.as_mut().filter(|current| !current.given_up) else { return };
        current.given_up = true;
        for lane in self.lanes.iter_mut().filter(|lane| lane.active) {
            while lane.arrivals.next() < end {
                lane.arrivals.take();
                current.missed_ios += 1;
            }
        }
    }
}
