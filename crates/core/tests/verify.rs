//! What a faulty device does to data is found when it is read back; what it does to completions changes no count.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flashgauge_core::engine::faulty::{Faults, FaultyDevice, Injected, Medium};
use flashgauge_core::engine::verify::{Expected, Findings, Ledger, Ledgered, Verifier, judge};
use flashgauge_core::engine::{Limits, Session, StepResult, Target};
use flashgauge_core::units::{Bytes, Lba};
use flashgauge_core::workload::{ActiveRange, Stimulus, Stop};
use proptest::prelude::*;

const RANGE: Bytes = Bytes(4 << 20);
const SEED: u64 = 0xdead_beef;

fn stimulus(text: &str) -> Stimulus {
    Stimulus::from_json(text).unwrap()
}

fn random(block: u64, read_percent: f64, threads: u32, depth: u32) -> Stimulus {
    stimulus(&format!(
        r#"{{"access": {{"kind": "random"}}, "block_sizes": [{{"bytes": {block}, "weight": 1}}],
            "read_percent": {read_percent}, "active_range": {{"start_percent": 0, "end_percent": 100}},
            "thread_count": {threads}, "queue_depth": {depth}}}"#
    ))
}

fn sequential(block: u64, depth: u32) -> Stimulus {
    stimulus(&format!(
        r#"{{"access": {{"kind": "sequential"}}, "block_sizes": [{{"bytes": {block}, "weight": 1}}],
            "read_percent": 0, "active_range": {{"start_percent": 0, "end_percent": 100}},
            "thread_count": 1, "queue_depth": {depth}}}"#
    ))
}

/// A session on a faulty device, what it stores, and what it did.
struct Bench {
    session: Session,
    medium: Medium,
    ledger: Arc<Ledger>,
    injected: Arc<Mutex<Injected>>,
}

fn bench(threads: u32, depth: u32, block: u64, faults: Faults, seed: u64) -> Bench {
    let (medium, ledger, injected) = (Medium::new(RANGE), Arc::new(Ledger::new(RANGE)), Arc::default());
    let limits = Limits { threads, queue_depth: depth, block: Bytes(block) };
    let (disk, book, counts) = (medium.clone(), Arc::clone(&ledger), Arc::clone(&injected));
    let make = move |thread| {
        let device = FaultyDevice::new(&disk, thread, depth, Bytes(block), seed, faults, &counts)?;
        Ok(Ledgered::new(device, Some(Arc::clone(&book)), thread, depth)?)
    };
    let session = Session::on(RANGE, seed, limits, make).unwrap();
    Bench { session, medium, ledger, injected }
}

impl Bench {
    fn step(&mut self, stimulus: Stimulus, stop: Stop) -> StepResult {
        self.session.start(stimulus, stop, 1_000_000_000, false).unwrap();
        loop {
            if let Some(result) = self.session.wait(Duration::from_millis(100)).unwrap() {
                return result;
            }
        }
    }

    fn findings(&mut self) -> Findings {
        self.session.idle(0).unwrap();
        judge(&self.medium.contents(), Lba(0), SEED, |lba| self.ledger.expected(lba))
    }

    fn injected(&self) -> Injected {
        *self.injected.lock().unwrap()
    }
}

const SECTORS: u64 = RANGE.0 / 512;

#[test]
fn a_good_device_is_intact() {
    let mut bench = bench(3, 8, 8192, Faults::default(), SEED);
    assert_eq!(
        bench.findings(),
        Findings { sectors: SECTORS, unwritten: SECTORS, known: SECTORS, ..Findings::default() }
    );
    bench.step(sequential(8192, 8), Stop::Bytes { bytes: RANGE.0 });
    let found = bench.findings();
    assert_eq!((found.intact, found.known, found.bad(), found.first_bad), (SECTORS, SECTORS, 0, None));
    bench.step(random(4096, 30.0, 3, 8), Stop::Ios { ios: 5003 });
    let found = bench.findings();
    assert_eq!((found.intact, found.bad()), (SECTORS, 0), "out of order, over one another, and all of it known");
    assert!(found.known > SECTORS * 9 / 10, "{found:?}");
}

/// Each fault alone, on writes that do not overlap: its sectors are found, all of them, and nothing else.
#[test]
fn each_fault_is_found_for_what_it_is() {
    let one_pass = |faults| {
        let mut bench = bench(1, 16, 8192, faults, SEED);
        bench.step(sequential(8192, 16), Stop::Bytes { bytes: RANGE.0 });
        (bench.findings(), bench.injected())
    };
    let (found, done) = one_pass(Faults { corrupt: 100, ..Faults::default() });
    assert!(done.corrupted > 20);
    assert_eq!((found.corrupt, found.bad()), (done.corrupted, done.corrupted), "one sector each");
    assert_eq!(found.intact, SECTORS - found.corrupt);

    let (found, done) = one_pass(Faults { lose: 100, ..Faults::default() });
    assert!(done.lost > 20);
    assert_eq!((found.lost, found.bad()), (done.lost * 16, done.lost * 16), "never written, and acknowledged");

    let (found, done) = one_pass(Faults { fail: 100, ..Faults::default() });
    assert!(done.failed > 20);
    assert_eq!(found.bad(), 0, "a write that failed may be there or not");
    assert_eq!(found.known, SECTORS - done.failed * 16);

    let (found, done) = one_pass(Faults { misdirect: 100, ..Faults::default() });
    assert!(done.misdirected > 20);
    assert!(found.misdirected > 0 && found.lost > 0 && found.corrupt == 0 && found.foreign == 0, "{found:?}");
    assert!(found.misdirected <= done.misdirected * 16);
    assert!(found.first_bad.is_some());
}

#[test]
fn a_write_that_is_lost_over_an_older_one_shows() {
    let mut bench = bench(1, 1, 4096, Faults { lose: 50, ..Faults::default() }, SEED);
    let pass = |bench: &mut Bench| drop(bench.step(sequential(4096, 1), Stop::Bytes { bytes: RANGE.0 }));
    pass(&mut bench);
    let before = bench.injected();
    assert_eq!(bench.findings().lost, before.lost * 8);
    pass(&mut bench);
    let (found, after) = (bench.findings(), bench.injected());
    assert_eq!(found.lost, (after.lost - before.lost) * 8, "of the second pass: what the first lost is written now");
    let unknown = judge(&bench.medium.contents(), Lba(0), SEED, |_| Expected::Unknown);
    assert_eq!(unknown.lost, 0, "without the ledger nobody can tell");
}

#[test]
fn another_runs_data_is_foreign() {
    let mut bench = bench(1, 4, 4096, Faults::default(), SEED + 1);
    bench.step(sequential(4096, 4), Stop::Bytes { bytes: RANGE.0 / 2 });
    let found = judge(&bench.medium.contents(), Lba(0), SEED, |_| Expected::Unknown);
    assert_eq!((found.foreign, found.unwritten, found.intact), (SECTORS / 2, SECTORS / 2, 0));
    let found = judge(&bench.medium.contents(), Lba(0), SEED, |_| Expected::Never);
    assert_eq!((found.foreign, found.unwritten), (0, SECTORS), "what was there before the run is nobody's fault");
}

#[test]
fn writes_that_overlap_in_flight_are_in_doubt() {
    let ledger = Ledger::new(Bytes(4096));
    let (lba, all, first) = (Lba(0), Bytes(4096), Bytes(512));
    ledger.submitted(lba, all, 1);
    assert_eq!(ledger.expected(0), Expected::Unknown, "under way");
    ledger.submitted(lba, first, 2);
    ledger.completed(lba, all, 1, true);
    ledger.completed(lba, first, 2, true);
    assert_eq!(ledger.expected(0), Expected::Unknown, "either may be the last");
    assert_eq!(ledger.expected(1), Expected::Write(1));
    ledger.submitted(lba, all, 3);
    ledger.completed(lba, all, 3, true);
    assert_eq!(ledger.expected(1), Expected::Write(3));
    ledger.forget();
    assert_eq!(ledger.expected(1), Expected::Never);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A prime number of I/Os is that number at every layer, whatever fails and in whatever order it returns.
    #[test]
    fn counts_are_exact_on_a_faulty_device(
        threads in 1u32..5, depth in 1u32..17, ios in prop::sample::select(vec![2u64, 101, 1009, 2003]),
        fail in 0u32..400, read_percent in 0.0f64..100.0, in_order: bool, seed: u64,
    ) {
        let faults = Faults { fail, lose: 20, misdirect: 20, corrupt: 20, in_order };
        let mut bench = bench(threads, depth, 4096, faults, seed);
        let result = bench.step(random(4096, read_percent, threads, depth), Stop::Ios { ios });
        bench.session.idle(0).unwrap();
        let done = bench.injected();
        prop_assert_eq!(result.submitted_ios, ios);
        prop_assert_eq!(result.recorder.ios() + result.recorder.error_ios(), ios);
        prop_assert_eq!(result.recorder.error_ios(), done.failed);
        prop_assert_eq!((done.submitted, done.completed), (ios, ios), "nothing in flight");
        prop_assert!(done.most_outstanding <= u64::from(depth), "of one thread");
        let histograms = result.recorder.read.histogram().len() + result.recorder.write.histogram().len();
        prop_assert_eq!(histograms, ios - done.failed);
        prop_assert_eq!(result.written_bytes, result.recorder.write.bytes);
    }

    /// Exact bytes, with failures.
    #[test]
    fn bytes_are_exact_on_a_faulty_device(threads in 1u32..5, blocks in 1u64..700, fail in 0u32..400, seed: u64) {
        let mut bench = bench(threads, 4, 4096, Faults { fail, ..Faults::default() }, seed);
        let result = bench.step(random(4096, 0.0, threads, 4), Stop::Bytes { bytes: blocks * 4096 });
        prop_assert_eq!(result.submitted_ios, blocks);
        prop_assert_eq!(result.written_bytes, (blocks - result.recorder.error_ios()) * 4096);
        prop_assert_eq!(bench.injected().failed, result.recorder.error_ios());
    }

    /// Steps that end by time leave I/Os in flight: each is in one result, of its own step or as a bridge I/O.
    #[test]
    fn what_is_in_flight_at_the_end_of_a_step_is_counted_once(fail in 0u32..300, seed: u64) {
        let mut bench = bench(2, 8, 4096, Faults { fail, ..Faults::default() }, seed);
        let mut results = vec![];
        for _ in 0..3 {
            results.push(bench.step(random(4096, 50.0, 2, 8), Stop::Time { ns: 3_000_000 }));
        }
        bench.session.idle(0).unwrap();
        results.push(bench.step(random(4096, 50.0, 2, 8), Stop::Ios { ios: 101 }));
        bench.session.idle(0).unwrap();
        let done = bench.injected();
        let issued: u64 = results.iter().map(|result| result.submitted_ios + result.bridge_ios).sum();
        prop_assert_eq!((done.submitted, done.completed), (issued, issued));
        prop_assert_eq!(results.iter().map(|result| result.recorder.error_ios()).sum::<u64>(), done.failed);
        prop_assert!(done.most_outstanding <= 8);
    }
}

/// A file that was written through io_uring, then changed behind its back.
#[test]
fn a_file_is_read_back() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk.img");
    std::fs::write(&path, vec![0; RANGE.0 as usize]).unwrap();
    let limits = Limits { threads: 2, queue_depth: 4, block: Bytes(65_536) };
    let Ok(target) = Target::open(&path, RANGE, false) else { return eprintln!("no direct I/O here: skipped") };
    let mut session = match Session::verified(target, SEED, limits) {
        Ok(session) => session,
        Err(error) => return eprintln!("{error}: skipped"),
    };
    for (block, read) in [(65_536, 0.0), (4096, 50.0), (512, 0.0)] {
        session.start(random(block, read, 2, 4), Stop::Ios { ios: 307 }, 1_000_000_000, true).unwrap();
        while session.wait(Duration::from_millis(100)).unwrap().is_none() {}
    }
    let verifier = session.verifier().unwrap();
    let found = verifier.verify(Bytes(0), RANGE).unwrap();
    assert_eq!((found.sectors, found.bad()), (SECTORS, 0), "{found:?}");
    assert!(found.intact > 1000 && found.known > 1000, "{found:?}");
    drop(verifier);
    session.close();
    damage(&path);
    let found = Verifier::open(&path, RANGE, SEED).unwrap().verify(Bytes(0), RANGE).unwrap();
    assert_eq!((found.corrupt, found.bad()), (1, 1));
    assert!(found.first_bad.is_some());
}

/// The drive was not purged: what lies outside the active ranges is older than the run, and not judged.
#[test]
fn only_what_was_written_is_judged() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk.img");
    std::fs::write(&path, vec![0xa5; RANGE.0 as usize]).unwrap();
    let limits = Limits { threads: 1, queue_depth: 4, block: Bytes(65_536) };
    let Ok(target) = Target::open(&path, RANGE, false) else { return eprintln!("no direct I/O here: skipped") };
    let mut session = match Session::verified(target, SEED, limits) {
        Ok(session) => session,
        Err(error) => return eprintln!("{error}: skipped"),
    };
    let mut run = |start_percent, end_percent, read| {
        let mut stimulus = Stimulus { read_percent: read, ..sequential(65_536, 4) };
        stimulus.active_range = ActiveRange { start_percent, end_percent };
        let bytes = (RANGE.0 as f64 * (end_percent - start_percent) / 100.0) as u64;
        session.start(stimulus, Stop::Bytes { bytes }, 1_000_000_000, true).unwrap();
        while session.wait(Duration::from_millis(100)).unwrap().is_none() {}
    };
    run(0.0, 25.0, 0.0);
    run(50.0, 75.0, 0.0);
    run(0.0, 100.0, 100.0);
    let quarter = RANGE.0 / 4;
    let ranges = [0..quarter, 2 * quarter..3 * quarter];
    assert_eq!(session.written().ranges(), &ranges);
    // Also without a ledger, as on a large drive or in another process.
    let later = Verifier::open(&path, RANGE, SEED).unwrap();
    assert_eq!(later.verify(Bytes(0), RANGE).unwrap().corrupt, SECTORS / 2, "all of it is not the run's");
    for verifier in [session.verifier().unwrap(), later.only(ranges.into_iter().collect())] {
        let found = verifier.verify(Bytes(0), RANGE).unwrap();
        assert_eq!((found.sectors, found.intact, found.bad()), (SECTORS / 2, SECTORS / 2, 0), "{found:?}");
        assert_eq!(verifier.verify(Bytes(quarter), Bytes(quarter)).unwrap(), Findings::default());
    }
    session.forget_written();
    assert_eq!(session.verifier().unwrap().verify(Bytes(0), RANGE).unwrap(), Findings::default());
}

/// Change one byte of the last sector that is not zero.
fn damage(path: &Path) {
    let mut data = std::fs::read(path).unwrap();
    let at = data.iter().rposition(|&byte| byte != 0).unwrap();
    data[at] ^= 0x10;
    std::fs::write(path, data).unwrap();
}
