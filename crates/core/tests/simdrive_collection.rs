//! How garbage collection shows in the times that the host sees: paced, or a whole superblock at once.

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::UNIT;
use flashgauge_core::units::{Bytes, Lba};

use crate::support::host::{Host, random_units, write};
use crate::support::*;

/// The latencies of random writes in steady state, sorted, and the write amplification meanwhile.
fn steady_latencies(pacing: &str, depth: u32) -> (Vec<u64>, f64) {
    let p = drive(&format!(
        r#"{{"capacity_bytes": 2000000000, "over_provisioning": 0.12, "dies": 4, "channels": 4, "pages_per_block": 64,
        "write_commands_per_map_page": 0, "controller_mb_per_s": 0, "gc_pacing": "{pacing}"}}"#
    ));
    assert_eq!(p.geometry().erase_ns, 3_000_000, "real blocks, not shortened ones");
    let units = p.geometry().units;
    let mut host = Host::new(p, 32);
    let mut draw = random_units(12, units);
    host.fill(units);
    host.run(32, draw.by_ref().take(4 * units as usize).map(|unit| write(unit, 1)));
    host.rest(SECOND);
    let before = host.drive.counters();
    let done = host.run(depth, draw.take(units as usize / 2).map(|unit| write(unit, 1)));
    let after = host.drive.counters();
    let collected = after.collected_units - before.collected_units;
    let mut latencies: Vec<u64> = done.iter().map(|io| io.latency()).collect();
    latencies.sort_unstable();
    (latencies, 1.0 + collected as f64 / (after.host_units - before.host_units) as f64)
}

/// The longest wait for a whole superblock is the time that each die needs for its share: copies of what is valid, a
/// read for each page, an erase. Here a block has 64 pages; with 256, as in client drives, it is 0.3 s. Paced, a write
/// waits for a few programs. The work is the same, and so is the throughput.
#[test]
fn a_superblock_at_once_sets_the_longest_latency_and_pacing_takes_it_away() {
    let p = drive("{}");
    let page_us = p.program_us + (u64::from(p.planes) * p.page_bytes) as f64 / p.channel_mb_per_s;
    for (depth, most_paced_programs) in [(1, 10.0), (32, 20.0)] {
        let [(paced, paced_amplification), (line, amplification)] =
            ["paced", "line"].map(|pacing| steady_latencies(pacing, depth));
        let stall_us = 64.0 * (page_us * (1.0 - 1.0 / amplification) + p.read_us) + p.erase_ms * 1e3;
        let most = |latencies: &[u64]| *latencies.last().unwrap() as f64 / 1e3;
        let law = most(&line) / stall_us;
        assert!((0.85..1.15).contains(&law), "T1Q{depth}: {} us at the most, not {stall_us}", most(&line));
        assert!(most(&paced) < most_paced_programs * page_us, "T1Q{depth}: {} us, paced", most(&paced));
        let mean = |latencies: &[u64]| latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
        let slower = mean(&line) / mean(&paced);
        assert!((0.98..1.02).contains(&slower), "T1Q{depth}: the mean latency changes by {slower}");
        assert!((amplification / paced_amplification - 1.0).abs() < 0.005);
    }
}

/// Through the whole drive, and by the call that a host has: what is trimmed need not be moved.
#[test]
fn trimming_through_the_drive_lowers_write_amplification() {
    let p = drive(r#"{"capacity_bytes": 512000000, "over_provisioning": 0.1, "dies": 4, "channels": 4}"#);
    let units = p.geometry().units;
    let amplification = |trimmed: u64| {
        let mut host = Host::new(p.clone(), 32);
        host.fill(units);
        let bytes = Bytes(trimmed * UNIT);
        host.drive.control(Control::Trim { lba: Lba(0), bytes }).unwrap();
        let overwrite = |host: &mut Host, count: u64| {
            let draw = random_units(13 + count, units - trimmed).take(count as usize);
            host.run(32, draw.map(|unit| write(trimmed + unit, 1)));
        };
        overwrite(&mut host, 4 * units);
        let (written, collected) = host.moved(|host| overwrite(host, 2 * units));
        host.drive.check();
        1.0 + collected as f64 / written as f64
    };
    let (all, rest) = (amplification(0), amplification(units / 4));
    // OP 10 %, and 1.1 / 0.75 - 1 = 47 %: 5.4 and 1.76 for large blocks.
    assert!((5.1..5.6).contains(&all) && (1.7..1.8).contains(&rest), "{all:.3}, {rest:.3} after TRIM of a quarter");
}

/// The drive's own random numbers are a part of it: every run draws the same ones.
#[test]
fn drives_that_draw_their_victims_are_deterministic() {
    for policy in ["random", "d-choices"] {
        let run = || {
            let p = drive(&format!(r#"{{"capacity_bytes": 102400000, "dies": 4, "gc_policy": "{policy}"}}"#));
            let units = p.geometry().units;
            let mut host = Host::new(p, 32);
            let pass = |host: &mut Host| {
                let start = host.drive.now().0;
                let done = host.run(32, random_units(1, units).take(3 * units as usize).map(|unit| write(unit, 1)));
                done.iter().map(|io| io.completed - start).collect::<Vec<_>>()
            };
            let first = pass(&mut host);
            let first_counters = host.drive.counters();
            host.drive.control(Control::Purge).unwrap();
            host.rest(SECOND);
            assert!(pass(&mut host) == first, "after a purge as before it");
            assert_eq!(host.drive.counters(), first_counters);
            first
        };
        assert!(run() == run());
    }
}
