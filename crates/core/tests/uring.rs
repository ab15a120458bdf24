//! The io_uring device against real files, and against a zram device of its own when run as root.
//!
//! Known workloads: a prime number of I/Os goes in and must come out. What the machine cannot do is reported
//! as "skipped: why". No device is touched that the test did not create.

mod zram;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use flashgauge_core::engine::{Completion, Device, Target, UringDevice, monotonic};
use flashgauge_core::error::{Error, TargetError};
use flashgauge_core::units::{Bytes, Lba, Nanos};
use flashgauge_core::workload::{Operation, Request, RequestStream, Stimulus};
use tempfile::{NamedTempFile, TempDir};

use crate::zram::{Mounted, Zram, say};

const IOS: u64 = 10_007;
const DEPTH: u32 = 32;
const MIB: u64 = 1 << 20;

fn skip(test: &str, why: impl std::fmt::Display) {
    say(format!("skipped: {test}: {why}"));
}

fn file(bytes: u64) -> NamedTempFile {
    let mut file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Really written: direct writes to holes and unwritten extents take another path.
    file.write_all(&vec![0; bytes as usize]).unwrap();
    file.as_file().sync_all().unwrap();
    file
}

fn open(path: &Path, range: u64) -> Result<Target, TargetError> {
    Target::open(path, Bytes(range), true)
}

/// A file of this size as target, and a first ring on it; `None` if the machine cannot.
fn setup(test: &str, bytes: u64) -> Option<(NamedTempFile, Arc<Target>, UringDevice)> {
    let file = file(bytes);
    let target = open(file.path(), bytes).map(Arc::new).map_err(Error::from);
    let device = target.and_then(|target| UringDevice::new(&target, 0, DEPTH, Bytes(MIB), 1).map(|d| (target, d)));
    match device {
        Ok((target, device)) => Some((file, target, device)),
        Err(why) => {
            skip(test, why);
            None
        }
    }
}

fn stimulus(block_bytes: u64, read_percent: u32, access: &str) -> Stimulus {
    let block = format!(r#""block_sizes": [{{"bytes": {block_bytes}, "weight": 1}}]"#);
    let range = r#""active_range": {"start_percent": 0, "end_percent": 100}"#;
    let rest = format!(r#""read_percent": {read_percent}, "thread_count": 1, "queue_depth": {DEPTH}"#);
    Stimulus::from_json(&format!(r#"{{"access": {{"kind": "{access}"}}, {block}, {range}, {rest}}}"#)).unwrap()
}

fn request(operation: Operation, lba: u64, bytes: u64) -> Request {
    Request { operation, lba: Lba(lba), bytes: Bytes(bytes) }
}

/// Issue `ios` requests at full queue depth; all must succeed. Returns the completions.
fn run(device: &mut UringDevice, mut next: impl FnMut() -> Request, ios: u64) -> Vec<Completion> {
    let mut free: Vec<u32> = (0..DEPTH).collect();
    let (mut submitted, mut all, mut done) = (0, vec![], vec![]);
    while (all.len() as u64) < ios {
        while submitted < ios
            && let Some(slot) = free.pop()
        {
            device.submit(slot, &next()).unwrap();
            submitted += 1;
        }
        assert!(device.in_flight() <= u64::from(DEPTH));
        device.wait(Nanos::MAX, &mut done).unwrap();
        for completion in done.drain(..) {
            assert_eq!(completion.result, Ok(()));
            assert!(!free.contains(&completion.slot), "slot {} completed twice", completion.slot);
            free.push(completion.slot);
            all.push(completion);
        }
        assert_eq!(submitted, all.len() as u64 + device.in_flight());
    }
    assert_eq!((submitted, device.in_flight()), (ios, 0));
    assert!(all.is_sorted_by_key(|completion| completion.at));
    all
}

/// One I/O, alone.
fn one(device: &mut UringDevice, request: Request) -> Result<(), i32> {
    let mut done = vec![];
    device.submit(0, &request).unwrap();
    while done.is_empty() {
        device.wait(Nanos::MAX, &mut done).unwrap();
    }
    assert_eq!(done.len(), 1);
    done[0].result
}

fn message<T>(result: Result<T, TargetError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn as_many_completions_as_ios() {
    let Some((_file, target, mut device)) = setup("as_many_completions_as_ios", 16 * MIB) else { return };
    for (read_percent, access) in [(100, "random"), (0, "sequential"), (65, "random")] {
        let stimulus = stimulus(4096, read_percent, access);
        target.check(&stimulus).unwrap();
        let mut stream = RequestStream::new(3, 0);
        stream.set(&stimulus, target.range()).unwrap();
        let done = run(&mut device, || stream.next_request(), IOS);
        println!("{read_percent} % reads: {} completions", done.len());
        assert_eq!(done.len() as u64, IOS);
    }
}

#[test]
fn no_two_written_blocks_are_equal() {
    let Some((file, target, first)) = setup("no_two_written_blocks_are_equal", 64 * MIB) else { return };
    // Thread 1 with the same seed: what tells the threads apart is the stamp and the place in the stream.
    let mut devices = [first, UringDevice::new(&target, 1, DEPTH, Bytes(MIB), 1).unwrap()];
    for (half, device) in (0u64..).zip(&mut devices) {
        let (start, end) = (half * 32 * MIB / 512, (half + 1) * 32 * MIB / 512);
        for (entropy, bytes) in [(100, 4096), (0, 4096), (100, 65_536), (50, 4096)] {
            device.set_entropy(entropy);
            // The last pass leaves half of what the one before wrote, so patterns and sizes mix.
            let skip = if entropy == 50 { 2 } else { 1 };
            let mut lba = (start..end).step_by((bytes / 512 * skip) as usize);
            let ios = 32 * MIB / bytes / skip;
            run(device, || request(Operation::Write, lba.next().unwrap(), bytes), ios);
        }
    }
    let data = fs::read(file.path()).unwrap();
    let distinct: HashSet<&[u8]> = data.chunks_exact(4096).collect();
    println!("{} distinct of {} blocks", distinct.len(), data.len() / 4096);
    assert_eq!(distinct.len(), data.len() / 4096);
}

#[test]
fn entropy_is_what_was_asked_for() {
    const BYTES: u64 = 8 * MIB;
    let Some((file, _target, mut device)) = setup("entropy_is_what_was_asked_for", BYTES) else { return };
    // A random byte is zero once in 256; a stamp of legible words is mostly zero.
    for (entropy, block, low, high) in [
        (100, 4096, 0.001, 0.008),
        (50, 4096, 0.499, 0.507),
        (50, 512, 0.499, 0.507),
        (0, 65_536, 0.996, 1.0),
        (0, 512, 0.968, 0.999),
        (100, 512, 0.001, 0.008),
    ] {
        device.set_entropy(entropy);
        device.set_entropy(entropy);
        let mut lba = (0..BYTES / 512).step_by(block as usize / 512);
        run(&mut device, || request(Operation::Write, lba.next().unwrap(), block), BYTES / block);
        let zeros = fs::read(file.path()).unwrap().iter().filter(|&&byte| byte == 0).count() as f64 / BYTES as f64;
        println!("entropy {entropy} %, {block} bytes: {:.3} % zero bytes", zeros * 100.0);
        assert!((low..high).contains(&zeros), "entropy {entropy}: {zeros}");
    }
}

#[test]
fn reads_and_repeated_settings_do_not_spoil_the_pattern() {
    let Some((file, _target, mut device)) = setup("reads_and_repeated_settings", 4 * MIB) else { return };
    let sector = |lba: usize| fs::read(file.path()).unwrap()[lba * 512..(lba + 1) * 512].to_vec();
    for number in 0..17 {
        device.set_entropy(100);
        // Reads zeros into the same slot.
        one(&mut device, request(Operation::Read, 4096, 4096)).unwrap();
        one(&mut device, request(Operation::Write, number * 8, 4096)).unwrap();
    }
    let words = |lba: usize| sector(lba).chunks_exact(8).map(<[u8]>::to_vec).collect::<HashSet<_>>();
    assert!(words(0).is_disjoint(&words(128)), "no word of a small write comes again");
    for lba in [0, 8, 128] {
        assert!(sector(lba).iter().filter(|&&byte| byte == 0).count() < 20, "random throughout");
    }
}

#[test]
fn unusable_targets_are_named_with_a_cure() {
    let Some((file, target, mut device)) = setup("unusable_targets", MIB) else { return };
    let (path, directory) = (file.path(), TempDir::new().unwrap());
    let cases = [
        (open(directory.path(), MIB), "directory"),
        (open(&directory.path().join("nothing"), MIB), "no such file"),
        (open(Path::new("/dev/null"), MIB), "neither a block device nor a regular file"),
        (open(path, 0), "0 bytes"),
        (open(path, MIB + 512), "only 1048576"),
        (open(path, 100), "smaller than one logical block"),
        (open(path, MIB - 100), "not a multiple"),
    ];
    for (result, part) in cases {
        let text = message(result);
        println!("{text}");
        assert!(text.contains(part), "{text:?} names {part:?}");
    }
    let half = target.logical_block().0 / 2;
    let text = message(target.check(&stimulus(half, 100, "random")));
    println!("{text}");
    assert!(text.contains("not a multiple of the logical block"));
    let mut aligned = stimulus(4096, 100, "random");
    aligned.alignment_bytes = Some(4096 + half);
    assert!(message(target.check(&aligned)).contains("alignment"));
    assert_eq!(device.submit(0, &request(Operation::Read, 0, half)).unwrap_err().errno, libc::EINVAL);
    let deep = UringDevice::new(&target, 0, 10_000, Bytes(4096), 1).err().expect("too deep");
    println!("{deep}");
    assert!(matches!(deep, Error::Target(TargetError::NotSupported(_))));
}

#[test]
fn a_file_cut_short_is_an_io_error() {
    let Some((file, _target, mut device)) = setup("a_file_cut_short", MIB) else { return };
    file.as_file().set_len(MIB / 2 + 4096).unwrap();
    assert_eq!(one(&mut device, request(Operation::Read, 0, 8192)), Ok(()));
    assert_eq!(one(&mut device, request(Operation::Read, MIB / 1024, 8192)), Err(libc::EIO), "half of it");
    assert_eq!(one(&mut device, request(Operation::Read, MIB / 1024 + 64, 8192)), Err(libc::EIO), "nothing");
    assert_eq!(device.in_flight(), 0);
}

#[test]
fn bugs_of_the_caller_assert() {
    let Some((_file, _target, mut device)) = setup("bugs_of_the_caller", MIB) else { return };
    let mut panics = |slot, operation, lba, bytes| {
        let call = || device.submit(slot, &request(operation, lba, bytes));
        catch_unwind(AssertUnwindSafe(call)).is_err()
    };
    assert!(!panics(3, Operation::Read, 0, 4096));
    assert!(panics(3, Operation::Read, 0, 4096), "slot in flight");
    assert!(panics(DEPTH, Operation::Read, 0, 4096), "no such slot");
    assert!(panics(0, Operation::Write, MIB / 512, 4096), "outside the range");
    assert!(panics(0, Operation::Read, 0, 2 * MIB), "larger than the buffer");
    // The refused ones left no trace: the one read is drained when the device is dropped.
    assert_eq!(device.in_flight(), 1);
}

#[test]
fn idling_ends_within_100_ms() {
    let Some((_file, _target, mut device)) = setup("idling_ends_within_100_ms", MIB) else { return };
    let mut idle = |ns: u64| {
        let start = monotonic();
        device.wait(Nanos(start.0.saturating_add(ns)), &mut vec![]).unwrap();
        monotonic().since(start)
    };
    let (forever, short, past) = (idle(u64::MAX), idle(2_000_000), idle(0));
    println!("no end: {forever} ns, 2 ms: {short} ns, at once: {past} ns");
    assert!((50_000_000..100_000_000).contains(&forever));
    assert!((2_000_000..40_000_000).contains(&short));
    assert!(past < 20_000_000);
}

#[test]
fn a_block_device_of_our_own() {
    let zram = match Zram::new(64 * MIB) {
        Ok(zram) => zram,
        Err(why) => return skip("a_block_device_of_our_own", why),
    };
    let path = zram.path();
    assert!(message(open(&path, 65 * MIB)).contains("only 67108864"));
    let target = Arc::new(open(&path, 64 * MIB).unwrap());
    println!("{}: logical block {}", path.display(), target.logical_block().0);
    assert_eq!(target.logical_block(), Bytes(4096));
    assert!(message(target.check(&stimulus(512, 0, "random"))).contains("multiples of 4096"));
    let busy = message(open(&path, MIB));
    println!("{busy}");
    assert!(busy.contains("in use"));
    Target::open(&path, Bytes(MIB), false).expect("shared use, when asked for");
    let mut device = match UringDevice::new(&target, 5, DEPTH, Bytes(65_536), 9) {
        Ok(device) => device,
        Err(why) => return skip("a_block_device_of_our_own", why),
    };
    for read_percent in [0, 50, 100] {
        let mut stream = RequestStream::new(4, 0);
        stream.set(&stimulus(4096, read_percent, "random"), target.range()).unwrap();
        assert_eq!(run(&mut device, || stream.next_request(), IOS).len() as u64, IOS);
    }
    // Whoever comes next finds the device free at once, although rings end in the background.
    drop((device, target));
    let target = Arc::new(open(&path, 64 * MIB).unwrap());
    let mut device = UringDevice::new(&target, 5, DEPTH, Bytes(65_536), 9).unwrap();
    // A drive that fails: no memory left behind it. The error is handed on, not retried.
    fs::write(format!("/sys/block/zram{}/mem_limit", zram.number), "4K").unwrap();
    let failed = one(&mut device, request(Operation::Write, 0, 65_536));
    println!("write to a full device: {failed:?}");
    assert!(failed.is_err_and(|errno| errno > 0));
}

/// A frozen filesystem holds writes back for as long as the test likes: a device that hangs.
#[test]
fn a_hanging_device_does_not_hold_its_thread() {
    let mounted = match Mounted::new() {
        Ok(mounted) => mounted,
        Err(why) => return skip("a_hanging_device_does_not_hold_its_thread", why),
    };
    let path = mounted.directory.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![1; MIB as usize]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let target = Arc::new(open(&path, MIB).unwrap());
    let mut device = match UringDevice::new(&target, 0, DEPTH, Bytes(4096), 1) {
        Ok(device) => device,
        Err(why) => return skip("a_hanging_device_does_not_hold_its_thread", why),
    };
    mounted.freeze("--freeze");
    (0..DEPTH).for_each(|slot| device.submit(slot, &request(Operation::Write, u64::from(slot) * 8, 4096)).unwrap());
    let mut done = vec![];
    for (patience, low, high) in [(u64::MAX, 50_000_000, 100_000_000), (3_000_000, 3_000_000, 40_000_000)] {
        let start = monotonic();
        device.wait(Nanos(start.0.saturating_add(patience)), &mut done).unwrap();
        let waited = monotonic().since(start);
        println!("hanging: returned after {waited} ns");
        assert!(done.is_empty() && (low..high).contains(&waited), "{waited} ns, {} done", done.len());
    }
    assert_eq!(device.in_flight(), u64::from(DEPTH));
    // Dropped in this state, the device gives up after 5 s and leaves its buffers to the kernel.
    let start = monotonic();
    drop(device);
    let waited = monotonic().since(start);
    println!("hanging: dropped after {waited} ns");
    mounted.freeze("--unfreeze");
    assert!((5_000_000_000..6_000_000_000).contains(&waited));
}
