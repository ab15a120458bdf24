//! The simulated disk: single accesses to the nanosecond, laws of rotation and seeks, what reordering gains, the cache.

mod support;

use flashgauge_core::engine::{Control, Device, Session};
use flashgauge_core::error::{Error, TargetError};
use flashgauge_core::simdisk::{DiskParameters, Mechanics, SimDisk};
use flashgauge_core::simulated::{self, Parameters};
use flashgauge_core::units::{Bytes, Lba, Nanos};
use flashgauge_core::workload::{Operation, Request, Stop};

use crate::support::host::{random_units, request};
use crate::support::{KIB, MIB, at, iops, mean_latency_ns, random, seconds, sequential, step, within};

const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write;
/// A small disk with few sectors, so that a test can count them: 4 heads, 100 sectors a track, 1,000 cylinders.
const SMALL: &str = r#"{"capacity_bytes": 204800000, "outer_sectors_per_track": 100, "inner_sectors_per_track": 100}"#;

fn disk(changes: &str) -> DiskParameters {
    DiskParameters::preset("sas-hdd", changes).unwrap()
}

/// `changes` on top of `SMALL`.
fn small(changes: &str) -> DiskParameters {
    let (mut all, more): (serde_json::Map<_, _>, serde_json::Map<_, _>) =
        (serde_json::from_str(SMALL).unwrap(), serde_json::from_str(changes).unwrap());
    all.extend(more);
    disk(&serde_json::Value::from(all).to_string())
}

fn session(parameters: DiskParameters, cache: bool) -> Session {
    let mut session = Session::simulated(parameters, 1, 4, 128).unwrap();
    session.control(Control::WriteCache(cache)).unwrap();
    session
}

/// One command, alone: when it was sent and when it was done.
fn one(disk: &mut SimDisk, request: Request) -> (u64, u64) {
    let (sent, mut done) = (disk.now().0, vec![]);
    disk.submit(0, &request).unwrap();
    disk.wait(Nanos::MAX, &mut done).unwrap();
    assert_eq!(done.len(), 1);
    (sent, done[0].at.0)
}

// Single accesses

/// The places of a small disk by plain counting: cylinder, head, and the time in each turn at which the sector begins.
fn place(sector: u64) -> (u64, u64, u64) {
    let (track, on_track) = (sector / 100, sector % 100);
    let (cylinder, head) = (track / 4, track % 4);
    let (head_skew, cylinder_skew) = (700_000, 700_000); // A switch or a seek to the next cylinder, and a write's settling.
    let skew = (cylinder * (3 * head_skew + cylinder_skew) + head * head_skew) % 4_000_000;
    (cylinder, head, (skew + on_track * 40_000) % 4_000_000)
}

#[test]
fn a_single_read_takes_controller_seek_rotation_and_transfer() {
    let parameters = small("{}");
    let mechanics = Mechanics::new(&parameters);
    assert_eq!(mechanics.geometry().cylinders, 1000);
    let mut disk = SimDisk::new(parameters, 1);
    disk.control(Control::WriteCache(false)).unwrap();
    let (mut cylinder, mut head) = (0, 0);
    // The same track, the next head, the next cylinder, the whole stroke and back, and anything.
    let known = [8, 0, 92, 107, 399, 400, 399_992, 3, 200_000, 200_050];
    for (count, sector) in known.into_iter().chain(random_units(1, 399_990).take(2000)).enumerate() {
        let operation = if count % 3 == 2 { WRITE } else { READ };
        let (sent, done) = one(&mut disk, request(operation, sector, 1));
        let (to_cylinder, to_head, begins) = place(sector);
        let moves = (to_cylinder, to_head) != (cylinder, head);
        let travel = match to_cylinder.abs_diff(cylinder) {
            0 => 200_000 * u64::from(moves),
            distance => mechanics.seek_ns(distance),
        } + 500_000 * u64::from(moves && operation == WRITE);
        let link = if operation == WRITE { 1_707 } else { 0 }; // 512 bytes at 300 MB/s, before the heads move.
        let ready = sent + 200_000 + link + travel;
        let wait = (0..4_000_000).step_by(1).find(|wait| (ready + wait) % 4_000_000 == begins).unwrap();
        assert_eq!(done, ready + wait + 40_000, "{operation:?} of sector {sector} after cylinder {cylinder}");
        (cylinder, head) = (to_cylinder, to_head);
    }
}

#[test]
fn seeks_have_the_data_sheets_times() {
    for changes in ["{}", r#"{"capacity_bytes": 1024000000}"#, r#"{"seek_average_ms": 8.5, "seek_full_ms": 17.0}"#] {
        let p = disk(changes);
        let mechanics = Mechanics::new(&p);
        let cylinders = mechanics.geometry().cylinders;
        let ms = |distance| mechanics.seek_ns(distance) as f64 / 1e6;
        assert!((ms(1) - p.seek_track_ms).abs() < 2e-6);
        assert!((ms(cylinders - 1) - p.seek_full_ms).abs() < 2e-6);
        // All pairs of different cylinders: cylinders - d of them, in each direction, have distance d.
        let pairs = (cylinders * (cylinders - 1) / 2) as f64;
        let sum: f64 = (1..cylinders).map(|d| (cylinders - d) as f64 * ms(d)).sum();
        assert!((sum / pairs - p.seek_average_ms).abs() < 1e-5, "mean seek {}", sum / pairs);
        assert!((1..cylinders - 1).all(|d| mechanics.seek_ns(d) <= mechanics.seek_ns(d + 1)), "longer, later");
    }
}

/// A mean of n accesses has a standard error of s / sqrt(n); seeks and rotation have s = 1.9 ms here, so that 4 sigma
/// of 20,000 are 0.054 ms, 1 %.
#[test]
fn random_reads_take_the_mean_seek_and_half_a_turn() {
    let mut session = session(disk("{}"), false);
    let result = step(&mut session, &random(4 * KIB, 100.0), Stop::Ios { ios: 20_000 });
    let expected = 0.2 + 3.3 + 2.0 + 8.0 * 4.0 / 830.0;
    let mean = mean_latency_ns(&result) / 1e6;
    println!("T1Q1 RND 4 KiB R: {mean:.3} ms, expected {expected:.3}");
    assert!((mean - expected).abs() < 0.054, "{mean} ms, expected {expected}");
    let result = step(&mut session, &random(4 * KIB, 0.0), Stop::Ios { ios: 20_000 });
    let mean = mean_latency_ns(&result) / 1e6;
    println!("T1Q1 RND 4 KiB W: {mean:.3} ms, expected {:.3}", expected + 0.5137);
    assert!((mean - expected - 0.5137).abs() < 0.054, "a write settles and comes over the link: {mean} ms");
}

/// A cylinder is as many turns as it has tracks, and the switches between them: nothing else is lost.
#[test]
fn sequential_access_loses_the_switches_and_nothing_else() {
    let law = |spt: f64, bytes: f64| bytes * spt * 4.0 / (4.0 * 4.0 + 4.0 * 0.7) / 1e3; // MB/s
    let mut one_zone = session(disk("{}"), false);
    for read_percent in [100.0, 0.0] {
        let result = step(&mut one_zone, &at(sequential(MIB, read_percent), 1, 32), Stop::Ios { ios: 3000 });
        let (rate, expected) = (iops(&result) * 1.048576, law(830.0, 512.0));
        println!("SEQ 1024 KiB, {read_percent} % reads: {rate:.2} MB/s, expected {expected:.2}");
        assert!((rate / expected - 1.0).abs() < 0.002, "{rate} MB/s, expected {expected}");
    }
    let zoned = r#"{"zones": 20, "outer_sectors_per_track": 900, "inner_sectors_per_track": 600}"#;
    let mut zoned = session(disk(zoned), false);
    for (from, to, spt) in [(0.0, 5.0, 900.0), (97.0, 99.0, 600.0)] {
        let stimulus = at(within(sequential(MIB, 100.0), from, to), 1, 32);
        let result = step(&mut zoned, &stimulus, Stop::Ios { ios: 1500 });
        let (rate, expected) = (iops(&result) * 1.048576, law(spt, 512.0));
        assert!((rate / expected - 1.0).abs() < 0.005, "from {from} %: {rate} MB/s, expected {expected}");
    }
}

// The queue

/// In the order of arrival, depth gains the controller's time, which passes while the heads move, and no more; in a
/// better order, more the deeper the queue; a disk takes no more commands than it has slots.
#[test]
fn reordering_gains_with_depth() {
    let rate = |changes: &str, depth| {
        let mut session = session(disk(changes), false);
        iops(&step(&mut session, &at(random(4 * KIB, 100.0), 1, depth), Stop::Ios { ios: 10_000 }))
    };
    let fifo = rate(r#"{"queue_policy": "fifo"}"#, 32);
    let alone = 1e3 / (3.3 + 2.0 + 8.0 * 4.0 / 830.0);
    assert!((fifo / alone - 1.0).abs() < 0.014, "4 sigma: {fifo} IOPS, expected {alone}"); // 1.9 ms / 100 / 5.3 ms
    let rates = |changes: &str| [1, 2, 4, 8, 16, 32, 64].map(|depth| rate(changes, depth));
    let unlimited = r#"{"queue_slots": 64, "queue_age_limit_ms": 0}"#;
    let elevator = rates(r#"{"queue_slots": 64, "queue_age_limit_ms": 0, "queue_policy": "elevator"}"#);
    let sptf = rates(unlimited);
    println!("fifo {fifo:.0}, elevator {elevator:.0?}, shortest positioning time {sptf:.0?}");
    for rates in [elevator, sptf] {
        assert!(rates.windows(2).all(|pair| pair[1] > 1.02 * pair[0]), "{rates:?}");
    }
    assert!((3..7).all(|i| sptf[i] > 1.1 * elevator[i]), "rotation counts: {sptf:?}, {elevator:?}");
    let limited = rate(r#"{"queue_age_limit_ms": 0}"#, 64);
    assert!((limited / sptf[4] - 1.0).abs() < 0.03, "16 slots are 16 slots: {limited}, {}", sptf[4]);
}

#[test]
fn nothing_waits_forever() {
    let longest = |limit: u32| {
        let mut session = session(disk(&format!(r#"{{"queue_age_limit_ms": {limit}, "queue_slots": 64}}"#)), false);
        let result = step(&mut session, &at(random(4 * KIB, 100.0), 1, 64), Stop::Ios { ios: 20_000 });
        (result.recorder.read.latency_max_ns as f64 / 1e6, iops(&result))
    };
    let (endless, most) = longest(0);
    let (limited, rate) = longest(300);
    println!("longest wait {endless:.0} ms at {most:.0} IOPS, with a limit of 300 ms {limited:.0} ms at {rate:.0}");
    assert!(endless > 700.0 && limited < 500.0 && rate < most);
}

/// The same seed gives the same run; every command comes back once, in order of time.
#[test]
fn runs_are_the_same_to_the_nanosecond() {
    let run = |cache: bool| {
        let mut disk = SimDisk::new(disk(r#"{"zones": 7, "inner_sectors_per_track": 500}"#), 48);
        disk.control(Control::WriteCache(cache)).unwrap();
        let mut draws = random_units(7, 1 << 40);
        let mut draw = move |below: u64| draws.next().unwrap() % below;
        let (mut busy, mut log, mut done) = ([false; 48], vec![], vec![]);
        for _ in 0..5_000 {
            while let Some(slot) = busy.iter().position(|busy| !busy) {
                let operation = if draw(2) == 0 { READ } else { WRITE };
                let length = 1 + draw(3000);
                let first = draw(80_026_361_856 / 512 - length);
                disk.submit(slot as u32, &request(operation, first, length)).unwrap();
                busy[slot] = true;
            }
            disk.wait(Nanos::MAX, &mut done).unwrap();
            for completion in done.drain(..) {
                assert!(std::mem::take(&mut busy[completion.slot as usize]), "comes back once");
                assert_eq!(completion.at, disk.now());
                log.push((completion.slot, completion.at));
            }
        }
        assert!(log.is_sorted_by_key(|(_, at)| *at));
        log
    };
    for cache in [false, true] {
        assert_eq!(run(cache), run(cache));
    }
}

// The write cache

#[test]
fn the_cache_takes_writes_until_it_is_full() {
    let mut disk = SimDisk::new(disk("{}"), 1);
    let quick = 200_000 + 13_653; // The controller, and 4 KiB at 300 MB/s.
    let mut quickly = 0;
    for unit in random_units(3, 10_000_000).take(100) {
        let (sent, done) = one(&mut disk, request(WRITE, 8 * unit, 8));
        quickly += u32::from(done - sent == quick);
        assert!(quickly >= 16 || done - sent == quick, "there is room for 16 writes");
    }
    assert!((16..40).contains(&quickly), "after that, for what the heads have written: {quickly} of 100");
    let before = disk.now();
    disk.control(Control::WriteCache(false)).unwrap();
    assert!(disk.now().since(before) > 10_000_000, "what the cache holds is written out before it is off");
    let (sent, done) = one(&mut disk, request(WRITE, 8, 8));
    assert!(done - sent > 5 * quick, "without the cache a write waits for the disk");
}

#[test]
fn the_cache_absorbs_what_is_overwritten_and_serves_what_it_holds() {
    let mut disk = SimDisk::new(disk("{}"), 8);
    let mut done = vec![];
    // Four writes: one goes to the heads at once, three stay a while.
    for (slot, sector) in [800_000, 90_000_000, 40_000, 120_000_000].into_iter().enumerate() {
        disk.submit(slot as u32, &request(WRITE, sector, 8)).unwrap();
    }
    // The next to be sent are the last again, and a read of a part of it.
    disk.submit(4, &request(WRITE, 120_000_000, 8)).unwrap();
    disk.submit(5, &request(READ, 120_000_002, 3)).unwrap();
    while done.len() < 6 {
        disk.wait(Nanos::MAX, &mut done).unwrap();
    }
    let last = done.last().unwrap().at.0;
    assert!(last < 6 * 200_000 + 100_000, "all of them took the controller's time only: {last} ns");
}

/// With a deep cache the heads have more to choose from than the queue gives them.
#[test]
fn a_cache_of_more_writes_is_faster() {
    let rate = |segments: u32, cache: bool| {
        let mut session = session(disk(&format!(r#"{{"write_cache_segments": {segments}}}"#)), cache);
        step(&mut session, &at(random(4 * KIB, 0.0), 1, 32), Stop::Ios { ios: 2_000 });
        iops(&step(&mut session, &at(random(4 * KIB, 0.0), 1, 32), Stop::Ios { ios: 8_000 }))
    };
    let (without, small, large) = (rate(16, false), rate(16, true), rate(64, true));
    println!("{without:.0} IOPS of writes without the cache, {small:.0} with 16 in it, {large:.0} with 64");
    assert!((small / without - 1.0).abs() < 0.05, "as many to choose from: {small}, {without}");
    assert!(large > 1.2 * small);
}

// The preset

/// Row 2 of the comparison by storage class: each rate within 15 %. The rates' standard errors are below 1 %.
#[test]
fn the_preset_is_near_its_row() {
    let row = [(4.0, 0.0, 340.0), (4.0, 65.0, 398.0), (4.0, 100.0, 401.0), (1024.0, 0.0, 84.0), (1024.0, 100.0, 90.0)];
    for cache in [false, true] {
        let mut session = session(disk("{}"), cache);
        let fresh = iops(&step(&mut session, &at(random(4 * KIB, 0.0), 4, 32), seconds(60.0)));
        println!("cache {cache}: FOB RND 4 KiB W {fresh:.0} ({:+.1} %)", 100.0 * (fresh / 350.0 - 1.0));
        assert!((fresh / 350.0 - 1.0).abs() < 0.15);
        for (kib, read, published) in row {
            let stimulus = if kib > 4.0 { at(sequential(MIB, read), 1, 32) } else { at(random(4 * KIB, read), 2, 16) };
            let rate = iops(&step(&mut session, &stimulus, seconds(60.0))) * if kib > 4.0 { 1.048576 } else { 1.0 };
            let off = rate / published - 1.0;
            println!("{kib} KiB, {read} % reads: {rate:.1}, published {published} ({:+.1} %)", 100.0 * off);
            assert!(off.abs() < 0.15, "{kib} KiB, {read} % reads: {rate:.1}, published {published}");
        }
    }
}

/// A purge does nothing: the rate after it is the rate before.
#[test]
fn a_purged_disk_is_the_same_disk() {
    let mut session = session(disk("{}"), false);
    let load = at(random(4 * KIB, 0.0), 1, 16);
    let before = iops(&step(&mut session, &load, Stop::Ios { ios: 10_000 }));
    session.control(Control::Purge).unwrap();
    let after = iops(&step(&mut session, &load, Stop::Ios { ios: 10_000 }));
    assert!((after / before - 1.0).abs() < 0.02, "{before}, {after}");
    let trim = session.control(Control::Trim { lba: Lba(0), bytes: Bytes(4096) }).unwrap_err();
    assert!(matches!(trim, Error::Target(TargetError::NotSupported(_))));
}

#[test]
fn presets_of_both_kinds_are_found_by_name() {
    for name in simulated::preset_names() {
        let parameters = Parameters::preset(name, "{}").unwrap();
        assert_eq!(matches!(parameters, Parameters::Disk(_)), name == "sas-hdd", "{name}");
        assert!(simulated::preset_text(name).unwrap().starts_with("# "));
    }
    let unknown = Parameters::preset("sas-hd", "{}").unwrap_err().to_string();
    assert!(unknown.contains("sas-hdd") && unknown.contains("sata-enterprise"), "{unknown}");
}

#[test]
fn wrong_parameters_are_errors_that_name_them() {
    for (name, value) in [
        ("dies", "8"),
        ("capacity_bytes", "1000"),
        ("capacity_bytes", "4096"),
        ("capacity_bytes", "9e12"),
        ("capacity_bytes", "140737488355328"),
        ("rpm", "0"),
        ("rpm", "\"fast\""),
        ("heads", "0"),
        ("heads", "65"),
        ("zones", "0"),
        ("outer_sectors_per_track", "0"),
        ("inner_sectors_per_track", "100001"),
        ("seek_track_ms", "-1"),
        ("seek_average_ms", "7"),
        ("seek_average_ms", "0.1"),
        ("head_switch_ms", "1e9"),
        ("write_settle_ms", "-0.1"),
        ("controller_us", "-1"),
        ("queue_slots", "0"),
        ("queue_policy", "\"lifo\""),
        ("queue_age_limit_ms", "-1"),
        ("write_cache_kib", "100000000"),
        ("write_cache_segments", "0"),
        ("link_mb_per_s", "0"),
    ] {
        let error = DiskParameters::preset("sas-hdd", &format!(r#"{{"{name}": {value}}}"#)).unwrap_err();
        let TargetError::DriveParameter { name: named, problem } = error else { panic!("{name} = {value}: {error}") };
        assert_eq!(named, name, "{value}: {problem}");
    }
    let zones = DiskParameters::preset("sas-hdd", r#"{"inner_sectors_per_track": 500}"#).unwrap_err().to_string();
    assert!(zones.contains("zones"), "{zones}");
    let policy = DiskParameters::preset("sas-hdd", r#"{"queue_policy": "lifo"}"#).unwrap_err().to_string();
    assert!(policy.contains("`elevator`") && policy.contains("`sptf`"), "{policy}");
}
