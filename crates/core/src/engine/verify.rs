//! Reading back what was written with sealed stamps (`stamp`), and judging it.
//!
//! A `Ledger` knows which write each sector should have, as long as writes that overlap were not outstanding together:
//! of those either may be the last. It takes 8 bytes of memory for each 512 on the device, so large devices do without;
//! then a lost write shows only where nothing was ever written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device::{Completion, Conditions, Control, Device};
use super::stamp::{self, COUNTER_BITS, Origin, SECTOR_BYTES, Stamp};
use super::uring::arena;
use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Lba, Nanos};
use crate::workload::{Operation, Request};

/// What was found, in sectors of 512 bytes; each is in one class only. `first_bad`: the lowest LBA that does not match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Findings {
    pub sectors: u64,
    /// As written.
    pub intact: u64,
    /// Not known to have been written: zero, or known not to have been.
    pub unwritten: u64,
    /// Neither zero nor as any write left it.
    pub corrupt: u64,
    /// Written for another LBA.
    pub misdirected: u64,
    /// Of an older write, or zero, where a newer one was acknowledged.
    pub lost: u64,
    /// Sealed by another run.
    pub foreign: u64,
    /// Sectors of which it is known which write they must have.
    pub known: u64,
    pub first_bad: Option<u64>,
}

impl Findings {
    /// Sectors that are not as they must be.
    pub fn bad(&self) -> u64 {
        self.corrupt + self.misdirected + self.lost + self.foreign
    }

    pub fn add(&mut self, other: &Self) {
        self.sectors += other.sectors;
        self.intact += other.intact;
        self.unwritten += other.unwritten;
        self.corrupt += other.corrupt;
        self.misdirected += other.misdirected;
        self.lost += other.lost;
        self.foreign += other.foreign;
        self.known += other.known;
        self.first_bad = self.first_bad.into_iter().chain(other.first_bad).min();
    }
}

/// What a sector should hold, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Unknown,
    Never,
    Write(u64),
}

/// Judge `data`, whole sectors read from `lba` on.
pub fn judge(data: &[u8], lba: Lba, seed: u64, expected: impl Fn(u64) -> Expected) -> Findings {
    let mut found = Findings::default();
    for (sector, lba) in data.chunks_exact(SECTOR_BYTES).zip(lba.0..) {
        let wanted = expected(lba);
        let zero = sector.iter().all(|&byte| byte == 0);
        let class = match stamp::open(sector) {
            _ if zero && matches!(wanted, Expected::Write(_)) => &mut found.lost,
            _ if zero => &mut found.unwritten,
            // What was there before the run.
            None if wanted == Expected::Never => &mut found.unwritten,
            Some(stamp) if wanted == Expected::Never && stamp.seed != seed => &mut found.unwritten,
            None => &mut found.corrupt,
            Some(stamp) if stamp.seed != seed => &mut found.foreign,
            Some(stamp) if stamp.lba != lba => &mut found.misdirected,
            Some(Stamp { sequence, .. }) => match wanted {
                Expected::Write(newest) if newest != sequence => &mut found.lost,
                _ => &mut found.intact,
            },
        };
        *class += 1;
        found.sectors += 1;
        found.known += u64::from(wanted != Expected::Unknown);
        if found.bad() > 0 {
            found.first_bad.get_or_insert(lba);
        }
    }
    found
}

const OUTSTANDING: u64 = 1 << 63;
const IN_DOUBT: u64 = 1 << 62;
/// Threads that fit beside the two marks.
const MOST_THREADS: u32 = 1 << (62 - COUNTER_BITS);

/// For each sector the sequence number of the write submitted last, and whether it is outstanding, or was together
/// with another one.
#[derive(Debug)]
pub struct Ledger {
    sectors: Vec<AtomicU64>,
}

impl Ledger {
    /// The largest range worth a ledger, which then takes a GiB.
    pub const MOST: Bytes = Bytes(64 << 30);

    pub fn new(range: Bytes) -> Self {
        Self { sectors: (0..range.0 / SECTOR_BYTES as u64).map(|_| AtomicU64::new(0)).collect() }
    }

    fn of(&self, lba: Lba, bytes: Bytes) -> &[AtomicU64] {
        &self.sectors[lba.0 as usize..][..bytes.0 as usize / SECTOR_BYTES]
    }

    /// A write is submitted.
    pub fn submitted(&self, lba: Lba, bytes: Bytes, sequence: u64) {
        for sector in self.of(lba, bytes) {
            let next = |old: u64| {
                // Once in doubt, always: which of the two came last, and whether the other is still under way, stays
                // unknown.
                let doubt = if old & OUTSTANDING != 0 { IN_DOUBT } else { old & IN_DOUBT };
                Some(sequence | OUTSTANDING | doubt)
            };
            let _ = sector.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        }
    }

    /// A write was acknowledged; or it failed, and may or may not have reached the device.
    pub fn completed(&self, lba: Lba, bytes: Bytes, sequence: u64, success: bool) {
        for sector in self.of(lba, bytes) {
            let next = |old: u64| {
                let doubt = if success { old & IN_DOUBT } else { IN_DOUBT };
                let newest = old & !(OUTSTANDING | IN_DOUBT);
                let outstanding = if newest == sequence { 0 } else { old & OUTSTANDING };
                Some(newest | outstanding | doubt)
            };
            let _ = sector.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        }
    }

    /// The sector was discarded, or the device purged.
    pub fn forget(&self) {
        self.sectors.iter().for_each(|sector| sector.store(0, Ordering::Release));
    }

    pub fn expected(&self, lba: u64) -> Expected {
        match self.sectors[lba as usize].load(Ordering::Acquire) {
            0 => Expected::Never,
            entry if entry & (OUTSTANDING | IN_DOUBT) != 0 => Expected::Unknown,
            sequence => Expected::Write(sequence),
        }
    }
}

/// A device whose writes are entered in a ledger, under the numbers that their data carries.
pub struct Ledgered<D> {
    device: D,
    ledger: Option<Arc<Ledger>>,
    origin: Origin,
    writes: Vec<Option<(Lba, Bytes, u64)>>,
}

impl<D: Device> Ledgered<D> {
    /// `device` must number its thread's writes from 1 in the order in which they are submitted.
    /// Without a ledger it does nothing.
    pub fn new(device: D, ledger: Option<Arc<Ledger>>, thread: u32, slots: u32) -> Result<Self, TargetError> {
        if thread >= MOST_THREADS {
            return Err(TargetError::NotSupported(format!("writes of at most {MOST_THREADS} threads can be verified")));
        }
        Ok(Self { device, ledger, origin: Origin::new(thread, 0), writes: vec![None; slots as usize] })
    }
}

impl<D: Device> Device for Ledgered<D> {
    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn expect(&mut self, request: &Request) {
        self.device.expect(request);
    }

    fn get_ready(&mut self) -> bool {
        self.device.get_ready()
    }

    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        if let Some(ledger) = &self.ledger
            && request.operation == Operation::Write
        {
            let write = (request.lba, request.bytes, self.origin.next());
            ledger.submitted(write.0, write.1, write.2);
            self.writes[slot as usize] = Some(write);
        }
        self.device.submit(slot, request)
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        let before = done.len();
        self.device.wait(until, done)?;
        let Some(ledger) = &self.ledger else { return Ok(()) };
        for completion in &done[before..] {
            if let Some((lba, bytes, sequence)) = self.writes[completion.slot as usize].take() {
                ledger.completed(lba, bytes, sequence, completion.result.is_ok());
            }
        }
        Ok(())
    }

    fn set_entropy(&mut self, percent: u8) {
        self.device.set_entropy(percent);
    }

    fn conditions(&mut self) -> Option<Conditions> {
        self.device.conditions()
    }

    fn control(&mut self, control: Control) -> Result<(), Error> {
        self.device.control(control)
    }
}

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Reads back a device or file that nobody writes to, past the page cache, and judges it.
pub struct Verifier {
    file: File,
    path: String,
    range: Bytes,
    seed: u64,
    ledger: Option<Arc<Ledger>>,
}

impl Verifier {
    /// Opens for reading only. `range` must be whole logical blocks.
    pub fn open(path: &Path, range: Bytes, seed: u64) -> Result<Self, DeviceError> {
        let context = || path.display().to_string();
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = file.map_err(|error| DeviceError::from_io(context(), &error))?;
        Ok(Self { file, path: context(), range, seed, ledger: None })
    }

    /// Judge by what is known of each sector's last write.
    pub fn with(mut self, ledger: Option<Arc<Ledger>>) -> Self {
        self.ledger = ledger;
        self
    }

    pub fn range(&self) -> Bytes {
        self.range
    }

    /// Read and judge `bytes` from `start` on, or up to the end of the range; both whole logical blocks.
    pub fn verify(&self, start: Bytes, bytes: Bytes) -> Result<Findings, DeviceError> {
        let failed =
            |at: u64, error: &io::Error| DeviceError::from_io(format!("{}: read at byte {at}", self.path), error);
        let mut buffer = arena(CHUNK).map_err(|error| failed(start.0, &error))?;
        let mut found = Findings::default();
        let end = self.range.0.min(start.0.saturating_add(bytes.0));
        let mut at = start.0;
        while at < end {
            let length = CHUNK.min((end - at) as usize);
            let part = &mut buffer[..length];
            self.file.read_exact_at(part, at).map_err(|error| failed(at, &error))?;
            let expected = |lba| self.ledger.as_ref().map_or(Expected::Unknown, |ledger| ledger.expected(lba));
            found.add(&judge(part, Lba::from_bytes(Bytes(at)), self.seed, expected));
            at += length as u64;
        }
        Ok(found)
    }
}
