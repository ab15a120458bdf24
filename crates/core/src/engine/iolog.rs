//! A log of every I/O, on request: rows go from the workers to one reader in batches, through a queue of bounded length.
//!
//! On a real device a worker never waits for the reader: what the queue has no room for is dropped, and counted. In
//! virtual time it waits, since that disturbs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::device::Completion;
use super::progress::Slot;
use crate::units::{Bytes, Nanos};
use crate::workload::Operation;

/// Rows of a batch; with `QUEUED_BATCHES`, all that may wait: 48 MiB.
const BATCH_ROWS: usize = 1 << 15;
const QUEUED_BATCHES: usize = 24;
/// A batch is handed over when its first row is so old, full or not.
const OLDEST_NS: u64 = 500_000_000;

/// One I/O. Times are of the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Number of the session's step that counts it, from 1; 0: of none, it kept the device loaded between two.
    pub step: u64,
    pub thread: u32,
    pub operation: Operation,
    pub lba: u64,
    pub bytes: Bytes,
    /// When it was to be issued; in a closed loop that is when it was.
    pub intended: Nanos,
    pub submitted: Nanos,
    pub completed: Nanos,
    /// 0: it succeeded.
    pub errno: i32,
}

impl Row {
    /// What the worker whose lanes begin with `first_thread` knows of an I/O that returned.
    pub(super) fn of(slot: &Slot, first_thread: u32, completion: &Completion) -> Self {
        Self {
            step: slot.step.unwrap_or(0),
            thread: first_thread + slot.lane,
            operation: slot.operation,
            lba: slot.lba,
            bytes: slot.bytes,
            intended: slot.due,
            submitted: slot.due,
            completed: completion.at,
            errno: completion.result.err().unwrap_or(0),
        }
    }
}

/// A worker's end.
#[derive(Debug)]
pub struct LogEnd {
    rows: Vec<Row>,
    /// When the I/O in each slot was submitted.
    submitted: Vec<Nanos>,
    batches: SyncSender<Vec<Row>>,
    dropped: Arc<AtomicU64>,
    waits: bool,
}

/// The reader's end.
#[derive(Debug)]
pub struct LogReader {
    batches: Receiver<Vec<Row>>,
    dropped: Arc<AtomicU64>,
}

/// What a reader has got.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Rows(Vec<Row>),
    NothingYet,
    /// All workers are gone, and there will be no more.
    End,
}

/// Ends for so many workers. `waits`: a worker waits for room in the queue.
pub fn open(workers: usize, waits: bool) -> (Vec<LogEnd>, LogReader) {
    let (sender, batches) = sync_channel(QUEUED_BATCHES);
    let dropped = Arc::new(AtomicU64::new(0));
    let end = |_| LogEnd {
        rows: Vec::with_capacity(BATCH_ROWS),
        submitted: vec![],
        batches: sender.clone(),
        dropped: Arc::clone(&dropped),
        waits,
    };
    ((0..workers).map(end).collect(), LogReader { batches, dropped })
}

impl LogEnd {
    #[inline]
    pub fn submitted(&mut self, slot: u32, at: Nanos) {
        let slot = slot as usize;
        if slot >= self.submitted.len() {
            self.submitted.resize(slot + 1, Nanos::MAX);
        }
        self.submitted[slot] = at;
    }

    /// An I/O has returned; its `submitted` is filled in here. One that was submitted before the log began is not in it.
    #[inline]
    pub fn completed(&mut self, slot: u32, row: Row) {
        let Some(submitted) = self.submitted.get(slot as usize).copied().filter(|at| *at != Nanos::MAX) else { return };
        self.rows.push(Row { submitted, ..row });
        let old = !self.waits && row.completed.since(self.rows[0].completed) > OLDEST_NS;
        if self.rows.len() == BATCH_ROWS || old {
            self.flush();
        }
    }

    /// Hand over what there is.
    pub fn flush(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(BATCH_ROWS));
        let count = rows.len() as u64;
        // A reader that is gone has no use for them either.
        let taken = if self.waits {
            self.batches.send(rows).is_ok()
        } else {
            !matches!(self.batches.try_send(rows), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
        };
        if !taken {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogReader {
    /// The next batch; waits so long at most.
    pub fn take(&self, timeout: Duration) -> Taken {
        match self.batches.recv_timeout(timeout) {
            Ok(rows) => Taken::Rows(rows),
            Err(RecvTimeoutError::Timeout) => Taken::NothingYet,
            Err(RecvTimeoutError::Disconnected) => Taken::End,
        }
    }

    /// Rows that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> Row {
        Row {
            step: 1,
            thread: 0,
            operation: Operation::Write,
            lba: number,
            bytes: Bytes(512),
            intended: Nanos(number),
            submitted: Nanos(0),
            completed: Nanos(number + 10),
            errno: 0,
        }
    }

    fn log(end: &mut LogEnd, number: u64) {
        end.submitted(0, Nanos(number));
        end.completed(0, row(number));
    }

    #[test]
    fn rows_arrive_in_order_and_the_end_is_told() {
        let (mut ends, reader) = open(1, false);
        let mut end = ends.pop().unwrap();
        assert_eq!(reader.take(Duration::ZERO), Taken::NothingYet);
        let rows = BATCH_ROWS as u64 * 2 + 13;
        (0..rows).for_each(|number| log(&mut end, number));
        drop(end);
        let mut found = vec![];
        while let Taken::Rows(batch) = reader.take(Duration::ZERO) {
            found.extend(batch);
        }
        assert_eq!(reader.take(Duration::ZERO), Taken::End);
        assert!(found.iter().map(|row| row.lba).eq(0..rows));
        assert!(found.iter().all(|row| row.submitted.0 == row.lba));
        assert_eq!(reader.dropped(), 0);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let (mut ends, reader) = open(1, false);
        let rows = (BATCH_ROWS * (QUEUED_BATCHES + 3)) as u64;
        (0..rows).for_each(|number| log(&mut ends[0], number));
        assert_eq!(reader.dropped(), BATCH_ROWS as u64 * 3);
        drop(ends);
        let mut kept = 0;
        while let Taken::Rows(batch) = reader.take(Duration::ZERO) {
            kept += batch.len() as u64;
        }
        assert_eq!(kept + reader.dropped(), rows);
    }

    #[test]
    fn an_old_row_does_not_wait_for_a_full_batch() {
        let (mut ends, reader) = open(1, false);
        log(&mut ends[0], 0);
        assert_eq!(reader.take(Duration::ZERO), Taken::NothingYet);
        log(&mut ends[0], OLDEST_NS + 1);
        assert!(matches!(reader.take(Duration::ZERO), Taken::Rows(rows) if rows.len() == 2));
    }

    #[test]
    fn an_io_from_before_the_log_is_not_in_it() {
        let (mut ends, reader) = open(1, false);
        ends[0].completed(3, row(5));
        drop(ends);
        assert_eq!(reader.take(Duration::ZERO), Taken::End);
    }
}
