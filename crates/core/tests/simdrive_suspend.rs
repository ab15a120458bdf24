//! Suspension of programs for reads: who waits for whom, and how long, to the nanosecond.

mod support;

use flashgauge_core::engine::{Control, Device, Session};
use flashgauge_core::simdrive::DriveParameters;
use flashgauge_core::units::Nanos;
use flashgauge_core::workload::{Operation, Stop};

use crate::support::host::{Host, read, request, write};
use crate::support::*;

/// One die; writes are done when they are in flash, so that the end of a program is seen.
fn one_die(changes: &str) -> DriveParameters {
    drive(&format!(
        r#"{{"capacity_bytes": 51200000, "dies": 1, "channels": 1, "full_duplex": true, "controller_mb_per_s": 0,
        "controller_read_overhead_us": 0, "power_loss_protection": false, "write_commands_per_map_page": 0,
        "program_us": 1300, "read_us": 50, "write_latency_us": 0{changes}}}"#
    ))
}

/// A write at once and reads at those times after it (us): when each of them was done, in ns after the write came.
fn program_and_reads(changes: &str, reads_us: &[u64]) -> Vec<u64> {
    let mut host = Host::new(one_die(changes), 32);
    host.fill(1000);
    host.drive.control(Control::WriteCache(false)).unwrap();
    host.rest(SECOND);
    let drive = &mut host.drive;
    let start = drive.now().0;
    let mut done = vec![];
    drive.submit(0, &write(0, 1)).unwrap();
    for (slot, at) in (1..).zip(reads_us) {
        let at = start + at * 1000;
        while drive.now().0 < at {
            drive.wait(Nanos(at), &mut done).unwrap();
        }
        drive.submit(slot, &read(500 + 8 * u64::from(slot), 1)).unwrap();
    }
    while done.len() < reads_us.len() + 1 {
        drive.wait(Nanos::MAX, &mut done).unwrap();
    }
    host.drive.check();
    done.sort_by_key(|completion| completion.slot);
    done.iter().map(|completion| completion.at.0 - start).collect()
}

const TR: u64 = 50_000;
const SUSPEND: u64 = 30_000;

#[test]
fn a_read_interrupts_a_program_which_ends_later_by_just_that_time() {
    let alone = program_and_reads("", &[])[0];
    let idle_read = program_and_reads("", &[5000])[1] - 5_000_000;
    let on = r#", "suspend": true, "suspend_us": 30"#;
    let [program, first] = program_and_reads(on, &[400])[..] else { panic!("two") };
    assert_eq!(first - 400_000, idle_read + SUSPEND);
    assert_eq!(program - alone, SUSPEND + TR);
    // Apart, each read interrupts it anew; at a time, one after the other in one interruption.
    let apart = program_and_reads(on, &[300, 600, 900]);
    assert_eq!(apart[0] - alone, 3 * (SUSPEND + TR));
    for (done, at) in apart[1..].iter().zip([300_000, 600_000, 900_000]) {
        assert_eq!(done - at, idle_read + SUSPEND);
    }
    let together = program_and_reads(on, &[400, 400, 400]);
    assert_eq!(together[0] - alone, SUSPEND + 3 * TR);
    assert_eq!(together[3] - 400_000, idle_read + SUSPEND + 2 * TR);
    // Without, the read waits for the end of the program, and costs it nothing.
    let [program, first] = program_and_reads("", &[400])[..] else { panic!("two") };
    assert_eq!(program, alone);
    assert_eq!(first, alone + idle_read);
}

/// While its page comes over the channel, the program has not begun: the read takes the die meanwhile.
#[test]
fn a_read_goes_before_a_program_whose_data_is_still_coming() {
    let slow = r#", "suspend": true, "suspend_us": 30, "channel_mb_per_s": 20"#;
    let alone = program_and_reads(slow, &[])[0];
    // 16 KiB take 819 us.
    let [program, first] = program_and_reads(slow, &[200])[..] else { panic!("two") };
    assert_eq!(program, alone, "nothing is lost");
    assert!(first < alone - 1_300_000 + 2 * 205_000, "{first} ns: it waits for the channel, not for the program");
    let late = program_and_reads(slow, &[830])[0];
    assert!((1..=TR).contains(&(late - alone)), "the data was there before the read was done: {} ns", late - alone);
}

#[test]
fn so_many_reads_go_before_a_program_and_no_more() {
    let changes = r#", "suspend": true, "suspend_us": 30, "suspend_reads": 2"#;
    let alone = program_and_reads(changes, &[])[0];
    for times in [&[200, 400, 600, 800][..], &[400, 400, 400, 400], &[200, 201, 500, 700]] {
        let done = program_and_reads(changes, times);
        let lost = done[0] - alone;
        assert!(lost == 2 * (TR + SUSPEND) || lost == 2 * TR + SUSPEND, "{times:?}: {lost} ns");
        assert!(done[2] < done[0] && done[3] > done[0] && done[4] > done[3], "{times:?}: {done:?}");
    }
}

/// With priority, and without suspension: a read that comes while the die reads for the drive itself goes before the
/// program that waits behind that.
#[test]
fn a_read_goes_before_a_program_that_waits_behind_a_read_of_the_drives_own() {
    let changes = r#", "read_priority": true, "rmw_us": 20"#;
    let idle_read = program_and_reads(changes, &[5000])[1] - 5_000_000;
    let p = one_die(changes);
    let page_ns = (f64::from(p.geometry().units_per_page) * 4096e3 / p.channel_mb_per_s).round() as u64;
    let mut host = Host::new(p, 32);
    host.fill(1000);
    host.drive.control(Control::WriteCache(false)).unwrap();
    host.rest(SECOND);
    let drive = &mut host.drive;
    let mut done = vec![];
    drive.submit(0, &write(0, 1)).unwrap();
    let later = Nanos(drive.now().0 + 100_000);
    drive.wait(later, &mut done).unwrap();
    // A part of a unit, while the die programs: it will be read, and the page programmed.
    drive.submit(1, &request(Operation::Write, 8 * 400, 1)).unwrap();
    drive.wait(Nanos::MAX, &mut done).unwrap();
    let programmed = done[0].at.0;
    drive.wait(Nanos(programmed + 30_000), &mut done).unwrap();
    drive.submit(2, &read(700, 1)).unwrap();
    while done.len() < 3 {
        drive.wait(Nanos::MAX, &mut done).unwrap();
    }
    let own_read = programmed + TR + 20_000;
    assert_eq!(done.iter().map(|completion| completion.slot).collect::<Vec<_>>(), [0, 2, 1]);
    // The program takes the channel first.
    assert_eq!(done[1].at.0, own_read + idle_read + page_ns);
    assert_eq!(done[2].at.0, own_read + TR + page_ns + 1_300_000);
}

/// Among random writes that keep all dies busy, with suspension the tail of reads is some tR, without it some programs;
/// the writes are the fewer by the time of the reads and interruptions, nothing else. Standard error of a quantile of
/// these 99.9 %, of 10,000 reads and more: a third of the reads beyond it.
#[test]
fn the_tail_of_reads_is_that_of_reads() {
    let run = |suspend: bool| {
        let p = drive(&format!(
            r#"{{"capacity_bytes": 512000000, "dies": 8, "channels": 8, "full_duplex": true, "suspend": {suspend},
            "controller_mb_per_s": 0, "controller_read_overhead_us": 0, "queue_slots": 256}}"#
        ));
        let units = p.geometry().units;
        let (us, busy) = (p.read_us + p.suspend_us, f64::from(p.dies) * 1e6);
        let mut session = Session::simulated(p, 1, 4, 32).unwrap();
        step(&mut session, &at(sequential(128 * KIB, 0.0), 1, 32), Stop::Bytes { bytes: units / 32 * 32 * 4096 });
        let settle = Stop::Ios { ios: 2 * units };
        step(&mut session, &at(random(4096, 0.0), 4, 32), settle);
        let alone = iops(&step(&mut session, &at(random(4096, 0.0), 4, 32), seconds(4.0)));
        let mixed = step(&mut session, &at(random(4096, 10.0), 4, 32), seconds(20.0));
        let read = &mixed.recorder.read;
        let writes = iops(&mixed) * 0.9;
        // The share of the dies' time that reads take.
        let taken = iops(&mixed) * 0.1 * us / busy;
        assert!(read.histogram().len() > 10_000);
        (read.histogram().value_at_quantile(0.999) as f64 / 1e3, writes / alone, 1.0 - taken)
    };
    let (tail_us, writes, law) = run(true);
    assert!(tail_us < 500.0, "with: {tail_us} us");
    assert!((writes / law - 1.0).abs() < 0.02, "with: {writes} of the writes, not {law}");
    let (tail_us, ..) = run(false);
    assert!(tail_us > 1320.0, "without: {tail_us} us");
}
