//! Faults on purpose. Counts of random faults are binomial: five standard deviations are allowed (one case in two
//! million). All else is exact.

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::{DriveParameters, SimDrive, UNIT};
use flashgauge_core::units::Nanos;
use flashgauge_core::workload::{Operation, Request};

use crate::support::host::{Host, random_units, read, request, write};
use crate::support::*;

const EIO: i32 = 5;
const ENODEV: i32 = 19;

fn small(changes: &str) -> DriveParameters {
    drive(&format!(r#"{{"capacity_bytes": 102400000, "dies": 4, "channels": 2, "over_provisioning": 0.2, {changes}}}"#))
}

/// One finished I/O: when it was submitted, when it completed, its errno.
type Outcome = (u64, u64, Result<(), i32>);

/// The requests, `depth` at a time, as they complete.
fn outcomes(drive: &mut SimDrive, depth: u32, requests: impl IntoIterator<Item = Request>) -> Vec<Outcome> {
    let mut requests = requests.into_iter().fuse();
    let (mut begun, mut free) = (vec![0; depth as usize], (0..depth).rev().collect::<Vec<_>>());
    let (mut submitted, mut finished, mut done) = (0, vec![], vec![]);
    loop {
        while let Some(slot) = free.pop() {
            let Some(request) = requests.next() else { break };
            drive.submit(slot, &request).unwrap();
            begun[slot as usize] = drive.now().0;
            submitted += 1;
        }
        if finished.len() == submitted {
            return finished;
        }
        drive.wait(Nanos::MAX, &mut done).unwrap();
        for completion in done.drain(..) {
            finished.push((begun[completion.slot as usize], completion.at.0, completion.result));
            free.push(completion.slot);
        }
    }
}

fn one(drive: &mut SimDrive, request: Request) -> Result<(), i32> {
    drive.submit(0, &request).unwrap();
    let mut done = vec![];
    while done.is_empty() {
        drive.wait(Nanos::MAX, &mut done).unwrap();
    }
    done[0].result
}

/// Written once, and in flash.
fn filled(p: &DriveParameters) -> SimDrive {
    let mut host = Host::new(p.clone(), 32);
    host.fill(p.geometry().units);
    host.drive.set_write_cache(true);
    host.drive
}

fn unreadable(drive: &mut SimDrive, units: u64) -> Vec<u64> {
    (0..units).filter(|unit| one(drive, read(*unit, 1)).is_err()).collect()
}

#[test]
fn unreadable_units_stay_so_until_they_are_rewritten() {
    let p = small(r#""fault_read_error_rate": 0.01, "fault_read_errors_max": 100000"#);
    let units = p.geometry().units;
    let mut drive = filled(&p);
    let first = unreadable(&mut drive, units);
    assert_share(first.len() as u64, units, 0.01, "a read in a hundred fails");
    assert_eq!(drive.faults().unreadable_units, first.len() as u64);
    assert_eq!(one(&mut drive, read(first[0], 1)), Err(EIO));
    let near = first[0].saturating_sub(3);
    assert_eq!(one(&mut drive, read(near, 8)), Err(EIO), "one unit spoils a larger read");
    let again = unreadable(&mut drive, units);
    assert!(first.iter().all(|unit| again.contains(unit)), "all of the first are still unreadable");

    // With the bound reached no more come, and what is cured stays cured.
    let p = small(r#""fault_read_error_rate": 0.01, "fault_read_errors_max": 50"#);
    let mut drive = filled(&p);
    let bad = unreadable(&mut drive, units);
    assert_eq!((bad.len(), drive.faults().unreadable_units), (50, 50));
    assert_eq!(one(&mut drive, request(Operation::Write, 8 * bad[0], 4)), Ok(()));
    assert_eq!(one(&mut drive, read(bad[0], 1)), Err(EIO), "half of it is rewritten: the other half is lost");
    outcomes(&mut drive, 2, bad[..20].iter().map(|unit| write(*unit, 1)));
    let lba = flashgauge_core::units::Lba(8 * bad[20]);
    drive.control(Control::Trim { lba, bytes: flashgauge_core::units::Bytes(UNIT) }).unwrap();
    let part = flashgauge_core::units::Lba(8 * bad[21] + 1);
    drive.control(Control::Trim { lba: part, bytes: flashgauge_core::units::Bytes(512) }).unwrap();
    assert_eq!(unreadable(&mut drive, units), bad[21..], "a part of a unit is not trimmed");
    // Collection does not make them better.
    outcomes(&mut drive, 32, random_units(3, 1).map(|_| write(units - 1, 1)).take(2 * units as usize));
    let expected: Vec<_> = bad[21..].iter().copied().filter(|unit| *unit != units - 1).collect();
    assert_eq!(unreadable(&mut drive, units), expected);
    drive.control(Control::Purge).unwrap();
    assert_eq!(unreadable(&mut drive, units), [0; 0]);
}

/// A page that fails is programmed twice: with every page failing, at half the rate, within 1 % for the dies that end early.
#[test]
fn failed_programs_cost_their_time_and_make_bad_blocks() {
    let rate = |changes: &str| {
        let p = small(&format!(
            r#""channel_mb_per_s": 10000.0, "program_us": 3000.0, "over_provisioning": 4.0,
            "write_commands_per_map_page": 0, {changes}"#
        ));
        let mut drive = SimDrive::new(p.clone(), 32).unwrap();
        let done = outcomes(&mut drive, 32, (0..1400).map(|i| write(4 * i, 4)));
        (1000.0 / (done[1299].1 - done[299].1) as f64, drive.faults().bad_blocks)
    };
    let (sound, none) = rate(r#""fault_program_error_rate": 0.0"#);
    let (failing, all) = rate(r#""fault_program_error_rate": 1.0, "fault_bad_blocks_max": 1600"#);
    let (bounded, few) = rate(r#""fault_program_error_rate": 1.0, "fault_bad_blocks_max": 7"#);
    assert!((sound / failing / 2.0 - 1.0).abs() < 0.01, "{sound} and {failing} pages per ns");
    assert!((sound / bounded - 1.0).abs() < 0.01, "seven pages of more than a thousand");
    assert_eq!((none, few), (0, 7));
    assert!((1400 - 256 / 4..=1400).contains(&all), "{all} bad blocks: all pages but those in the buffer");
}

/// Write amplification of a drive that lost 20 superblocks is that of one that never had them, within 1 %: three
/// times the deviation between seeds of the load.
#[test]
fn bad_blocks_are_spare_capacity_less() {
    let base = small(r#""fault_seed": 1"#).geometry();
    let superblocks = base.superblocks - 20;
    let flash = (superblocks - 5) * base.units_per_superblock; // Without reserve and frontiers, as the geometry adds them.
    let amplification = |p: &DriveParameters, retired: u64| {
        let units = p.geometry().units;
        let mut host = Host::new(p.clone(), 32);
        host.fill(units);
        host.run(32, random_units(1, units).take(10 * units as usize).map(|unit| write(unit, 1)));
        let (written, collected) = host
            .moved(|host| _ = host.run(32, random_units(2, units).take(8 * units as usize).map(|unit| write(unit, 1))));
        host.drive.check();
        assert_eq!(host.drive.faults().bad_blocks, 4 * retired);
        (written + collected) as f64 / written as f64
    };
    let worn = small(r#""fault_program_error_rate": 0.01, "fault_bad_blocks_max": 80"#);
    let op = (flash as f64 - 0.5) / base.units as f64 - 1.0;
    let less =
        drive(&format!(r#"{{"capacity_bytes": 102400000, "dies": 4, "channels": 2, "over_provisioning": {op}}}"#));
    assert_eq!(less.geometry().superblocks, superblocks);
    assert_eq!(less.geometry().units_per_superblock, base.units_per_superblock);
    let (worn, less, sound) =
        (amplification(&worn, 20), amplification(&less, 0), amplification(&small(r#""fault_seed": 2"#), 0));
    assert!((worn / less - 1.0).abs() < 0.01, "{worn} with 20 superblocks bad, {less} without them");
    assert!(worn > 1.05 * sound, "{worn} with 20 superblocks bad, {sound} before");
    let error = DriveParameters::preset(
        "sata-enterprise",
        r#"{"fault_program_error_rate": 0.1, "fault_bad_blocks_max": 1000000}"#,
    );
    assert!(error.unwrap_err().to_string().contains("fault_bad_blocks_max"));
}

#[test]
fn a_pause_delays_the_command_that_meets_it_by_its_length() {
    let p = small(r#""fault_spike_rate": 0.02, "fault_spike_ms": 50.0"#);
    let mut drive = SimDrive::new(p.clone(), 1).unwrap();
    let done = outcomes(&mut drive, 1, random_units(1, p.geometry().units).take(10_000).map(|unit| write(unit, 1)));
    let latencies: Vec<u64> = done.iter().map(|io| io.1 - io.0).collect();
    let base = *latencies.iter().min().unwrap();
    let spikes = latencies.iter().filter(|latency| **latency == base + 50_000_000).count() as u64;
    assert_eq!(spikes, drive.faults().spikes, "each is seen, at QD 1 in full");
    assert!(latencies.iter().all(|latency| *latency <= base + 50_000_000));
    assert_share(spikes, 10_000, 0.02, "a command in fifty meets one");
}

#[test]
fn there_are_no_more_pauses_than_allowed() {
    let p = small(r#""fault_spike_rate": 1.0, "fault_spike_ms": 50.0, "fault_spikes_max": 7"#);
    let mut drive = SimDrive::new(p, 1).unwrap();
    let done = outcomes(&mut drive, 1, (0..100).map(|unit| write(unit, 1)));
    assert_eq!(drive.faults().spikes, 7);
    assert!(done.iter().enumerate().all(|(i, io)| (io.1 - io.0 > 50_000_000) == (i < 7)));
}

/// New data cures a unit when it is in flash; lost before, it leaves what could not be read.
#[test]
fn a_power_loss_brings_an_unreadable_unit_back() {
    let p = small(
        r#""fault_read_error_rate": 1.0, "fault_read_errors_max": 1, "track_data": true,
        "power_loss_protection": false"#,
    );
    for (flushed, then) in [(false, Err(EIO)), (true, Ok(()))] {
        let mut drive = filled(&p);
        assert_eq!(one(&mut drive, read(7, 1)), Err(EIO));
        for _ in 0..2 {
            assert_eq!(one(&mut drive, write(7, 1)), Ok(()));
            assert_eq!(one(&mut drive, read(7, 1)), Ok(()), "from the buffer");
        }
        if flushed {
            drive.set_write_cache(true);
            assert_eq!(one(&mut drive, write(7, 1)), Ok(()), "the last one is lost, those before are not");
        }
        drive.control(Control::PowerLoss).unwrap();
        assert_eq!(one(&mut drive, read(7, 1)), then, "flushed: {flushed}");
    }
}

/// What lasts until the buffer is written out, or a purge begins, is time in which things happen.
#[test]
fn power_may_be_lost_while_the_cache_is_written_out() {
    let run = |changes: &str, control: Control| {
        let p = small(&format!(r#""track_data": true, "power_loss_protection": false{changes}"#));
        let mut drive = SimDrive::new(p, 32).unwrap();
        outcomes(&mut drive, 32, (0..256).map(|unit| write(unit, 1)));
        let before = drive.now().0;
        drive.control(control).unwrap();
        let held = (0..256).filter(|unit| drive.stamp_of(*unit) > 0).count();
        (before, drive.now().0, held, drive.faults().power_losses)
    };
    let off = Control::WriteCache(false);
    let (begin, end, held, losses) = run("", off);
    assert_eq!((held, losses), (256, 0));
    let at = begin.midpoint(end);
    let cut = format!(r#", "fault_power_loss_after_s": {}"#, at as f64 / 1e9);
    let (_, now, held, losses) = run(&cut, off);
    assert_eq!((now, losses), (at, 1));
    assert!((1..256).contains(&held), "{held} units are in flash");
    assert_eq!(run(&cut, Control::Purge).3, 1);
}

/// Half of the spare capacity is half of what is left of it: otherwise, as here, where more than half of it is lost,
/// idle time would go on until nothing stale is left.
#[test]
fn collection_while_idle_reckons_with_bad_blocks() {
    let collected = |percent: u32| {
        let p = small(&format!(
            r#""fault_program_error_rate": 0.01, "fault_bad_blocks_max": 240, "idle_collect_after_ms": 1000,
            "idle_collect_free_percent": {percent}"#
        ));
        assert!(60 > p.spare_superblocks() / 2);
        let units = p.geometry().units;
        let mut host = Host::new(p, 32);
        host.fill(units);
        host.run(32, random_units(1, units).take(5 * units as usize).map(|unit| write(unit, 1)));
        assert_eq!(host.drive.faults().bad_blocks, 240);
        host.moved(|host| host.rest(1000 * SECOND)).1
    };
    let (half, all) = (collected(50), collected(100));
    assert!(0 < half && half < all * 3 / 4, "{half} units for half of the spare capacity, {all} for all of it");
}

#[test]
fn a_drive_that_drops_out_fails_everything_from_then_on() {
    for (changes, ios) in
        [(r#""fault_dropout_after_ios": 1000"#, Some(1000)), (r#""fault_dropout_after_s": 0.05"#, None)]
    {
        let p = small(changes);
        let mut drive = SimDrive::new(p.clone(), 32).unwrap();
        let done = outcomes(&mut drive, 32, random_units(1, p.geometry().units).take(5000).map(|unit| write(unit, 1)));
        assert_eq!(done.len(), 5000, "every command comes back");
        let served = done.iter().position(|io| io.2.is_err()).unwrap();
        assert!(done[served..].iter().all(|io| io.2 == Err(ENODEV)), "nothing is served after that");
        match ios {
            // The 1001st finds it gone, with those that were outstanding.
            Some(ios) => assert!((ios - 31..=ios).contains(&served), "{served} were served"),
            None => assert_eq!(done[served].1, 50_000_000),
        }
        assert!(done.last().unwrap().1 > done[served].1, "time goes on");
        let error = drive.control(Control::Purge).unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
    }
}

#[test]
fn a_drive_that_drops_out_while_its_power_is_off_stays_away() {
    let p = small(r#""fault_dropout_after_s": 0.5, "fault_power_loss_after_s": 0.4, "power_on_ms": 200.0"#);
    let mut drive = SimDrive::new(p.clone(), 8).unwrap();
    let done = outcomes(&mut drive, 8, random_units(1, p.geometry().units).take(20_000).map(|unit| write(unit, 1)));
    assert!(done.iter().filter(|io| io.2 == Err(EIO)).all(|io| io.1 == 400_000_000));
    assert!(done.iter().filter(|io| io.1 > 400_000_000).all(|io| io.2 == Err(ENODEV)), "not even when power is back");
    assert!(done.last().unwrap().1 > 600_000_000);
    drive.power_loss(&mut vec![]).unwrap();
    assert_eq!(one(&mut drive, read(0, 1)), Err(ENODEV), "nor does another power loss bring it back");
}

/// Neither does it collect while it is idle, nor fold its cache.
#[test]
fn a_drive_that_has_dropped_out_does_nothing_of_its_own_accord() {
    for (work, done) in [
        (r#""idle_collect_after_ms": 20.0, "idle_collect_free_percent": 50.0"#, 0),
        (r#""slc_static_mib": 8, "bits_per_cell": 3, "slc_fold_after_ms": 20.0"#, 1),
    ] {
        // The last command, and those outstanding with it, find it gone.
        for (gone, fault) in [(false, ""), (true, r#", "fault_dropout_after_ios": 74999"#)] {
            let mut drive = SimDrive::new(small(&format!("{work}{fault}")), 32).unwrap();
            let requests = random_units(1, 25_000).take(75_000).map(|unit| write(unit, 1));
            assert_eq!(outcomes(&mut drive, 32, requests).last().unwrap().2.is_err(), gone);
            let moved = |drive: &SimDrive| {
                let counters = drive.counters();
                [counters.collected_units, counters.folded_units][done]
            };
            let before = moved(&drive);
            let until = Nanos(drive.now().0 + 10_000_000_000);
            while drive.now() < until {
                drive.wait(until, &mut vec![]).unwrap();
            }
            assert_eq!(moved(&drive) == before, gone, "{work}: collected when it is there only");
        }
    }
}

#[test]
fn faults_repeat_with_their_seed_and_only_with_it() {
    let run = |seed: u64| {
        let p = small(&format!(
            r#""fault_seed": {seed}, "fault_read_error_rate": 0.001, "fault_program_error_rate": 0.01,
            "fault_spike_rate": 0.001"#
        ));
        let mut drive = SimDrive::new(p.clone(), 32).unwrap();
        let places = random_units(5, p.geometry().units - 4).take(20_000);
        let done =
            outcomes(&mut drive, 32, places.map(|unit| if unit % 3 == 0 { read(unit, 4) } else { write(unit, 1) }));
        (done, drive.faults())
    };
    let (first, faults) = run(1);
    assert!(faults.unreadable_units > 0 && faults.bad_blocks > 0 && faults.spikes > 0, "{faults:?}");
    assert_eq!((&first, faults), (&run(1).0, run(1).1));
    assert_ne!(first, run(2).0);
}
