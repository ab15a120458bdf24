//! The simulated drive against what follows from its parameters by pencil, and against the theory of write
//! amplification (SIMULATION.md, section 2). Through the `Device` trait, as the engine drives it.

mod support;

use flashgauge_core::engine::{Control, Device, Session};
use flashgauge_core::error::TargetError;
use flashgauge_core::simdrive::{DriveParameters, SimDrive, UNIT};
use flashgauge_core::units::{Bytes, Lba, SECTOR};
use flashgauge_core::workload::{Operation, Stop};
use proptest::prelude::*;

use crate::support::host::{Done, Host, random_units, read, request, write};
use crate::support::*;

/// 1 GB with few dies: 500 superblocks of about 600 units, as many as the large drives have.
fn small(changes: &str) -> DriveParameters {
    let separator = if changes.is_empty() { "" } else { ", " };
    drive(&format!(r#"{{"capacity_bytes": 1024000000, "dies": 8, "channels": 4{separator}{changes}}}"#))
}

/// Bytes per page of all planes.
fn page_bytes(p: &DriveParameters) -> f64 {
    (u64::from(p.planes) * p.page_bytes) as f64
}

/// The controller's data path in bytes/us.
fn controller_rate(p: &DriveParameters) -> f64 {
    if p.controller_mb_per_s > 0.0 { p.controller_mb_per_s } else { f64::INFINITY }
}

// Time

#[test]
fn sequential_writes_run_at_the_slowest_of_link_channels_and_dies() {
    // The preset (dies), a fast channel (dies, which wait for the controller now), the same without the controller
    // (dies by tPROG alone), fast dies (link), a slow channel (channels), a slow controller.
    for changes in [
        "{}",
        r#"{"channel_mb_per_s": 10000.0}"#,
        r#"{"channel_mb_per_s": 10000.0, "controller_mb_per_s": 0}"#,
        r#"{"channel_mb_per_s": 10000.0, "program_us": 600.0}"#,
        r#"{"channel_mb_per_s": 30.0, "program_us": 300.0}"#,
        r#"{"controller_mb_per_s": 150.0, "write_commands_per_map_page": 0, "controller_write_overhead_us": 50.0}"#,
    ] {
        let p = drive(changes);
        let mut host = Host::new(p.clone(), 32);
        let done = host.run(32, (0..1200).map(|i| write(i * 256, 256)));
        // The first 256 fill the buffer and start all dies.
        let span = done[1199].completed - done[255].completed;
        let ours = 944.0 * MIB as f64 / span as f64;
        let link = 1.0 / (1.0 / p.link_write_mb_per_s + p.link_write_overhead_us / MIB as f64);
        let channels = f64::from(p.channels) * p.channel_mb_per_s;
        let data_path = controller_rate(&p);
        let controller = 1.0 / (1.0 / data_path + p.controller_write_overhead_us / (256.0 * UNIT as f64));
        // The die waits while its page is brought: there is no second page register.
        let page_us = p.program_us + page_bytes(&p) / p.channel_mb_per_s.min(data_path);
        let dies = f64::from(p.dies) * page_bytes(&p) / page_us;
        let law = link.min(channels).min(dies).min(controller) / 1e3;
        assert!((ours / law - 1.0).abs() < 0.02, "{changes}: {ours:.4} bytes/ns, not {law:.4}");
    }
}

#[test]
fn a_single_reads_latency_is_the_sum_of_its_parts() {
    for changes in [
        "{}",
        r#"{"read_us": 75.0, "channel_mb_per_s": 166.0, "read_latency_us": 0.0}"#,
        r#"{"link_read_max_iops": 20000.0, "read_latency_us": 33.0}"#,
        r#"{"link_read_overhead_us": 25.0, "full_duplex": true, "read_priority": true, "dies": 5, "channels": 1}"#,
        r#"{"controller_mb_per_s": 0, "controller_read_overhead_us": 0}"#,
        r#"{"controller_mb_per_s": 0, "controller_read_overhead_us": 40.0}"#,
        r#"{"controller_mb_per_s": 100.0, "channel_mb_per_s": 90.0}"#,
    ] {
        let p = drive(changes);
        let mut host = Host::new(p.clone(), 32);
        host.fill(4096);
        host.rest(SECOND);
        // Each part is a whole number of ns.
        let ns = |us: f64| (us * 1e3).round() as u64;
        for bytes in [512, 4096] {
            let (bytes_us, least_us) = (bytes as f64 / p.link_read_mb_per_s, 1e6 / p.link_read_max_iops);
            let link = ns((least_us - bytes_us).max(p.link_read_overhead_us)) + ns(bytes_us);
            // The flash moves whole units, the link what was asked for; the slower of channel and controller counts.
            let controller = ns(p.controller_read_overhead_us) + ns(UNIT as f64 / controller_rate(&p));
            let across = controller.max(ns(UNIT as f64 / p.channel_mb_per_s));
            let law = ns(p.read_us) + across + link + ns(p.read_latency_us);
            assert_eq!(host.one(request(Operation::Read, 8 * 1001, bytes / 512)), law, "{changes}: {bytes} bytes");
        }
    }
}

/// Fresh out of the box, where channels and controller are no limit: min(dies x planes x page / tPROG, link).
#[test]
fn a_fresh_drive_writes_as_fast_as_its_dies_program_or_its_link_brings_data() {
    let wide = r#""channel_mb_per_s": 100000.0, "controller_mb_per_s": 0, "write_commands_per_map_page": 0"#;
    for changes in ["", r#", "program_us": 500.0"#, r#", "dies": 8"#, r#", "planes": 4, "link_write_mb_per_s": 2000.0"#]
    {
        let p = drive(&format!("{{{wide}{changes}}}"));
        let dies = f64::from(p.dies) * page_bytes(&p) / p.program_us;
        let law = dies.min(MIB as f64 / (p.link_write_overhead_us + MIB as f64 / p.link_write_mb_per_s));
        let mut host = Host::new(p, 32);
        let done = host.run(32, (0..1200).map(|i| write(i * 256, 256)));
        let mb_per_s = 944.0 * MIB as f64 * 1e3 / (done[1199].completed - done[255].completed) as f64;
        assert!((mb_per_s / law - 1.0).abs() < 0.02, "{changes}: {mb_per_s:.1} MB/s, not {law:.1}");
    }
}

#[test]
fn a_read_of_one_page_costs_one_page_and_pages_on_other_dies_overlap() {
    let p = drive("{}");
    let mut host = Host::new(p.clone(), 32);
    host.fill(4096);
    host.rest(SECOND);
    let latency = |host: &mut Host, units| host.one(read(1024, units)) as f64 / 1e3;
    let unit = UNIT as f64;
    let across_us = |units: f64| {
        let controller_us = p.controller_read_overhead_us + units * unit / controller_rate(&p);
        controller_us.max(units * unit / p.channel_mb_per_s)
    };
    let extra_us = across_us(4.0) - across_us(1.0) + 3.0 * unit / p.link_read_mb_per_s;
    let (one, four) = (latency(&mut host, 1), latency(&mut host, 4));
    assert!((four - one - extra_us).abs() < 0.01, "four units of a page: one tR, four transfers");
    let eight = latency(&mut host, 8);
    let second_us = 4.0 * unit / p.link_read_mb_per_s;
    assert!((eight - four - second_us).abs() < 0.01, "two dies on two channels: {four} us, {eight} us");
}

/// Deallocated or never written: answered from the map.
#[test]
fn reads_of_what_was_never_written_need_no_die() {
    let p = drive("{}");
    let mut host = Host::new(p.clone(), 32);
    let link_us = p.link_read_overhead_us + UNIT as f64 / p.link_read_mb_per_s;
    let expected = (p.controller_read_overhead_us + link_us + p.read_latency_us) * 1e3;
    let fresh = host.one(read(77, 1)) as f64;
    assert!((fresh - expected).abs() < 3.0, "{fresh} ns, not {expected}");
    host.fill(1024);
    host.rest(SECOND);
    assert!(host.one(read(77, 1)) as f64 > p.read_us * 1e3 + expected, "written: a die is read");
    host.drive.control(Control::Purge).unwrap();
    assert!((host.one(read(77, 1)) as f64 - expected).abs() < 3.0, "purged: as if never written");
    // All 32 outstanding: the link alone sets the rate, its limit of commands included.
    let done = host.run(32, (0..20_000).map(|i| read(i, 1)));
    let rate = 20_000.0 * 1e9 / (done[19_999].completed - done[0].submitted) as f64;
    let law = (1e6 / link_us).min(p.link_read_max_iops);
    assert!((rate / law - 1.0).abs() < 0.005, "{rate} IOPS, not {law}");
}

fn trim(sector: u64, sectors: u64) -> Control {
    Control::Trim { lba: Lba(sector), bytes: Bytes(sectors * SECTOR) }
}

/// What lies wholly in the range, no more; the drive's last unit even where it is cut short.
#[test]
fn trimmed_units_read_as_never_written_and_their_neighbours_as_before() {
    let p = drive(r#"{"capacity_bytes": 102402048}"#);
    let (units, sectors) = (p.geometry().units, p.capacity_bytes / SECTOR);
    let mut host = Host::new(p.clone(), 32);
    let unmapped = host.one(read(50, 1));
    host.fill(units - 1);
    host.run(1, [request(Operation::Write, 8 * (units - 1), 4)]);
    host.drive.set_write_cache(true); // The open page is in flash now.
    let mapped = |host: &mut Host, unit: u64| {
        host.rest(MILLISECOND);
        host.one(request(Operation::Read, 8 * unit, 4)) > unmapped
    };
    host.drive.control(trim(8 * 50 + 1, 8 * 20)).unwrap();
    host.drive.control(trim(sectors - 11, 11)).unwrap();
    for (unit, expected) in [(50, true), (51, false), (69, false), (70, true), (units - 2, true), (units - 1, false)] {
        assert_eq!(mapped(&mut host, unit), expected, "unit {unit} of {units}");
    }
    host.drive.check();
    for (sector, count) in [(sectors - 8, 9), (sectors + 1, 0), (1 << 54, 8), (8, 1 << 54)] {
        assert!(host.drive.control(trim(sector, count)).is_err(), "beyond the end");
    }
    host.drive.control(trim(0, sectors)).unwrap();
    assert!((0..units).step_by(97).all(|unit| !mapped(&mut host, unit)));
    host.drive.check();
}

/// Random reads over all dies: with so many outstanding that none idles, dies / (tR each), or the link.
#[test]
fn saturated_random_reads_run_at_the_dies_the_controller_or_the_link() {
    for (read_us, controller, queue) in [(50.0, 508.0, 256), (50.0, 0.0, 256), (2000.0, 508.0, 256)] {
        let p = drive(&format!(
            r#"{{"read_us": {read_us:.1}, "queue_slots": {queue}, "capacity_bytes": 1024000000,
            "controller_mb_per_s": {controller}}}"#
        ));
        let mut host = Host::new(p.clone(), queue);
        host.fill(p.geometry().units);
        host.rest(SECOND);
        let done = host.run(queue, random_units(3, p.geometry().units).take(60_000).map(|unit| read(unit, 1)));
        let rate = 60_000.0 * 1e9 / (done[59_999].completed - done[0].submitted) as f64;
        let link = p.link_read_max_iops.min(1e6 / (p.link_read_overhead_us + UNIT as f64 / p.link_read_mb_per_s));
        let controller = 1e6 / (p.controller_read_overhead_us + UNIT as f64 / controller_rate(&p));
        // n random ones over D dies keep n D / (n + D - 1) of them busy (SIMULATION.md, section 3) when service times
        // vary, and a little more when they do not.
        let (n, dies) = (f64::from(queue), f64::from(p.dies));
        let busy = |dies: f64| link.min(controller).min(dies * 1e6 / read_us);
        let law = busy(n * dies / (n + dies - 1.0))..busy(dies) * 1.001;
        assert!(law.contains(&(rate * 1.001)), "tR {read_us} us: {rate} IOPS, not {law:?}");
    }
}

#[test]
fn an_uncached_write_takes_its_program_and_a_cached_one_does_not() {
    let program_ns = |p: &DriveParameters| (p.program_us * 1e3) as u64;
    for (protected, cached) in [(true, true), (true, false), (false, true), (false, false)] {
        // Each 22nd command's mapping page would be waited for, too.
        let p = drive(&format!(r#"{{"power_loss_protection": {protected}, "write_commands_per_map_page": 0}}"#));
        let mut host = Host::new(p.clone(), 32);
        host.drive.control(Control::WriteCache(cached)).unwrap();
        let latencies: Vec<u64> = (0..50).map(|i| host.one(write(i * 1000, 1))).collect();
        let (least, most) = (*latencies.iter().min().unwrap(), *latencies.iter().max().unwrap());
        if protected || cached {
            assert!(most < program_ns(&p) / 10, "{most} ns through the buffer");
        } else {
            let transfer_ns = (page_bytes(&p) / p.channel_mb_per_s.min(p.controller_mb_per_s) * 1e3) as u64;
            let floor = program_ns(&p) + transfer_ns + (p.write_latency_us * 1e3) as u64;
            assert!(least >= floor, "{least} ns: the page goes over the channel and is programmed");
            let (link_ns, slack) = ((17.3e3) as u64, 100);
            assert!(most < floor + link_ns + slack, "{most} ns: and nothing else");
            // Alone, each write pays for the rest of its page.
            assert_eq!(host.drive.counters().padded_units, 50 * u64::from(p.geometry().units_per_page - 1));
        }
        host.drive.check();
    }
}

/// Writes that wait for flash and come together share pages: at queue depth 32 nothing needs padding for long.
#[test]
fn switching_the_cache_changes_the_latency_at_once_and_back() {
    let mut host = Host::new(drive(r#"{"power_loss_protection": false}"#), 32);
    let mut latency = |cached| {
        host.drive.control(Control::WriteCache(cached)).unwrap();
        host.one(write(5, 1))
    };
    let (on, off, again) = (latency(true), latency(false), latency(true));
    assert_eq!(on, again);
    assert!(off > 20 * on, "{off} ns without, {on} ns with the cache");
}

#[test]
fn small_writes_cost_a_read_modify_write() {
    let p = small(r#""rmw_us": 100.0"#);
    let units = p.geometry().units;
    let rate = |sectors: u64, filled: bool| {
        let mut host = Host::new(p.clone(), 32);
        if filled {
            host.fill(units);
        }
        let draw = random_units(4, units).take(40_000);
        let done = host.run(32, draw.map(|unit| request(Operation::Write, unit * 8 + 3 % (9 - sectors), sectors)));
        host.drive.check();
        // The half after the buffer has filled.
        20_000.0 * 1e9 / (done[39_999].completed - done[19_999].completed) as f64
    };
    let (small_write, whole) = (rate(1, true), rate(8, true));
    assert!(small_write < 0.8 * whole, "0.5 KiB: {small_write} IOPS, 4 KiB: {whole} IOPS");
    let (small_write, whole) = (rate(1, false), rate(8, false));
    assert!((small_write / whole - 1.0).abs() < 0.1, "nothing to read yet: {small_write}, {whole}");
}

/// What the write buffer held is gone with the purge; its room is not.
#[test]
fn purging_often_leaves_the_drive_as_fresh_as_once() {
    let mut host = Host::new(
        drive(
            r#"{"capacity_bytes": 102400000, "write_buffer_kib": 64,
        "write_commands_per_map_page": 0}"#,
        ),
        32,
    );
    let fresh: Vec<u64> = (0..64).map(|i| host.one(write(i, 1))).collect();
    for _ in 0..100 {
        host.drive.control(Control::Purge).unwrap();
        assert_eq!(host.one(write(0, 1)), fresh[0]);
    }
    host.drive.control(Control::Purge).unwrap();
    let again: Vec<u64> = (0..64).map(|i| host.one(write(i, 1))).collect();
    assert_eq!(again, fresh);
}

// Write amplification

#[test]
fn sequential_overwrites_move_nothing() {
    for changes in ["", r#""over_provisioning": 0.07"#] {
        let mut host = Host::new(small(changes), 32);
        let units = host.drive.parameters().geometry().units;
        for pass in 0..4 {
            let (written, collected) = host.moved(|host| host.fill(units));
            assert_eq!((written, collected), (units, 0), "write amplification is 1.000 in pass {pass}");
        }
        assert!(host.drive.counters().superblock_erases > 1000);
        host.drive.check();
    }
}

/// Section 1.4 of SIMULATION.md: separate frontiers, so that one sequential pass cleans up after random writes.
#[test]
fn after_random_writes_a_sequential_pass_brings_it_back_to_one() {
    let mut host = Host::new(small(""), 32);
    let units = host.drive.parameters().geometry().units;
    host.fill(units);
    host.run(32, random_units(1, units).take(3 * units as usize).map(|unit| write(unit, 1)));
    host.fill(units);
    let (_, collected) = host.moved(|host| host.fill(units));
    assert!(collected < units / 500, "{collected} units collected in the second pass");
}

/// FOB plateau: not one unit is collected until all flash but the reserve is written, that is 1 + OP drive writes.
#[test]
fn a_fresh_drive_collects_nothing_for_one_drive_write_and_its_spare() {
    for op in [0.1, 0.28, 0.6] {
        let mut host = Host::new(small(&format!(r#""over_provisioning": {op}"#)), 32);
        let units = host.drive.parameters().geometry().units as f64;
        let mut draw = random_units(5, units as u64);
        let mut go_to = |host: &mut Host, drive_writes: f64| {
            let count = (drive_writes * (1.0 + op) * units) as u64 - host.drive.counters().host_units;
            host.run(32, draw.by_ref().take(count as usize).map(|unit| write(unit, 1)));
            host.drive.counters()
        };
        let plateau = go_to(&mut host, 0.99);
        assert_eq!((plateau.collected_units, plateau.superblock_erases), (0, 0), "WA is 1 on the plateau, OP {op}");
        let beyond = go_to(&mut host, 1.02);
        assert!(beyond.collected_units > 0 && beyond.superblock_erases > 0, "then collection sets in, OP {op}");
        host.drive.check();
    }
}

/// W0 of the theory: the root above -1 of w e^w = x, for -1/e < x < 0, by Newton from the right.
fn lambert_w0(x: f64) -> f64 {
    (0..200).fold(0.0, |w: f64, _| w - (w * w.exp() - x) / ((w + 1.0) * w.exp()))
}

/// Random overwrites, large blocks: A = alpha / (alpha + W0(-alpha e^-alpha)) [Menon; Xiang and Kurkoski; Desnoyers].
fn amplification_of_large_blocks(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// The same for greedy collection and blocks of `b` units (SIMULATION.md, section 2): victims take one of two
/// successive valid counts, m and m + 1; g and a are their weights.
fn amplification_of_greedy(alpha: f64, b: u32) -> f64 {
    let harmonic = |n: u32| (1..=n).map(|i| 1.0 / f64::from(i)).sum::<f64>();
    let of = |m: u32| {
        let rest = f64::from(b - m - 1);
        let next = f64::from(m + 1);
        let g = (alpha / f64::from(b) - 1.0 / next) / (harmonic(b) - harmonic(m + 1) - rest / next);
        let a = 1.0 - g * rest;
        (0.0..=g).contains(&a).then_some(f64::from(b) * g)
    };
    (0..b - 1).find_map(of).expect("some count satisfies both equations")
}

#[test]
fn the_theory_gives_its_published_values() {
    for (rho, [b64, b256, b1024], fifo) in [
        (0.93, [6.6155, 7.1240, 7.2682], 7.3177),
        (0.85, [3.3536, 3.4759, 3.5079], 3.5187),
        (0.70, [1.8333, 1.8652, 1.8734], 1.8762),
    ] {
        assert!((amplification_of_large_blocks(1.0 / rho) - fifo).abs() < 1e-4);
        for (b, value) in [(64, b64), (256, b256), (1024, b1024)] {
            assert!((amplification_of_greedy(1.0 / rho, b) - value).abs() < 1e-3, "rho {rho}, b {b}");
        }
    }
}

/// Steady state under uniform random overwrites of a part of the drive, after 9 drive writes, over 3 more.
fn steady_amplification(op: f64, active: f64) -> (f64, f64, u32) {
    let p = small(&format!(r#""over_provisioning": {op}, "write_commands_per_map_page": 0"#));
    let geometry = p.geometry();
    let units = (geometry.units as f64 * active) as u64;
    let mut host = Host::new(p.clone(), 32);
    let mut draw = random_units(6, units);
    host.fill(units);
    let mut overwrite = |host: &mut Host, passes: u64| {
        host.run(32, draw.by_ref().take((passes * units) as usize).map(|unit| write(unit, 1)));
    };
    overwrite(&mut host, 9);
    let (written, collected) = host.moved(|host| overwrite(host, 3));
    assert_eq!(written, 3 * units);
    host.drive.check();
    // Of all superblocks, the reserve is free, and the two open ones are half full on average.
    let superblocks = geometry.superblocks - u64::from(p.gc_reserve_superblocks) - 1;
    let alpha = (superblocks * geometry.units_per_superblock) as f64 / units as f64;
    ((written + collected) as f64 / written as f64, alpha, geometry.units_per_superblock as u32)
}

#[test]
fn random_overwrites_amplify_as_the_theory_says() {
    for (op, active) in [(0.28, 1.0), (0.5, 1.0), (0.28, 0.75), (0.07, 0.75)] {
        let (ours, alpha, b) = steady_amplification(op, active);
        for theory in [amplification_of_large_blocks(alpha), amplification_of_greedy(alpha, b)] {
            assert!((ours / theory - 1.0).abs() < 0.01, "OP {op}, range {active}: {ours:.4}, theory {theory:.4}");
        }
    }
}

/// With little spare, one superblock more or less is 2.5 % of the result: the tolerance covers that one.
#[test]
fn low_over_provisioning_amplifies_as_the_theory_says() {
    let (ours, alpha, b) = steady_amplification(0.07, 1.0);
    let theory = amplification_of_greedy(alpha, b);
    assert!((ours / theory - 1.0).abs() < 0.025, "{ours:.4}, theory {theory:.4}");
    let (partly, _, _) = steady_amplification(0.07, 0.75);
    assert!(ours / partly > 3.5, "ActiveRange 75 %: {partly:.3} instead of {ours:.3}");
}

/// Free superblocks must last for any length of any run; the collector may not lose units to rounding.
#[test]
fn long_random_writing_never_runs_out_of_free_superblocks() {
    for changes in ["", r#""over_provisioning": 0.02"#, r#""pages_per_block": 4, "gc_reserve_superblocks": 3"#] {
        let p = drive(&format!(
            r#"{{"capacity_bytes": 102400000, "dies": 4, "channels": 2{}{changes}}}"#,
            if changes.is_empty() { "" } else { ", " }
        ));
        let units = p.geometry().units;
        let mut host = Host::new(p, 32);
        host.run(32, random_units(7, units).take(25 * units as usize).map(|unit| write(unit, 1)));
        host.drive.check();
    }
}

// Conservation

#[derive(Debug, Clone)]
enum Phase {
    /// Queue depth, and I/Os: write, first sector and sectors in shares of the capacity and of 130 sectors.
    Io(u32, Vec<(bool, f64, u64)>),
    Purge,
    Cache(bool),
    Rest(u64),
    /// First sector and length as shares.
    Trim(f64, f64),
}

fn phase() -> impl Strategy<Value = Phase> {
    let io = (any::<bool>(), 0.0f64..1.0, prop_oneof![1u64..=16, Just(8), 1u64..=130]);
    prop_oneof![
        6 => (1u32..=32, prop::collection::vec(io, 1..600)).prop_map(|(depth, ios)| Phase::Io(depth, ios)),
        1 => Just(Phase::Purge),
        2 => any::<bool>().prop_map(Phase::Cache),
        2 => (1u64..50_000_000).prop_map(Phase::Rest),
        1 => (0.0f64..1.0, 0.0f64..=1.0).prop_map(|(from, length)| Phase::Trim(from, length)),
    ]
}

fn tiny_drive() -> impl Strategy<Value = DriveParameters> {
    let idle = (0.001f64..3.0, 0.0f64..=100.0).prop_map(|(after, percent)| {
        format!(r#""idle_collect_after_ms": {after:?}, "idle_collect_free_percent": {percent:?},"#)
    });
    let idle = prop_oneof![Just(String::new()), idle];
    let when_full = prop::sample::select(vec!["direct", "fold"]);
    let fold = prop_oneof![Just(0.0), 0.001f64..3.0];
    let slc = (0u32..3, prop_oneof![Just(0.0), 1.0..100.0], when_full, fold).prop_map(|(mib, dynamic, full, fold)| {
        format!(
            r#""slc_static_mib": {mib}, "slc_dynamic_percent": {dynamic:?}, "slc_when_full": "{full}",
            "slc_fold_after_ms": {fold:?}"#
        )
    });
    let pools = (1.0..99.0, 0.0..100.0);
    let pools = pools.prop_map(|(hot, share)| format!(r#""hot_percent": {hot:?}, "hot_spare_percent": {share:?}"#));
    let layout = (prop_oneof![Just(String::from(r#""hot_percent": 0"#)), slc, pools], 1u32..=3);
    let counts = (4000u64..12_000, 1u32..=5, 1u32..=3, 1u32..=3, 3u32..=4);
    let choices =
        (0.005f64..0.6, any::<[bool; 3]>(), 1u32..=40, 0u32..=5, prop_oneof![Just(24u64), Just(64), Just(1024)], idle);
    let policies = ["greedy", "fifo", "random", "d-choices", "cost-benefit"];
    let collection = (prop::sample::select(policies.to_vec()), 1u32..=2, prop::sample::select(vec!["paced", "line"]));
    let all = (counts, choices, collection, layout);
    all.prop_filter_map("a drive this small needs enough blocks", |(counts, choices, gc, (layout, per_program))| {
        let (policy, frontiers, pacing) = gc;
        let (sectors, dies, channels, planes, reserve) = counts;
        let (op, [protected, priority, duplex], slots, map, buffer, idle) = choices;
        let json = format!(
            r#"{{"capacity_bytes": {}, "dies": {dies}, "channels": {channels}, "planes": {planes},
            "gc_reserve_superblocks": {reserve}, "over_provisioning": {op:?}, "power_loss_protection": {protected},
            "read_priority": {priority}, "full_duplex": {duplex}, "queue_slots": {slots},
            "write_commands_per_map_page": {map}, "write_buffer_kib": {buffer},
            {idle}
            "gc_policy": "{policy}", "gc_frontiers": {frontiers}, "gc_pacing": "{pacing}", {layout}, "bits_per_cell": 3, "pages_per_block": 240,
            "pages_per_program": {per_program}}}"#,
            sectors * 512
        );
        DriveParameters::preset("sata-enterprise", &json).ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, max_shrink_iters: 300, ..Default::default() })]

    /// Any mix of odd sizes and states: each I/O completes once (`Host::run` sees to that), every unit written is
    /// counted, the mapping stays sound, and the drive comes to rest.
    #[test]
    fn nothing_is_lost(p in tiny_drive(), phases in prop::collection::vec(phase(), 1..12)) {
        let sectors = p.capacity_bytes / 512;
        let mut host = Host::new(p, 32);
        let mut expected = 0;
        for phase in phases {
            match phase {
                Phase::Purge => {
                    host.drive.control(Control::Purge).unwrap();
                    expected = 0;
                }
                Phase::Cache(on) => host.drive.control(Control::WriteCache(on)).unwrap(),
                Phase::Rest(ns) => host.rest(ns),
                Phase::Trim(from, length) => {
                    let first = (from * sectors as f64) as u64;
                    let length = (length * (sectors - first) as f64) as u64;
                    host.drive.control(trim(first, length)).unwrap();
                }
                Phase::Io(depth, ios) => {
                    let requests: Vec<_> = ios.into_iter().map(|(writes, place, length)| {
                        let first = (place * (sectors - length) as f64) as u64;
                        request(if writes { Operation::Write } else { Operation::Read }, first, length)
                    }).collect();
                    let touched = |first: u64, length: u64| (first + length).div_ceil(8) - first / 8;
                    let writes = requests.iter().filter(|request| request.operation == Operation::Write);
                    expected += writes.map(|request| touched(request.lba.0, request.bytes.0 / 512)).sum::<u64>();
                    let count = requests.len();
                    prop_assert_eq!(host.run(depth, requests).len(), count);
                }
            }
            host.drive.check();
            prop_assert_eq!(host.drive.counters().host_units, expected, "units since purge");
        }
    }
}

/// Promise 10: to the last nanosecond.
#[test]
fn the_same_requests_take_the_same_time() {
    let run = |seed: u64| -> Vec<Done> {
        let mut host = Host::new(small(""), 32);
        let mix = random_units(seed, 240_000).take(60_000);
        host.fill(1000);
        host.run(32, mix.map(|unit| if unit % 3 == 0 { read(unit, 2) } else { write(unit, 1) }))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

// The preset

/// The Intel DC S3700 column of shared/reference, RND 4 KiB at T4Q32 in steady state, on a smaller drive of the
/// same rates (SIMULATION.md, section 3: they do not depend on the capacity).
#[test]
fn the_preset_lands_on_the_published_iops() {
    let p = drive(r#"{"capacity_bytes": 4000000000}"#);
    let units = p.geometry().units;
    let mut session = Session::simulated(p, 1, 4, 32).unwrap();
    let fill = Stop::Bytes { bytes: 2 * units / 256 * 256 * UNIT };
    step(&mut session, &at(sequential(128 * KIB, 0.0), 4, 32), fill);
    step(&mut session, &at(random(4096, 0.0), 4, 32), Stop::Ios { ios: 4 * units });
    for (read_percent, published) in [(0.0, 33_885.0), (65.0, 53_610.0), (100.0, 76_240.0)] {
        let ours = iops(&step(&mut session, &at(random(4096, read_percent), 4, 32), seconds(4.0)));
        let off = ours / published - 1.0;
        assert!(off.abs() < 0.15, "{read_percent} % reads: {ours:.0} IOPS, published {published}, {off:+.2}");
    }
}

#[test]
fn wrong_presets_and_parameters_are_errors_that_name_them() {
    let error = |name: &str, changes: &str| DriveParameters::preset(name, changes).unwrap_err();
    let unknown = error("sata-enterprize", "{}");
    assert!(matches!(&unknown, TargetError::UnknownPreset { .. }));
    assert!(unknown.to_string().contains("sata-enterprise"), "the message lists what there is: {unknown}");
    for (name, value) in [
        ("no_such_thing", "1"),
        ("capacity_bytes", "0"),
        ("capacity_bytes", "4095"),
        ("capacity_bytes", "1000001"),
        ("capacity_bytes", "65536"),
        ("capacity_bytes", "1e9"),
        ("capacity_bytes", "\"8GiB\""),
        ("capacity_bytes", "8796093022720"),
        ("over_provisioning", "0.0"),
        ("over_provisioning", "-1"),
        ("over_provisioning", "11"),
        ("over_provisioning", "\"7 %\""),
        ("over_provisioning", "null"),
        ("channels", "0"),
        ("dies", "0"),
        ("dies", "65537"),
        ("planes", "0"),
        ("planes", "64"),
        ("page_bytes", "0"),
        ("page_bytes", "6000"),
        ("pages_per_block", "0"),
        ("pages_per_program", "0"),
        ("pages_per_program", "17"),
        ("hot_percent", "100"),
        ("hot_percent", "-1"),
        ("hot_spare_percent", "101"),
        ("slc_static_mib", "2000000"),
        ("slc_dynamic_percent", "100.5"),
        ("slc_program_us", "0"),
        ("slc_when_full", "1"),
        ("slc_fold_after_ms", "-1"),
        ("queue_slots", "0"),
        ("gc_reserve_superblocks", "2"),
        ("gc_reserve_superblocks", "17"),
        ("gc_choices", "0"),
        ("gc_choices", "65"),
        ("gc_frontiers", "0"),
        ("gc_frontiers", "3"),
        ("gc_policy", "1"),
        ("gc_pacing", "true"),
        ("write_buffer_kib", "15"),
        ("read_us", "0"),
        ("program_us", "-3"),
        ("erase_ms", "1e300"),
        ("channel_mb_per_s", "0"),
        ("link_read_max_iops", "0"),
        ("read_latency_us", "-1"),
        ("rmw_us", "1e9"),
        ("idle_collect_after_ms", "-1"),
        ("idle_collect_free_percent", "101"),
        ("power_loss_protection", "1"),
        ("interface", "6"),
    ] {
        let TargetError::DriveParameter { name: named, problem } =
            error("sata-enterprise", &format!(r#"{{"{name}": {value}}}"#))
        else {
            panic!("{name} = {value} is a drive parameter's error")
        };
        assert_eq!(named, name, "{value}: {problem}");
    }
    for text in ["", "[]", "{", "1", r#"{"dies": -1}"#, r#"{"dies": 4294967296}"#] {
        assert!(matches!(error("sata-enterprise", text), TargetError::DriveParameter { .. }), "{text}");
    }
    let unknown = error("sata-enterprise", r#"{"gc_policy": "lazy"}"#).to_string();
    assert!(unknown.contains("gc_policy") && unknown.contains("cost-benefit"), "names what there is: {unknown}");
    assert_eq!(drive(r#"{"over_provisioning": 1}"#).over_provisioning, 1.0, "a whole number is a number");
}

#[test]
fn parameters_that_do_not_go_together_are_errors_that_name_one() {
    for (changes, expected) in [
        (r#"{"pages_per_program": 3}"#, "pages_per_block"),
        (r#"{"hot_percent": 10, "slc_static_mib": 1}"#, "hot_percent"),
        (r#"{"hot_percent": 10, "write_buffer_kib": 31}"#, "write_buffer_kib"),
        (r#"{"slc_static_mib": 1, "bits_per_cell": 1}"#, "bits_per_cell"),
        (r#"{"slc_dynamic_percent": 1, "pages_per_program": 4}"#, "bits_per_cell"),
        (r#"{"pages_per_program": 8, "write_buffer_kib": 64}"#, "write_buffer_kib"),
        // Without effect.
        (r#"{"slc_fold_after_ms": 5}"#, "slc_fold_after_ms"),
        (r#"{"suspend_us": 5}"#, "suspend_us"),
        (r#"{"suspend": false, "suspend_reads": 5}"#, "suspend_reads"),
        (r#"{"throttle_from_c": 60}"#, "throttle_from_c"),
        (r#"{"idle_collect_free_percent": 60}"#, "idle_collect_free_percent"),
        (r#"{"fault_read_errors_max": 5}"#, "fault_read_errors_max"),
        (r#"{"fault_bad_blocks_max": 5}"#, "fault_bad_blocks_max"),
        (r#"{"fault_spike_ms": 5}"#, "fault_spike_ms"),
        (r#"{"fault_spikes_max": 5}"#, "fault_spikes_max"),
        (r#"{"hot_percent": 1e-9}"#, "hot_percent"),
    ] {
        let error = DriveParameters::preset("sata-enterprise", changes).unwrap_err();
        let TargetError::DriveParameter { name, .. } = error else { panic!("{changes}") };
        assert_eq!(name, expected, "{changes}");
    }
}

/// What a preset says of a part that is switched off is no error.
#[test]
fn what_the_user_did_not_give_may_be_without_effect() {
    let p = DriveParameters::preset("nvme-client-slc", r#"{"slc_static_mib": 0, "slc_dynamic_percent": 0}"#).unwrap();
    assert!(p.slc_fold_after_ms > 0.0);
    drive(r#"{"suspend": true, "suspend_us": 5, "suspend_reads": 5}"#);
}

/// Delays are of whole nanoseconds, the nearest: 32.3 us are a little less than that in binary.
#[test]
fn delays_are_rounded() {
    let took = |us: &str| {
        let mut host = Host::new(small(&format!(r#""read_latency_us": {us}, "write_latency_us": {us}"#)), 1);
        let written = host.one(write(1, 1));
        host.rest(SECOND);
        [written, host.one(read(9, 1))]
    };
    let (none, some) = (took("0"), took("32.3"));
    assert_eq!([some[0] - none[0], some[1] - none[1]], [32_300, 32_300]);
}

/// The last unit of a drive may be cut short: to write all that is left of it is to write it whole.
#[test]
fn a_unit_that_the_end_of_the_drive_cuts_short_is_written_without_being_read() {
    let p = small(r#""capacity_bytes": 102400512, "read_uj": 1000.0"#);
    let (last, units) = (p.capacity_bytes / 512 - 1, p.geometry().units);
    let reads = |sector: u64, sectors: u64| {
        let mut host = Host::new(p.clone(), 32);
        host.fill(units - 1);
        host.one(request(Operation::Write, last, 1));
        host.drive.set_write_cache(true);
        host.drive.conditions();
        host.one(request(Operation::Write, sector, sectors));
        host.rest(SECOND);
        (host.drive.conditions().unwrap().energy_j * 1e3).round() as u64
    };
    assert_eq!([reads(last, 1), reads(last - 8, 9), reads(last - 1, 2), reads(last - 9, 1)], [0, 0, 1, 1]);
}

/// Data that is still in the buffer is modified there: of one page after the other the first write to each unit, and
/// the first to each page, read flash.
#[test]
fn what_is_in_the_buffer_is_modified_without_being_read() {
    let p = small(r#""read_uj": 1000.0"#);
    let n = u64::from(p.geometry().units_per_page);
    let mut host = Host::new(p.clone(), 32);
    host.fill(p.geometry().units);
    host.drive.set_write_cache(true);
    host.drive.conditions();
    host.run(1, (0..32 * n).map(|sector| request(Operation::Write, sector, 1)));
    host.rest(SECOND);
    let reads = (host.drive.conditions().unwrap().energy_j * 1e3).round() as u64;
    let law = (0..32 * n).filter(|sector| sector % 8 == 0 || sector % n == 0).count();
    assert_eq!(reads, law as u64);
}

/// Values that only together are too much: an error too, not a panic. (Only the geometry is made: the tables of a
/// drive that size would take gigabytes.)
#[test]
fn a_drive_of_more_units_than_can_be_numbered_is_an_error() {
    let changes = r#"{"capacity_bytes": 8796093022208, "over_provisioning": 1.5}"#;
    if let Ok(parameters) = DriveParameters::preset("sata-enterprise", changes) {
        let geometry = parameters.geometry();
        assert!(geometry.units_per_superblock * geometry.superblocks < 1 << 32, "units have 32-bit numbers");
    }
}

#[test]
fn a_write_buffer_beyond_all_memory_is_an_error() {
    let changes = r#"{"capacity_bytes": 102400000, "write_buffer_kib": 9000000000000000000}"#;
    let drive = DriveParameters::preset("sata-enterprise", changes).map(|p| SimDrive::new(p, 1).map(|_| ()));
    assert!(matches!(drive, Err(_) | Ok(Err(_))), "9e21 bytes are refused");
}
