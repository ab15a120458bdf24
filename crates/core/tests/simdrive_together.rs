//! Completions that come together are those that come one by one, as long as the host answers each at its own time.

mod support;

use flashgauge_core::engine::Device;
use flashgauge_core::simdrive::{DriveParameters, SimDrive};
use flashgauge_core::units::{Bytes, Lba, Nanos};
use flashgauge_core::workload::{Operation, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::support::*;

/// Slots and times of a closed loop's completions, and how many calls returned more than one. `until` some time waits
/// end, as they do at the end of a step.
fn completions(together: bool, depth: u32, read_percent: u64, until: Nanos) -> (Vec<(u32, u64)>, u64) {
    let changes = r#"{"capacity_bytes": 268435456, "over_provisioning": 0.1}"#;
    let p = DriveParameters::preset("sata-enterprise", changes).unwrap();
    let units = p.capacity_bytes / 4096;
    let mut drive = SimDrive::new(p, depth).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut request = || {
        let size = if rng.next_u64() % 50 == 0 { 64 } else { 1 + rng.next_u64() % 2 };
        let operation = if rng.next_u64() % 100 < read_percent { Operation::Read } else { Operation::Write };
        Request { operation, lba: Lba(rng.next_u64() % (units - 64) * 8), bytes: Bytes(size * 4096) }
    };
    for slot in 0..depth {
        drive.submit(slot, &request()).unwrap();
    }
    let (mut all, mut done, mut several) = (vec![], vec![], 0);
    while all.len() < 150_000 {
        let until = if drive.now() < until { until } else { Nanos::MAX };
        if together {
            drive.wait_together(until, &mut done).unwrap();
        } else {
            drive.wait(until, &mut done).unwrap();
        }
        several += u64::from(done.len() > 1);
        for completion in done.drain(..) {
            all.push((completion.slot, completion.at.0));
            drive.submit(completion.slot, &request()).unwrap();
        }
    }
    all.truncate(150_000);
    drive.check();
    (all, several)
}

#[test]
fn completions_together_are_those_one_by_one() {
    // Of the drive's 32 slots: more than there are, and fewer.
    for (depth, read_percent, expected) in
        [(128, 0, true), (128, 50, true), (40, 70, true), (128, 100, true), (32, 50, false)]
    {
        for until in [Nanos::MAX, Nanos(SECOND / 2 + 12_345)] {
            let (one_by_one, never) = completions(false, depth, read_percent, until);
            let (together, several) = completions(true, depth, read_percent, until);
            assert_eq!((never, several > 0), (0, expected), "queue depth {depth}");
            assert!(one_by_one == together, "queue depth {depth}, {read_percent} % reads, until {until:?}");
        }
    }
}
