//! Sudden loss of power: what a read-back finds is what the drive's cache and its protection promise. Every case is
//! exact; there is no statistical error.

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::{DriveParameters, SimDrive};
use flashgauge_core::units::Nanos;

use crate::support::host::{random_units, read, write};
use crate::support::judge::Judge;
use crate::support::*;

/// 1 MiB of buffer over dies that take 5 ms a page: much is on its way at any time.
fn slow(changes: &str) -> DriveParameters {
    drive(&format!(
        r#"{{"capacity_bytes": 102400000, "dies": 8, "channels": 4, "program_us": 5000.0, "track_data": true,
        "power_on_ms": 100.0, {changes}}}"#
    ))
}

const VOLATILE: &str = r#""power_loss_protection": false"#;
const PROTECTED: &str = r#""power_loss_protection": true"#;

/// Two drive writes, a random load that is cut, and the same again.
fn cut_under_load(p: &DriveParameters, cache: bool, block_units: u64) -> Judge {
    let units = p.geometry().units;
    let mut judge = Judge::new(p.clone(), 32);
    judge.switch_cache(cache);
    for seed in 1..=3 {
        let places = random_units(seed, units - block_units).take(4000);
        let writes: Vec<_> = places.map(|unit| write(unit, block_units)).collect();
        judge.run(32, &writes, Some(2000));
        judge.check();
    }
    judge
}

#[test]
fn a_volatile_cache_loses_what_it_holds_and_nothing_else() {
    for block_units in [1, 3, 100] {
        let judge = cut_under_load(&slow(VOLATILE), true, block_units);
        assert_eq!(judge.drive.faults().power_losses, 3);
        // The buffer is full when the power goes: 256 units, some of them of writes not acknowledged yet.
        assert!(judge.lost_units > 100, "{} units lost", judge.lost_units);
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_the_cache_off_or_protected() {
    for (changes, cache) in [(VOLATILE, false), (PROTECTED, true), (PROTECTED, false)] {
        for block_units in [1, 3, 100] {
            let judge = cut_under_load(&slow(changes), cache, block_units);
            assert_eq!(judge.lost_units, 0, "{changes}, cache {cache}");
        }
    }
}

#[test]
fn a_unit_that_lost_its_newest_data_holds_what_was_flushed_before() {
    let mut drive = SimDrive::new(slow(VOLATILE), 4).unwrap();
    let mut done = vec![];
    let mut one = |drive: &mut SimDrive, request| {
        drive.submit(0, &request).unwrap();
        while done.is_empty() {
            drive.wait(Nanos::MAX, &mut done).unwrap();
        }
        done.pop().unwrap().result
    };
    one(&mut drive, write(5, 1)).unwrap();
    drive.control(Control::WriteCache(true)).unwrap(); // Flushes.
    one(&mut drive, write(5, 2)).unwrap();
    one(&mut drive, write(5, 1)).unwrap();
    assert_eq!((drive.stamp_of(5), drive.stamp_of(6), drive.stamp_of(7)), (3, 2, 0));
    drive.control(Control::PowerLoss).unwrap();
    assert_eq!((drive.stamp_of(5), drive.stamp_of(6)), (1, 0), "flushed; never in flash");
    drive.check();
    one(&mut drive, read(5, 2)).unwrap();
    assert_eq!(drive.read_back(0), [1, 0]);
}

#[test]
fn power_that_goes_at_a_time_fails_what_is_outstanding_and_comes_back() {
    let p = slow(r#""fault_power_loss_after_s": 0.25, "power_loss_protection": false"#);
    let mut drive = SimDrive::new(p.clone(), 32).unwrap();
    let (mut done, mut next) = (vec![], random_units(1, p.geometry().units));
    let mut places = || write(next.next().unwrap(), 1);
    (0..32).for_each(|slot| drive.submit(slot, &places()).unwrap());
    let (mut failed, mut back) = (vec![], None);
    while back.is_none() {
        drive.wait(Nanos::MAX, &mut done).unwrap();
        for completion in done.drain(..) {
            match completion.result {
                Ok(()) if !failed.is_empty() => back = Some(completion.at.0),
                Ok(()) => assert!(completion.at.0 <= 250_000_000),
                Err(errno) => failed.push((completion.slot, completion.at.0, errno)),
            }
            drive.submit(completion.slot, &places()).unwrap();
        }
    }
    const EIO: i32 = 5;
    assert!(failed.iter().map(|io| io.0).eq(0..32), "each slot once: {failed:?}");
    assert!(failed.iter().all(|io| (io.1, io.2) == (250_000_000, EIO)), "{failed:?}");
    // The first write after it: link and latency as ever, from when the power is on.
    let first_us = p.link_write_overhead_us + 4096.0 / p.link_write_mb_per_s + p.write_latency_us;
    let expected = 350_000_000.0 + first_us * 1e3;
    assert!((back.unwrap() as f64 - expected).abs() < 3.0, "{back:?}, not {expected}");
    assert_eq!(drive.faults().power_losses, 1, "once only");
}

#[test]
fn a_drive_that_does_not_track_its_data_is_not_cut() {
    let mut drive = SimDrive::new(drive(r#"{"capacity_bytes": 102400000}"#), 1).unwrap();
    let error = drive.control(Control::PowerLoss).unwrap_err().to_string();
    assert!(error.contains("track_data=true"), "{error}");
}

/// Fails if a stamp is not moved with its data, or moved twice: the load collects all the time.
#[test]
fn collected_units_read_as_last_written() {
    for layout in LAYOUTS {
        let p = drive(&format!(
            r#"{{"capacity_bytes": 102400000, "dies": 4, "channels": 2, "over_provisioning": 0.1, "track_data": true,
            {layout}}}"#
        ));
        let units = p.geometry().units;
        let mut judge = Judge::new(p, 32);
        for seed in 1..=3 {
            let writes: Vec<_> =
                random_units(seed, units - 3).take(units as usize).map(|unit| write(unit, 1 + unit % 3)).collect();
            judge.run(32, &writes, None);
            let reads: Vec<_> = random_units(seed + 10, units - 8).take(5000).map(|unit| read(unit, 8)).collect();
            judge.run(32, &reads, None);
            judge.check();
        }
        let counters = judge.drive.counters();
        assert!(counters.collected_units > units, "collection moved data");
        assert_eq!(counters.folded_units > units, layout.contains("fold"), "folding moved data");
    }
}

/// One pool; pages of several rows; an SLC cache in front; hot and cold data apart.
const LAYOUTS: [&str; 4] = [
    r#""hot_percent": 0"#,
    r#""pages_per_program": 2"#,
    r#""slc_static_mib": 8, "slc_dynamic_percent": 20, "slc_when_full": "fold""#,
    r#""hot_percent": 20"#,
];

#[test]
fn no_layout_of_the_flash_loses_more() {
    for layout in LAYOUTS {
        for protection in [VOLATILE, PROTECTED] {
            cut_under_load(&slow(&format!("{protection}, {layout}")), true, 1);
            cut_under_load(&slow(&format!("{protection}, {layout}")), false, 3);
        }
    }
}
