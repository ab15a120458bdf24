//! Programs that write several pages of a plane at once (one-shot TLC), in time: a program costs the same however many
//! pages it writes, a read fetches one page of each plane.

mod support;

use flashgauge_core::engine::Device;
use flashgauge_core::simdrive::{DriveParameters, UNIT};

use crate::support::host::{Host, random_units, read, write};
use crate::support::*;

/// A link and a controller that limit nothing, four dies on channels of their own, and blocks as long as they are.
fn one_shot(pages: u32, changes: &str) -> DriveParameters {
    drive(&format!(
        r#"{{"capacity_bytes": 2000000000, "over_provisioning": 0.12, "dies": 4, "channels": 4, "pages_per_block": 96,
        "pages_per_program": {pages}, "write_commands_per_map_page": 0, "link_write_overhead_us": 0.1,
        "link_write_mb_per_s": 1e6, "link_write_max_iops": 1e9, "write_latency_us": 0.0, "controller_mb_per_s": 0.0,
        "controller_read_overhead_us": 0.0, "controller_write_overhead_us": 0.0{changes}}}"#
    ))
}

#[test]
fn a_read_takes_as_long_as_the_pages_of_the_program_that_it_touches() {
    let p = one_shot(3, "");
    let n = u64::from(p.geometry().units_per_page);
    assert_eq!(n, 3 * u64::from(p.planes) * p.page_bytes / UNIT);
    let mut host = Host::new(p.clone(), 32);
    host.fill(n * 200);
    host.rest(SECOND);
    let mut us = |first: u64, units: u64| host.one(read(100 * n + first, units)) as f64 / 1e3;
    let one = us(0, 1);
    let more = |units: u64| (units - 1) as f64 * UNIT as f64 * (1.0 / p.channel_mb_per_s + 1.0 / p.link_read_mb_per_s);
    // Pages of 4 units: within one, over an edge, all of them.
    for (first, units, senses) in [(0, 4, 1.0), (5, 2, 1.0), (3, 2, 2.0), (1, 10, 3.0), (0, 12, 3.0)] {
        let law = one + (senses - 1.0) * p.read_us + more(units);
        let ours = us(first, units);
        assert!((ours - law).abs() < 0.01, "{units} units from {first} on: {ours} us, not {law}");
    }
}

#[test]
fn a_fresh_drive_writes_a_program_in_the_time_of_one() {
    for pages in [1, 2, 3] {
        let p = one_shot(pages, "");
        let mut host = Host::new(p.clone(), 32);
        let bytes = f64::from(p.geometry().units_per_page) * UNIT as f64;
        let done = host.run(32, (0..400).map(|i| write(i * 256, 256)));
        let span = done[399].completed - done[99].completed;
        let (ours, law) =
            (300.0 * MIB as f64 / span as f64, 4e-3 * bytes / (p.program_us + bytes / p.channel_mb_per_s));
        assert!((ours / law - 1.0).abs() < 0.02, "{pages} pages: {ours:.4} bytes/ns, not {law:.4}");
    }
}

/// Die time of a host unit at write amplification `a`, in us: its share of programs and erases, and one read for each
/// page of flash that holds a valid unit (SIMULATION.md, section 3).
fn die_us(p: &DriveParameters, a: f64) -> f64 {
    let (g, transfer) = (p.geometry(), UNIT as f64 / p.channel_mb_per_s);
    let (n, m) = (f64::from(g.units_per_page), f64::from(g.units_per_sense));
    let pages = g.units_per_superblock as f64 / n / f64::from(p.dies);
    let valid = (a - 1.0) / a;
    let reads = (a - 1.0) * (1.0 - (1.0 - valid).powf(m)) * p.read_us / (m * valid);
    a * ((p.program_us + g.erase_ns as f64 / 1e3 / pages) / n + transfer) + reads
}

/// Reads are made slow, so that counting one for each program instead would be 30 % off.
#[test]
fn collection_reads_each_page_that_holds_anything() {
    let p = one_shot(3, r#", "read_us": 500.0"#);
    let units = p.geometry().units;
    let mut host = Host::new(p.clone(), 32);
    let mut draw = random_units(21, units);
    host.fill(units);
    let mut overwrite = |host: &mut Host, count: u64| {
        host.run(32, draw.by_ref().take(count as usize).map(|unit| write(unit, 1)));
    };
    overwrite(&mut host, 5 * units);
    let begin = host.drive.counters();
    let start = host.drive.now().0;
    overwrite(&mut host, units);
    let (end, span) = (host.drive.counters(), host.drive.now().0 - start);
    let (written, moved) = (end.host_units - begin.host_units, end.collected_units - begin.collected_units);
    let rate = written as f64 * 1e9 / span as f64;
    let law = f64::from(p.dies) * 1e6 / die_us(&p, 1.0 + moved as f64 / written as f64);
    assert!((rate / law - 1.0).abs() < 0.02, "{rate:.0} units/s, {law:.0} by die time");
    host.drive.check();
}
