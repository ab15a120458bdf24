//! The simulated drive's answers, to the last nanosecond, as they were when each line was written: what is made
//! faster must not become different. A deliberate change of the model changes these digests, and says so.

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::UNIT;
use flashgauge_core::units::{Bytes, Lba, SECTOR};
use flashgauge_core::workload::{Operation, Request};

use crate::support::drive;
use crate::support::host::{Done, Host, random_units, request};

/// The drive of the digests; presets may change.
const DRIVE: &str = r#""over_provisioning": 0.278, "channels": 8, "dies": 32, "planes": 2, "page_bytes": 8192,
    "pages_per_block": 256, "read_us": 50, "program_us": 1320, "erase_ms": 3, "channel_mb_per_s": 333,
    "read_priority": false, "queue_slots": 32, "full_duplex": false, "link_read_overhead_us": 4.7,
    "link_read_mb_per_s": 506, "link_read_max_iops": 84500, "link_write_overhead_us": 7, "link_write_mb_per_s": 400,
    "link_write_max_iops": 60000, "read_latency_us": 15, "write_latency_us": 15, "write_buffer_kib": 1024,
    "power_loss_protection": true, "rmw_us": 78, "write_commands_per_map_page": 22, "controller_mb_per_s": 0,
    "controller_read_overhead_us": 0, "controller_write_overhead_us": 0"#;

/// FNV-1a.
struct Digest(u64);

impl Digest {
    fn add(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn add_all(&mut self, done: &[Done]) {
        for io in done {
            self.add(u64::from(io.slot));
            self.add(io.submitted);
            self.add(io.completed);
        }
    }
}

fn sequential(sectors: u64, length: u64, from: u64, count: u64) -> impl Iterator<Item = Request> {
    let places = (sectors - length) / length + 1;
    (0..count).map(move |i| request(Operation::Write, (from + i) % places * length, length))
}

/// Random sizes and places, `read_percent` of them reads.
fn mixed(seed: u64, sectors: u64, longest: u64, read_percent: u64, count: usize) -> impl Iterator<Item = Request> {
    let mut draw = random_units(seed, 1 << 40);
    let mut next = move |below: u64| draw.next().expect("endless") % below;
    std::iter::repeat_with(move || {
        let length = 1 + next(longest);
        let operation = if next(100) < read_percent { Operation::Read } else { Operation::Write };
        request(operation, next(sectors - length + 1), length)
    })
    .take(count)
}

/// From purge through sequential, random and mixed loads, and a cache that is off; with `more`, a rest and TRIM.
fn digest(changes: &str, more: bool) -> u64 {
    let p = drive(changes);
    let (sectors, units) = (p.capacity_bytes / 512, p.capacity_bytes / UNIT);
    let mut host = Host::new(p, 64);
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    let pass = |length: u64| 2 * sectors / length;
    digest.add_all(&host.run(32, sequential(sectors, 2048, 0, pass(2048))));
    digest.add_all(
        &host.run(64, random_units(1, units).take(2 * units as usize).map(|u| request(Operation::Write, 8 * u, 8))),
    );
    digest.add_all(&host.run(3, sequential(sectors, 256, 7, pass(256) / 3)));
    digest.add_all(&host.run(64, mixed(2, sectors, 16, 50, 20_000)));
    host.rest(1_000_000);
    host.drive.control(Control::WriteCache(false)).unwrap();
    digest.add_all(&host.run(20, mixed(3, sectors, 600, 20, 3_000)));
    digest.add_all(&host.run(32, sequential(sectors, 2000, 3, pass(2000) / 2)));
    host.drive.control(Control::WriteCache(true)).unwrap();
    digest.add_all(&host.run(32, sequential(sectors, 2048, 1, pass(2048) / 2)));
    digest.add_all(&host.run(33, mixed(4, sectors, 3000, 5, 500)));
    if more {
        host.rest(50_000_000);
        let third = Bytes(sectors / 3 * SECTOR);
        host.drive.control(Control::Trim { lba: Lba(sectors / 2), bytes: third }).unwrap();
        digest.add_all(&host.run(17, mixed(5, sectors, 40, 30, 3_000)));
        digest.add(host.drive.counters().folded_units);
    }
    host.drive.check();
    let c = host.drive.counters();
    for count in [c.host_units, c.collected_units, c.padded_units, c.superblock_erases] {
        digest.add(count);
    }
    digest.0
}

fn check(digests: &[(&str, u64)], more: bool) {
    let mut wrong = vec![];
    for (changes, expected) in digests {
        // Of a name that is there twice, the second counts.
        let ours = digest(&format!("{{{DRIVE}, {changes}}}"), more);
        if ours != *expected {
            wrong.push(format!("{changes}: {ours:#018x}"));
        }
    }
    assert!(wrong.is_empty(), "changed answers:\n{}", wrong.join("\n"));
}

#[test]
fn answers_are_what_they_were() {
    let digests = [
        (r#""capacity_bytes": 512000000"#, 0x8a9ece02f3f839f8),
        (r#""capacity_bytes": 256000000, "over_provisioning": 0.07"#, 0xb5b40164149ddf73),
        (
            r#""capacity_bytes": 100000256, "dies": 7, "channels": 3, "planes": 3, "page_bytes": 4096"#,
            0xa2347c68d4d9ab0e,
        ),
        (r#""capacity_bytes": 102400000, "read_priority": true, "write_buffer_kib": 256"#, 0x25297d1f630c3ed0),
        (r#""capacity_bytes": 102400000, "power_loss_protection": false, "full_duplex": true"#, 0x80056226a34c5353),
        (
            r#""capacity_bytes": 102400000, "dies": 5, "planes": 4, "page_bytes": 16384, "queue_slots": 64"#,
            0x03de16f0388fd65a,
        ),
        (
            r#""capacity_bytes": 51200000, "dies": 1, "channels": 1, "write_commands_per_map_page": 0"#,
            0x15ef040e458dda81,
        ),
        (
            r#""capacity_bytes": 102400000, "channel_mb_per_s": 20.0, "write_buffer_kib": 4096, "dies": 11"#,
            0xba6b0593e69f7038,
        ),
        (r#""capacity_bytes": 102400000, "program_us": 100.0, "write_commands_per_map_page": 1"#, 0xb37a89404ee18bb6),
        (
            r#""capacity_bytes": 102400000, "planes": 64, "page_bytes": 4096, "dies": 2, "gc_reserve_superblocks": 7"#,
            0x4a4a728a71515eaf,
        ),
        // The controller's data path.
        (
            r#""capacity_bytes": 256000000, "controller_mb_per_s": 500, "controller_read_overhead_us": 6,
            "controller_write_overhead_us": 1"#,
            0xfa281f3898e341f8,
        ),
        (
            r#""capacity_bytes": 102400000, "controller_mb_per_s": 150, "controller_read_overhead_us": 2,
            "read_priority": true, "power_loss_protection": false, "dies": 7, "channels": 3"#,
            0xbc9a18f4632828c8,
        ),
    ];
    check(&digests, false);
}

#[test]
fn answers_with_what_is_off_by_default_are_what_they_were() {
    let digests = [
        // Suspension, one page of 4 KiB for each die, other policies, TRIM beside.
        (
            r#""capacity_bytes": 102400000, "suspend": true, "suspend_us": 30, "suspend_reads": 3, "full_duplex": true"#,
            0xba7efaf5c001a472,
        ),
        (
            r#""capacity_bytes": 51200000, "planes": 1, "page_bytes": 4096, "dies": 5, "power_loss_protection": false"#,
            0x50fcaa89575787f2,
        ),
        (
            r#""capacity_bytes": 102400000, "gc_policy": "cost-benefit", "gc_pacing": "line", "gc_frontiers": 1"#,
            0x97152696733f484a,
        ),
        (
            r#""capacity_bytes": 102400000, "gc_policy": "d-choices", "gc_choices": 3, "over_provisioning": 0.1,
            "idle_collect_after_ms": 0.2, "idle_collect_free_percent": 70"#,
            0x27285e8aeee3ac0d,
        ),
        // SLC cache, full or folded, and three pages at once.
        (
            r#""capacity_bytes": 153600000, "slc_static_mib": 8, "slc_dynamic_percent": 40, "bits_per_cell": 3,
            "pages_per_block": 240, "pages_per_program": 3, "dies": 8"#,
            0xa9a1de47a54d21f6,
        ),
        (
            r#""capacity_bytes": 153600000, "slc_static_mib": 8, "bits_per_cell": 3, "slc_when_full": "fold",
            "slc_fold_after_ms": 0.3, "idle_collect_after_ms": 0.5, "dies": 8, "power_loss_protection": false"#,
            0xfa27640fd3eae71e,
        ),
        // Hot and cold data.
        (
            r#""capacity_bytes": 153600000, "hot_percent": 20, "hot_spare_percent": 50, "gc_policy": "fifo""#,
            0xcdef7e0b6c5b0457,
        ),
        // A drive that gets hot and stands still for a part of the time.
        (
            r#""capacity_bytes": 102400000, "idle_w": 1, "program_uj": 500, "read_uj": 100, "erase_uj": 3000,
            "thermal_resistance_c_per_w": 10, "thermal_time_constant_s": 0.2, "throttle_from_c": 45,
            "throttle_full_c": 60"#,
            0x40fa5fb61759dea5,
        ),
    ];
    check(&digests, true);
}
