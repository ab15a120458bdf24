//! A log of every I/O, on request: rows go from the workers to one reader in batches, through a queue of bounded length.
//!
//! On a real device a worker never waits for the reader: what the queue has no room for is dropped, and counted. In
//! virtual time it waits, since that disturbs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::device::Completion;
use super::progress::Slot;
use crate::units::{Bytes, Nanos};
use crate::workload::Operation;

/// Rows of a full batch.
const BATCH_ROWS: usize = 1 << 15;
/// Rows that may wait for the reader, in batches full or not: 48 MiB.
const WAITING_ROWS: u64 = 24 * BATCH_ROWS as u64;
/// Places in the queue: for full batches, and for each worker's small ones, of a step's end or because they are old.
const FULL_BATCHES: usize = 24;
const SMALL_BATCHES: usize = 32;
/// A batch is handed over when its first row is so old, full or not.
const OLDEST_NS: u64 = 500_000_000;

/// One I/O. Times are of the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Number of the step that counts it, from 1 since the log began; 0: of none, it kept the device loaded between two.
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

/// Rows handed over and not taken yet, and rows that found no room.
#[derive(Debug, Default)]
struct Count {
    waiting: AtomicU64,
    dropped: AtomicU64,
}

/// A worker's end.
#[derive(Debug)]
pub struct LogEnd {
    rows: Vec<Row>,
    /// When the I/O in each slot was submitted.
    submitted: Vec<Nanos>,
    batches: SyncSender<Vec<Row>>,
    count: Arc<Count>,
    waits: bool,
    steps_before: u64,
}

/// The reader's end.
#[derive(Debug)]
pub struct LogReader {
    batches: Receiver<Vec<Row>>,
    count: Arc<Count>,
}

/// What a reader has got.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Rows(Vec<Row>),
    NothingYet,
    /// All workers are gone, and there will be no more.
    End,
}

/// Ends for so many workers. `waits`: a worker waits for room in the queue. `steps_before`: the session has had so many.
pub fn open(workers: usize, waits: bool, steps_before: u64) -> (Vec<LogEnd>, LogReader) {
    let (sender, batches) = sync_channel(FULL_BATCHES + if waits { 0 } else { SMALL_BATCHES * workers });
    let count = Arc::new(Count::default());
    let end = |_| LogEnd {
        rows: Vec::with_capacity(BATCH_ROWS),
        submitted: vec![],
        batches: sender.clone(),
        count: Arc::clone(&count),
        waits,
        steps_before,
    };
    ((0..workers).map(end).collect(), LogReader { batches, count })
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
        self.rows.push(Row { submitted, step: row.step.saturating_sub(self.steps_before), ..row });
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
        // A small batch does not take a large one's memory along.
        let rows = if self.rows.len() < BATCH_ROWS / 4 {
            let rows = self.rows.clone();
            self.rows.clear();
            rows
        } else {
            std::mem::replace(&mut self.rows, Vec::with_capacity(BATCH_ROWS))
        };
        let count = rows.len() as u64;
        // Counted before they can be taken. A reader that is gone has no use for them either.
        let waiting = self.count.waiting.fetch_add(count, Ordering::AcqRel) + count;
        let taken = if self.waits {
            self.batches.send(rows).is_ok()
        } else {
            waiting <= WAITING_ROWS && self.batches.try_send(rows).is_ok()
        };
        if !taken {
            self.count.waiting.fetch_sub(count, Ordering::AcqRel);
            self.count.dropped.fetch_add(count, Ordering::Relaxed);
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
            Ok(rows) => {
                self.count.waiting.fetch_sub(rows.len() as u64, Ordering::AcqRel);
                Taken::Rows(rows)
            }
            Err(RecvTimeoutError::Timeout) => Taken::NothingYet,
            Err(RecvTimeoutError::Disconnected) => Taken::End,
        }
    }

    /// Rows that found no room.
    pub fn dropped(&self) -> u64 {
        self.count.dropped.load(Ordering::Relaxed)
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
        let (mut ends, reader) = open(1, false, 0);
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
        let (mut ends, reader) = open(1, false, 0);
        let rows = WAITING_ROWS + BATCH_ROWS as u64 * 3;
        (0..rows).for_each(|number| log(&mut ends[0], number));
        assert_eq!(reader.dropped(), BATCH_ROWS as u64 * 3);
        drop(ends);
        let mut kept = 0;
        while let Taken::Rows(batch) = reader.take(Duration::ZERO) {
            kept += batch.len() as u64;
        }
        assert_eq!(kept + reader.dropped(), rows);
    }

    /// A step of many threads ends with a small batch of each, several times before the reader looks.
    #[test]
    fn small_batches_of_many_workers_find_room() {
        let (mut ends, reader) = open(32, false, 0);
        for number in 0..20 {
            for end in &mut ends {
                log(end, number);
                end.flush();
            }
        }
        assert_eq!(reader.dropped(), 0);
        drop(ends);
        let mut kept = 0;
        while let Taken::Rows(batch) = reader.take(Duration::ZERO) {
            kept += batch.len();
        }
        assert_eq!(kept, 20 * 32);
    }

    /// What was taken makes room again.
    #[test]
    fn room_comes_back() {
        let (mut ends, reader) = open(1, false, 0);
        for number in 0..3 * WAITING_ROWS {
            log(&mut ends[0], number);
            if number % BATCH_ROWS as u64 == 0 {
                reader.take(Duration::ZERO);
            }
        }
        assert_eq!(reader.dropped(), 0);
    }

    #[test]
    fn an_old_row_does_not_wait_for_a_full_batch() {
        let (mut ends, reader) = open(1, false, 0);
        log(&mut ends[0], 0);
        assert_eq!(reader.take(Duration::ZERO), Taken::NothingYet);
        log(&mut ends[0], OLDEST_NS + 1);
        assert!(matches!(reader.take(Duration::ZERO), Taken::Rows(rows) if rows.len() == 2));
    }

    #[test]
    fn an_io_from_before_the_log_is_not_in_it() {
        let (mut ends, reader) = open(1, false, 0);
        ends[0].completed(3, row(5));
        drop(ends);
        assert_eq!(reader.take(Duration::ZERO), Taken::End);
    }
}
