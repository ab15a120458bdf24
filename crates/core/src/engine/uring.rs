//! A block device or file driven by io_uring, one ring per engine thread.
//!
//! The device's file and all buffers are registered, I/Os are READ_FIXED and WRITE_FIXED. They are handed over in
//! fours, the rest by the one io_uring_enter of `wait` that also collects what completed. Where the kernel can (6.1), completions are
//! processed only inside that call (DEFER_TASKRUN), so none interrupts the thread. See io_uring(7).
//!
//! Reads land in buffers of their own, one per slot, and the data is discarded. Not one buffer for all: where
//! the kernel checks what was read (protection information, btrfs checksums), two reads into the same memory
//! would spoil each other. So a thread locks 2 * queue depth * largest block of memory (at least 64 KiB for writes).
//!
//! Limits: Linux 5.11; 8192 slots; blocks up to 1 GiB. All `unsafe` code of the crate is in this file.

#![allow(unsafe_code)]

mod pattern;
mod target;

use std::fs::File;
use std::io;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use memmap2::MmapMut;

pub(super) use self::pattern::{WriteData, arena};
pub use self::target::Target;
use super::clock::{monotonic, patience};
use super::device::{Completion, Device};
use crate::error::{DeviceError, Error, TargetError};
use crate::units::{Bytes, Nanos};
use crate::workload::{Operation, Request};

/// The target's index among the ring's registered files.
const FILE: Fixed = Fixed(0);
/// The kernel registers at most 2^14 buffers, and each slot has two.
const MOST_SLOTS: u32 = 1 << 13;
/// The kernel's limit for one registered buffer.
const LARGEST_BLOCK: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// I/Os handed over by one call. With all that completed together resubmitted together, host and device take
/// turns: a virtio disk did 0.8 of what it does with 4 (queue depth 32), and no more with 1.
const BATCH: u32 = 4;
/// How long a device being dropped waits for its I/O.
const DRAIN: Duration = Duration::from_secs(5);

/// One thread's ring on a target. It stays on the thread that made it.
pub struct UringDevice {
    ring: IoUring,
    target: Arc<Target>,
    /// Released only once the kernel is done with them.
    reads: ManuallyDrop<MmapMut>,
    writes: ManuallyDrop<WriteData>,
    reads_start: *mut u8,
    writes_start: *mut u8,
    /// Bytes from one slot's read buffer to the next.
    stride: usize,
    max_block: Bytes,
    /// Bytes asked for by the I/O in each slot, 0 when it is free.
    expected: Vec<u32>,
    /// Submitted, but not yet handed over to the kernel.
    queued: u32,
    submitted: u64,
    completed: u64,
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
        let stride = max_block.0.next_multiple_of(PAGE) as usize;
        let no_memory = |error: io::Error| {
            let cure = "lower the queue depth, the thread count or the largest block size";
            target.unusable(format!("no memory for 2 * {} bytes of buffers: {error}", slots * stride), cure)
        };
        let mut reads = pattern::arena(slots * stride).map_err(no_memory)?;
        let mut writes = WriteData::new(slots, stride, thread, seed).map_err(no_memory)?;
        let (reads_start, writes_start) = (reads.as_mut_ptr(), writes.start());
        let ring = open_ring(target, max_queue_depth)?;
        register(&ring, target, [(reads_start, stride), (writes_start, writes.stride())], slots)?;
        let device = Self {
            ring,
            target: Arc::clone(target),
            reads: ManuallyDrop::new(reads),
            writes: ManuallyDrop::new(writes),
            reads_start,
            writes_start,
            stride,
            max_block,
            expected: vec![0; slots],
            queued: 0,
            submitted: 0,
            completed: 0,
        };
        wake_on_time();
        Ok(device)
    }

    /// From now on what it writes can be verified (`super::verify`).
    pub fn verifiable(mut self) -> Self {
        self.writes.make_verifiable();
        self
    }

    /// I/Os submitted and not yet completed.
    pub fn in_flight(&self) -> u64 {
        self.submitted - self.completed
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

    /// Submit what is queued and wait for one completion.
    fn enter(&mut self, patience: Duration) -> Result<(), DeviceError> {
        let timeout = Timespec::from(patience);
        let arguments = SubmitArgs::new().timespec(&timeout);
        loop {
            match self.ring.submitter().submit_with_args(1, &arguments).map_err(|error| (error.raw_os_error(), error)) {
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

    /// Take all completions there are.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        let completions = self.ring.completion();
        if completions.is_empty() {
            return;
        }
        // After the queue was looked at, so that no I/O completes before it was.
        let at = monotonic();
        for entry in completions {
            let slot = entry.user_data() as usize;
            let expected = mem::take(&mut self.expected[slot]);
            assert!(expected > 0, "slot {slot} completed without an I/O");
            let result = match entry.result() {
                errno if errno < 0 => Err(-errno),
                bytes if bytes as u32 == expected => Ok(()),
                _ => Err(libc::EIO),
            };
            self.completed += 1;
            done.push(Completion { slot: slot as u32, at, result });
        }
        assert!(self.completed <= self.submitted, "more I/Os completed than were submitted");
    }

    /// Wait for what is in flight. False: the kernel may still use the buffers.
    fn drain(&mut self) -> bool {
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

impl Device for UringDevice {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    #[inline]
    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        self.check(request)?;
        let index = slot as usize;
        assert!(self.expected[index] == 0, "slot {slot} is in flight");
        let (length, offset) = (request.bytes.0 as u32, request.lba.to_bytes().0);
        let entry = match request.operation {
            Operation::Read => {
                let buffer = self.reads_start.wrapping_add(index * self.stride);
                opcode::ReadFixed::new(FILE, buffer, length, index as u16).offset(offset).build()
            }
            Operation::Write => {
                let start = self.writes.prepare(index, request.lba, length as usize);
                let (buffer, number) = (self.writes_start.wrapping_add(start), index + self.expected.len());
                opcode::WriteFixed::new(FILE, buffer, length, number as u16).offset(offset).build()
            }
        };
        // SAFETY: the buffer is the slot's own, holds `length` bytes from there on (`check`), and stays mapped until
        // the I/O completed or for good (`drop`). The slot is free, so no other I/O uses the buffer, and `prepare`
        // touches it only while it is.
        unsafe { self.ring.submission().push(&entry.user_data(u64::from(slot))) }.expect("an entry for each slot");
        self.expected[index] = length;
        self.submitted += 1;
        self.queued += 1;
        if self.queued == BATCH {
            self.queued = 0;
            // What the kernel does not take now is taken, or reported, in `wait`.
            let _ = self.ring.submit();
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        if self.in_flight() == 0 {
            thread::sleep(patience(until));
            return Ok(());
        }
        self.enter(patience(until))?;
        self.reap(done);
        Ok(())
    }

    fn set_entropy(&mut self, percent: u8) {
        self.writes.set_entropy(percent);
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        if self.drain() {
            // Closing a ring lets go of its file some time later; whoever opens it exclusively next cannot wait.
            // If this fails the ring's end does it.
            let _ = self.ring.submitter().unregister_files();
            // SAFETY: both are dropped only here, and not used afterwards.
            unsafe {
                ManuallyDrop::drop(&mut self.reads);
                ManuallyDrop::drop(&mut self.writes);
            }
        }
        // Otherwise the buffers are leaked: the kernel may still write to them.
    }
}

/// A ring with the best flags the kernel has: they were added in 6.1, 5.19 and 5.18.
fn open_ring(target: &Target, entries: u32) -> Result<IoUring, TargetError> {
    let mut all = IoUring::builder();
    all.setup_submit_all().setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun();
    let mut some = IoUring::builder();
    some.setup_submit_all().setup_coop_taskrun();
    let unknown_flag = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let ring = all.build(entries);
    let ring = ring.or_else(|error| if unknown_flag(&error) { some.build(entries) } else { Err(error) });
    let ring = ring.or_else(|error| if unknown_flag(&error) { IoUring::new(entries) } else { Err(error) });
    let ring = ring.map_err(|error| explain(target, &error))?;
    if !ring.params().is_feature_ext_arg() {
        return Err(target.unusable("this kernel's io_uring has no timed wait", "use Linux 5.11 or later"));
    }
    Ok(ring)
}

/// Register the target, and a buffer for each slot in both arenas, given as start and bytes per buffer. The first
/// arena's buffers get the lower numbers.
fn register(ring: &IoUring, target: &Target, arenas: [(*mut u8, usize); 2], slots: usize) -> Result<(), Error> {
    let submitter = ring.submitter();
    submitter.register_files(&[target.fd()]).map_err(|error| explain(target, &error))?;
    let mut buffers = vec![];
    for (start, bytes) in arenas {
        let starts = (0..slots).map(|slot| start.wrapping_add(slot * bytes));
        buffers.extend(starts.map(|start| libc::iovec { iov_base: start.cast(), iov_len: bytes }));
    }
    // SAFETY: each arena is `slots` buffers long. The kernel pins the pages, and the arenas are unmapped only after
    // the last I/O to them completed (`drop`).
    unsafe { submitter.register_buffers(&buffers) }.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            let kib = arenas.iter().map(|(_, bytes)| slots * bytes).sum::<usize>() / 1024;
            let problem = format!("no permission to lock the {kib} KiB of buffers that each thread needs");
            let cure = "raise the limit (ulimit -l KIB, or LimitMEMLOCK=infinity in a systemd unit) to that times the \
                        thread count, run as root, or lower the queue depth or the largest block size";
            target.unusable(problem, cure)
        }
        _ => explain(target, &error),
    })?;
    Ok(())
}

/// What went wrong while setting up a ring, and what to do.
fn explain(target: &Target, error: &io::Error) -> TargetError {
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
        _ => return target.unusable(format!("io_uring cannot be set up: {error}"), "use a newer kernel"),
    };
    target.unusable(problem, cure)
}

/// Let this thread's timers run out on time: by default the kernel may add 50 us, to wake less often.
fn wake_on_time() {
    // SAFETY: the call takes a number and changes nothing but the calling thread's timers.
    // It cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
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
