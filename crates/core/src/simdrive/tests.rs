//! The fast ways of the simulated drive against the plain one, unit by unit and event by event: the same times, and
//! the same mapping, to the last bit. Everything else is tested from outside, in tests/simdrive.rs.

use proptest::prelude::*;

use super::{DriveParameters, SimDrive};
use crate::engine::{Control, Device};
use crate::units::{Bytes, Lba, Nanos, SECTOR};
use crate::workload::{Operation, Request};

#[derive(Debug, Clone)]
enum Load {
    /// Queue depth, sectors of an I/O, and where the first one goes, as a share of the capacity; one after the other.
    Sequential(u32, u64, f64, u32),
    /// Queue depth; write, first sector as a share, sectors.
    Mixed(u32, Vec<(bool, f64, u64)>),
    Cache(bool),
    Rest(u64),
    /// First sector and length as shares.
    Trim(f64, f64),
    PowerLoss,
}

fn load() -> impl Strategy<Value = Load> {
    let length = prop_oneof![Just(2048u64), Just(256), Just(2000), 1u64..3000];
    let io = (prop::bool::weighted(0.8), 0.0f64..1.0, prop_oneof![Just(8u64), Just(2048), 1u64..2500]);
    prop_oneof![
        4 => (1u32..=32, length, 0.0f64..1.0, 1u32..80).prop_map(|(d, l, f, n)| Load::Sequential(d, l, f, n)),
        2 => (1u32..=32, prop::collection::vec(io, 1..200)).prop_map(|(depth, ios)| Load::Mixed(depth, ios)),
        1 => any::<bool>().prop_map(Load::Cache),
        1 => (1u64..20_000_000).prop_map(Load::Rest),
        1 => (0.0f64..1.0, 0.0f64..1.0).prop_map(|(from, length)| Load::Trim(from, length)),
        1 => Just(Load::PowerLoss),
    ]
}

fn parameters() -> impl Strategy<Value = DriveParameters> {
    let page_bytes = prop_oneof![3 => Just(8192u64), 1 => Just(4096)];
    let counts = (8_000u64..80_000, 1u32..=9, 1u32..=4, (1u32..=5, page_bytes), 1u32..=40, any::<[bool; 4]>());
    let suspend = (any::<bool>(), 0.0..100.0, 1u32..10).prop_map(|(on, us, reads)| {
        let more = format!(r#", "suspend_us": {us:?}, "suspend_reads": {reads}"#);
        format!(r#""suspend": {on}{}"#, if on { more } else { String::new() })
    });
    let controller = (prop_oneof![Just(0.0), 30.0..3000.0], prop_oneof![Just(0.0), 0.0..20.0]);
    let idle = || prop_oneof![Just(0.0), 0.01f64..2.0];
    let when_full = prop::sample::select(vec!["direct", "fold"]);
    let slc =
        (0u32..3, prop_oneof![Just(0.0), 1.0..100.0], when_full, idle()).prop_map(|(mib, dynamic, full, fold)| {
            format!(
                r#""slc_static_mib": {mib}, "slc_dynamic_percent": {dynamic:?}, "slc_when_full": "{full}",
            "slc_fold_after_ms": {fold:?}, "bits_per_cell": 3"#
            )
        });
    let pools =
        (1.0..99.0, 0.0..100.0).prop_map(|(hot, x)| format!(r#""hot_percent": {hot:?}, "hot_spare_percent": {x:?}"#));
    let layout = (prop_oneof![Just(String::from(r#""hot_percent": 0"#)), slc, pools], 1u32..=3);
    let buffer = prop_oneof![Just(1024u64), 64u64..300];
    let times = (0.02f64..0.5, prop_oneof![Just(0u32), 1u32..30], buffer, 50.0..2000.0, idle());
    let policies = ["greedy", "greedy", "fifo", "random", "d-choices", "cost-benefit"];
    let collection = (prop::sample::select(policies.to_vec()), 1u32..=2, prop::sample::select(vec!["paced", "line"]));
    let all = (counts, times, collection, layout, controller, suspend);
    all.prop_filter_map("this small, it needs enough blocks", |all| {
        let (counts, times, (policy, frontiers, pacing), (layout, per_program), controller, suspend) = all;
        let (rate, overhead_us) = controller;
        let (sectors, dies, channels, (planes, page_bytes), slots, [priority, protected, duplex, track]) = counts;
        let (op, map, buffer, program_us, idle_ms) = times;
        let json = format!(
            r#"{{{layout}, "capacity_bytes": {}, "dies": {dies}, "channels": {channels}, "planes": {planes}, "page_bytes": {page_bytes},
            "over_provisioning": {op:?}, "read_priority": {priority}, "power_loss_protection": {protected},
            "full_duplex": {duplex}, "write_commands_per_map_page": {map}, "write_buffer_kib": {buffer},
            "program_us": {program_us:?}, "queue_slots": {slots}, "idle_collect_after_ms": {idle_ms:?},
            "idle_collect_free_percent": 50, "gc_policy": "{policy}", "gc_frontiers": {frontiers},
            "gc_pacing": "{pacing}", "track_data": {track}, "pages_per_block": 240,
            "pages_per_program": {per_program},
            "controller_mb_per_s": {rate:?}, "controller_read_overhead_us": {overhead_us:?},
            "controller_write_overhead_us": {overhead_us:?}, {suspend}}}"#,
            sectors * SECTOR
        );
        DriveParameters::preset("sata-enterprise", &json).ok()
    })
}

/// Completions of the requests, `depth` at a time.
fn run(drive: &mut SimDrive, depth: u32, requests: &[Request]) -> Vec<(u32, u64)> {
    let (mut free, mut next, mut completed, mut done) = ((0..depth).rev().collect::<Vec<_>>(), 0, vec![], vec![]);
    while completed.len() < requests.len() {
        while next < requests.len()
            && let Some(slot) = free.pop()
        {
            drive.submit(slot, &requests[next]).unwrap();
            next += 1;
        }
        drive.wait(Nanos::MAX, &mut done).unwrap();
        for completion in done.drain(..) {
            completed.push((completion.slot, completion.at.0));
            free.push(completion.slot);
        }
    }
    completed
}

fn requests(load: &Load, sectors: u64) -> (u32, Vec<Request>) {
    let request = |operation, first: u64, length: u64| {
        let length = length.min(sectors);
        Request { operation, lba: Lba(first.min(sectors - length)), bytes: Bytes(length * SECTOR) }
    };
    let place = |share: f64| (share * sectors as f64) as u64;
    match load {
        Load::Sequential(depth, length, from, count) => {
            let ios = (0..u64::from(*count)).map(|i| (place(*from) + i * length) % sectors);
            (*depth, ios.map(|first| request(Operation::Write, first, *length)).collect())
        }
        Load::Mixed(depth, ios) => {
            let operation = |write: bool| if write { Operation::Write } else { Operation::Read };
            (*depth, ios.iter().map(|(write, at, length)| request(operation(*write), place(*at), *length)).collect())
        }
        Load::Cache(_) | Load::Rest(_) | Load::Trim(..) | Load::PowerLoss => (1, vec![]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, max_shrink_iters: 300, ..Default::default() })]

    #[test]
    fn fast_ways_give_the_plain_answers(p in parameters(), loads in prop::collection::vec(load(), 1..10)) {
        let mut fast = SimDrive::new(p.clone(), 32).unwrap();
        let mut plain = SimDrive::new(p.clone(), 32).unwrap();
        plain.plainly = true;
        for load in loads {
            let (depth, requests) = requests(&load, p.capacity_bytes / SECTOR);
            prop_assert_eq!(run(&mut fast, depth, &requests), run(&mut plain, depth, &requests));
            for drive in [&mut fast, &mut plain] {
                match load {
                    Load::Cache(on) => drive.control(Control::WriteCache(on)).unwrap(),
                    Load::Rest(ns) => {
                        let until = Nanos(drive.now().0 + ns);
                        drive.wait(until, &mut vec![]).unwrap();
                    }
                    Load::Trim(from, length) => {
                        let (sectors, share) = (p.capacity_bytes / SECTOR, |of: u64, share: f64| (of as f64 * share) as u64);
                        let lba = share(sectors, from);
                        let bytes = Bytes(share(sectors - lba, length) * SECTOR);
                        drive.control(Control::Trim { lba: Lba(lba), bytes }).unwrap();
                    }
                    Load::PowerLoss if p.track_data => drive.control(Control::PowerLoss).unwrap(),
                    Load::PowerLoss | Load::Sequential(..) | Load::Mixed(..) => {}
                }
            }
            prop_assert_eq!(fast.now(), plain.now());
            prop_assert!(fast.ftl.state() == plain.ftl.state(), "the same mapping");
            fast.check();
        }
    }
}
