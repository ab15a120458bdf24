//! A block device or file driven by io_uring, one ring per engine thread.
//!
//! The device's file and all buffers are registered, I/Os are READ_FIXED and WRITE_FIXED. They are handed over in
//! fours (neighbours on the device in twos, so that the kernel does not merge them), the rest by the one io_uring_enter
//! of `wait` that also collects what completed. See io_uring(7).
//!
//! What reads return is discarded, so all reads of a thread land in one buffer; but not where something on the way
//! checks what was read (protection information, btrfs checksums), since two reads into the same memory would spoil
//! each other: there each slot has its own. Writes in flight differ from each other, so each has a buffer of its own. Buffers are filled and registered, and so locked, when they are first used, and only as much as is used: a long
//! queue of large blocks on many threads would take seconds and gigabytes. The first ones are made ready while
//! a thread has nothing else to do, so that a step's first I/Os do not wait for them; the others follow meanwhile.
//!
//! Limits: Linux 5.11; 8192 slots; blocks up to 1 GiB. `unsafe` code is in this file, `uring/ring.rs`,
//! `uring/nop.rs` and `uring/thread.rs`.

#![allow(unsafe_code)]

mod nop;
mod pattern;
mod ring;
mod rotation;
mod target;
mod thread;

use std::fs::File;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::types::Fixed;
use io_uring::{opcode, squeue};
use memmap2::MmapMut;

pub use self::nop::NopDevice;
pub(super) use self::pattern::{WriteData, arena};
use self::ring::Ring;
pub use self::target::Target;
pub(super) use self::thread::run_promptly;
use super::clock::{monotonic, rest};
use super::device::{Completion, Device};
use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Nanos};
use crate::workload::{Operation, Request};

/// The target's index among the ring's registered files.
const FILE: Fixed = Fixed(0);
/// The kernel registers at most 2^14 buffers, and each slot may have two.
const MOST_SLOTS: u32 = 1 << 13;
/// The kernel's limit for one registered buffer.
const LARGEST_BLOCK: u64 = 1 << 30;
const PAGE: u64 = 4096;
const HUGE_PAGE: usize = 2 << 20;
/// Bytes of buffers, of all threads together, that are made ready beforehand.
const AHEAD: usize = 16 << 20;
/// I/Os handed over by one call. With all that completed together resubmitted together, host and device take
/// turns: a virtio disk did 0.8 of what it does with 4 (queue depth 32), and no more with 1.
const BATCH: usize = 4;
/// So many, handed over by one call, the kernel gives to the device one by one. More it collects first, and makes one
/// of those that are neighbours on the device (IO_PLUG_THRESHOLD in its io_uring.c).
const NEVER_MERGED: u32 = 2;

/// One thread's ring on a target. It stays on the thread that made it.
pub struct UringDevice {
    ring: Ring,
    target: Arc<Target>,
    /// Released only once the kernel is done with them.
    reads: ManuallyDrop<MmapMut>,
    writes: ManuallyDrop<WriteData>,
    reads_start: *mut u8,
    writes_start: *mut u8,
    /// Bytes from one slot's read buffer to the next; 0 where all slots share one.
    stride: usize,
    max_block: Bytes,
    /// Registered bytes of each buffer, those of the reads first.
    registered: Vec<Registered>,
    read_buffers: usize,
    /// First and next sector of what is queued.
    queued: [(u64, u64); BATCH],
    neighbours: bool,
    /// Write buffers to be made ready beforehand, and how many of them are; with each the slot's read buffer.
    ahead: usize,
    ready: usize,
    /// A buffer was made ready, which takes a while: the device is not to wait for the next one as well.
    hurry: bool,
}

/// How much of a buffer is registered with the ring, or that it cannot be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Registered {
    Bytes(usize),
    Refused,
}

impl UringDevice {
    /// A ring for slots 0..`max_queue_depth` and I/Os up to `max_block`. To be called on the thread that will
    /// use it. `thread` and `seed` make its write data differ from that of other threads.
    pub fn new(
        target: &Arc<Target>,
        thread: u32,
        max_queue_depth: u32,
        max_block: Bytes,
        seed: u64,
    ) -> Result<Self, Error> {
        assert!(max_queue_depth > 0 && max_block.0 > 0, "a device holds at least one I/O");
        if max_queue_depth > MOST_SLOTS || max_block.0 > LARGEST_BLOCK {
            let asked = format!("queue depth {max_queue_depth} with blocks up to {} bytes", max_block.0);
            let limit = format!("a thread can have a queue depth of {MOST_SLOTS} and blocks up to {LARGEST_BLOCK}");
            return Err(TargetError::NotSupported(format!("{asked}: {limit} bytes; use more threads")).into());
        }
        let slots = max_queue_depth as usize;
        let block = max_block.0.next_multiple_of(PAGE) as usize;
        let (read_buffers, stride) = if target.checks_reads() { (slots, block) } else { (1, 0) };
        let no_memory = |error: io::Error| {
            let cure = "lower the queue depth, the thread count or the largest block size";
            target.unusable(format!("no memory for 2 * {} bytes of buffers: {error}", slots * block), cure)
        };
        // Whole huge pages: an I/O of many small ones is more segments than some devices take at once.
        let huge = if block >= HUGE_PAGE / 16 { HUGE_PAGE } else { block };
        let mut reads = pattern::arena((read_buffers * block).next_multiple_of(huge)).map_err(no_memory)?;
        let mut writes = WriteData::new(slots, block, thread, seed).map_err(no_memory)?;
        let (reads_start, writes_start) = (reads.as_mut_ptr(), writes.start());
        let ring = Ring::open(max_queue_depth).map_err(|error| explain(target, &error))?;
        if !ring.ring.params().is_feature_ext_arg() {
            let problem = "this kernel's io_uring has no timed wait";
            return Err(target.unusable(problem, "use Linux 5.11 or later").into());
        }
        let submitter = ring.ring.submitter();
        submitter.register_files(&[target.fd()]).map_err(|error| explain(target, &error))?;
        // A table of buffers that are registered when first used: so much memory is never touched, let alone locked,
        // as a long queue of large blocks would need at once. A kernel before 5.19 has none; I/O does without then.
        let table = submitter.register_buffers_sparse((read_buffers + slots) as u32);
        let none = if table.is_ok() { Registered::Bytes(0) } else { Registered::Refused };
        run_promptly();
        Ok(Self {
            ring,
            target: Arc::clone(target),
            reads: ManuallyDrop::new(reads),
            writes: ManuallyDrop::new(writes),
            reads_start,
            writes_start,
            stride,
            max_block,
            registered: vec![none; read_buffers + slots],
            read_buffers,
            queued: [(0, 0); BATCH],
            neighbours: false,
            ahead: 1,
            ready: 0,
            hurry: false,
        })
    }

    /// It is one of so many: their buffers are made ready beforehand in equal shares.
    pub fn one_of(mut self, threads: u32) -> Self {
        let block = self.max_block.0.next_multiple_of(PAGE) as usize;
        self.ahead = (AHEAD / threads as usize / block).min(self.registered.len() - self.read_buffers);
        self
    }

    /// From now on what it writes can be verified (`super::verify`).
    pub fn verifiable(mut self) -> Self {
        self.writes.make_verifiable();
        self
    }

    /// I/Os submitted and not yet completed.
    pub fn in_flight(&self) -> u64 {
        self.ring.in_flight()
    }

    /// A request outside the target, or larger than the buffers, is a bug: it could destroy what it must not.
    #[inline]
    fn check(&self, request: &Request) -> Result<(), DeviceError> {
        let (offset, bytes) = (request.lba.to_bytes().0, request.bytes.0);
        assert!(bytes > 0 && bytes <= self.max_block.0, "{request:?} does not fit the slot's buffer");
        assert!(offset + bytes <= self.target.range().0, "{request:?} is outside the target's range");
        if !(offset | bytes).is_multiple_of(self.target.logical_block().0) {
            let context = format!("{} sectors at LBA {}", bytes / 512, request.lba.0);
            let problem = format!("not whole logical blocks of {} bytes", self.target.logical_block().0);
            return Err(DeviceError { errno: libc::EINVAL, context, problem });
        }
        Ok(())
    }

    /// Make the first `bytes` of a buffer known to the ring. False: the kernel does not lock so much memory.
    #[inline]
    fn register(&mut self, buffer: usize, start: *mut u8, bytes: usize) -> bool {
        match self.registered[buffer] {
            Registered::Bytes(enough) if enough >= bytes => true,
            Registered::Refused => false,
            Registered::Bytes(_) => self.register_anew(buffer, start, bytes),
        }
    }

    #[cold]
    fn register_anew(&mut self, buffer: usize, start: *mut u8, bytes: usize) -> bool {
        self.hurry = true;
        let iovec = [libc::iovec { iov_base: start.cast(), iov_len: bytes }];
        // SAFETY: the buffer has so many bytes (`check`). The kernel pins them, and the arenas are unmapped only after
        // the last I/O to them completed (`drop`).
        let result = unsafe { self.ring.ring.submitter().register_buffers_update(buffer as u32, &iovec, None) };
        self.registered[buffer] = if result.is_ok() { Registered::Bytes(bytes) } else { Registered::Refused };
        result.is_ok()
    }

    fn hand_over(&mut self) {
        (self.neighbours, self.hurry) = (false, false);
        self.ring.hand_over();
    }

    /// Whether the request lies beside one that is queued.
    #[inline]
    fn has_neighbour(&self, first: u64, next: u64) -> bool {
        self.queued[..self.ring.queued as usize].iter().any(|queued| queued.0 == next || queued.1 == first)
    }

    /// Where a slot's reads land, and the number of that buffer.
    fn read_buffer(&self, slot: usize) -> (*mut u8, usize) {
        (self.reads_start.wrapping_add(slot * self.stride), slot.min(self.read_buffers - 1))
    }

    fn read(&mut self, slot: usize, request: &Request) -> squeue::Entry {
        let (length, offset) = (request.bytes.0 as u32, request.lba.to_bytes().0);
        let (start, buffer) = self.read_buffer(slot);
        if self.register(buffer, start, length as usize) {
            opcode::ReadFixed::new(FILE, start, length, buffer as u16).offset(offset).build()
        } else {
            opcode::Read::new(FILE, start, length).offset(offset).build()
        }
    }

    fn write(&mut self, slot: usize, request: &Request) -> squeue::Entry {
        let (length, offset) = (request.bytes.0 as u32, request.lba.to_bytes().0);
        let start = self.writes.prepare(slot, request.lba, length as usize);
        let number = start / self.writes.stride();
        let (first, own) = (number * self.writes.stride(), self.read_buffers + number);
        let place = self.writes_start.wrapping_add(start);
        let buffer = self.writes_start.wrapping_add(first);
        // Small writes take turns through the first part of the buffer.
        let bytes = (start - first + length as usize).max(self.writes.turn());
        if self.register(own, buffer, bytes) {
            opcode::WriteFixed::new(FILE, place, length, own as u16).offset(offset).build()
        } else {
            opcode::Write::new(FILE, place, length).offset(offset).build()
        }
    }
}

impl Device for UringDevice {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    fn get_ready(&mut self) -> bool {
        let slot = self.ready;
        if slot == self.ahead {
            return false;
        }
        self.ready += 1;
        if self.ring.is_free(slot as u32) {
            let block = self.max_block.0.next_multiple_of(PAGE) as usize;
            if self.writes.ready(slot, block) {
                let buffer = self.writes_start.wrapping_add(slot * self.writes.stride());
                self.register(self.read_buffers + slot, buffer, block.max(self.writes.turn()));
            }
            let (buffer, number) = self.read_buffer(slot);
            self.register(number, buffer, block);
        }
        true
    }

    #[inline]
    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        self.check(request)?;
        assert!(self.ring.is_free(slot), "slot {slot} is in flight");
        let (first, next) = (request.lba.0, request.lba.0 + request.bytes.0 / 512);
        let neighbour = self.has_neighbour(first, next);
        if neighbour && self.ring.queued >= NEVER_MERGED {
            self.hand_over();
        } else {
            self.neighbours |= neighbour;
        }
        let entry = match request.operation {
            Operation::Read => self.read(slot as usize, request),
            Operation::Write => self.write(slot as usize, request),
        };
        self.queued[self.ring.queued as usize] = (first, next);
        // SAFETY: the buffer holds so many bytes from there on (`check`), and stays mapped until the I/O completed or
        // for good (`drop`). A write's buffer is the slot's own from `prepare` until its completion was taken
        // (`release`): no other I/O uses it, and nothing touches it. What reads leave in a shared one is never looked at.
        unsafe { self.ring.push(entry, slot, request.bytes.0 as u32) };
        let most = if self.neighbours { NEVER_MERGED } else { BATCH as u32 };
        if self.ring.queued >= most || self.hurry {
            self.hand_over();
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.in_flight() == 0 {
            rest(until);
            return Ok(());
        }
        self.neighbours = false;
        let before = done.len();
        let result = self.ring.wait(until, done);
        done[before..].iter().for_each(|completion| self.writes.release(completion.slot as usize));
        result
    }

    fn set_entropy(&mut self, percent: u8) {
        self.writes.set_entropy(percent);
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        if self.ring.drain() {
            // Closing a ring lets go of its file some time later; whoever opens it exclusively next cannot wait.
            // If this fails the ring's end does it.
            let _ = self.ring.ring.submitter().unregister_files();
            // SAFETY: both are dropped only here, and not used afterwards.
            unsafe {
                ManuallyDrop::drop(&mut self.reads);
                ManuallyDrop::drop(&mut self.writes);
            }
        }
        // Otherwise the buffers are leaked: the kernel may still write to them.
    }
}

/// What went wrong while setting up a ring for `target`.
fn explain(target: &Target, error: &io::Error) -> TargetError {
    let (problem, cure) = cause(error);
    target.unusable(problem, cure)
}

/// What went wrong while setting up a ring, and what to do.
fn cause(error: &io::Error) -> (String, &'static str) {
    let (problem, cure) = match error.raw_os_error() {
        Some(libc::ENOSYS) => ("this kernel has no io_uring", "use Linux 5.11 or later, built with CONFIG_IO_URING"),
        Some(libc::EPERM | libc::EACCES) => (
            "io_uring is forbidden here",
            "set sysctl kernel.io_uring_disabled=0, or let the container's seccomp profile allow io_uring",
        ),
        Some(libc::ENOMEM) => (
            "no permission to lock memory for the ring",
            "raise the limit (ulimit -l, or LimitMEMLOCK=infinity in a systemd unit), or run as root",
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            ("too many open files for another ring", "raise the limit (ulimit -n, or LimitNOFILE in a systemd unit)")
        }
        _ => return (format!("io_uring cannot be set up: {error}"), "use a newer kernel"),
    };
    (problem.into(), cure)
}

/// What kind of file system a file is on: its number in statfs(2).
fn file_system(file: &File) -> io::Result<u64> {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: fstatfs writes one `struct statfs`, to a place that outlives the call.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value, before the kernel filled it.
    let found = unsafe { found.assume_init() };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(found.f_type as u64) }
}

/// The logical block size of a block device.
fn logical_block_size(file: &File) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int, to a place that outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes as u64) }
}

/// What direct I/O to a regular file must be aligned to: 0 if there is none, `None` if the kernel (before 6.1)
/// or the filesystem does not say.
fn direct_alignment(file: &File) -> Option<u32> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    let (flags, mask) = (libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: the path is a C string, and statx writes one `struct statx`, to a place that outlives the call.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, status.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value, before the kernel filled it.
    let status = unsafe { status.assume_init() };
    (result == 0 && status.stx_mask & mask != 0).then_some(status.stx_dio_offset_align)
}
