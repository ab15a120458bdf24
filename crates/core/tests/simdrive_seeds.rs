//! Random drives, loads and faults against the shadow model: what must hold whatever the parameters.
//!
//!     make seeds               for a minute, from a seed that is printed
//!     SEED=123 make seeds      that one case again
//!
//! Checked in each case: every read gives what was last written, or what a write under way may have made of it; after
//! a power loss nothing is gone that the cache's state promises; the drive's laws of conservation; and the same seed
//! gives the same completions. Exact: there is no statistical error.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use flashgauge_core::simdrive::DriveParameters;
use flashgauge_core::units::SECTOR;
use flashgauge_core::workload::{Operation, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::support::host::request;
use crate::support::judge::Judge;

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Parameters as the command line takes them; now and then ones that no drive can have.
fn parameters(dice: &mut Dice) -> String {
    let (dies, planes) = (dice.between(1, 9), dice.between(1, 5));
    let (pages, page_bytes) = (dice.pick(&[1, 1, 3]), dice.pick(&[4096, 8192, 16_384]));
    let program_bytes = planes * page_bytes * pages;
    // Enough superblocks of four rows, as a rule.
    let least = if dice.once_in(10) { 0 } else { 20 * 4 * dies * program_bytes / SECTOR };
    let mut given: Vec<(&str, String)> = vec![
        ("track_data", "true".into()),
        ("capacity_bytes", (dice.between(8_000, 120_000).max(least) * SECTOR).to_string()),
        ("dies", dies.to_string()),
        ("channels", dice.between(1, 4).to_string()),
        ("planes", planes.to_string()),
        ("pages_per_program", pages.to_string()),
        ("pages_per_block", "240".into()),
        ("bits_per_cell", "3".into()),
        ("page_bytes", page_bytes.to_string()),
        ("over_provisioning", format!("0.{:03}", dice.between(20, 600))),
        ("program_us", format!("{}.5", dice.between(50, 4000))),
        ("channel_mb_per_s", format!("{}.0", dice.pick(&[20, 100, 333, 1200]))),
        ("queue_slots", dice.between(1, 40).to_string()),
        ("write_buffer_kib", dice.between(program_bytes / 512, 1024).to_string()),
        ("write_commands_per_map_page", dice.pick(&[0, 1, 7, 22]).to_string()),
        ("read_priority", dice.once_in(2).to_string()),
        ("full_duplex", dice.once_in(2).to_string()),
        ("power_loss_protection", dice.once_in(3).to_string()),
        ("gc_policy", format!("{:?}", dice.pick(&["greedy", "fifo", "random", "d-choices", "cost-benefit"]))),
        ("gc_choices", dice.between(1, 10).to_string()),
        ("gc_frontiers", dice.between(1, 2).to_string()),
        ("gc_pacing", format!("{:?}", dice.pick(&["paced", "line"]))),
        ("gc_reserve_superblocks", dice.between(3, 8).to_string()),
        ("power_on_ms", dice.pick(&["0.0", "30.0", "1000.0"]).into()),
    ];
    let idle = ("idle_collect_after_ms", dice.pick(&["0.0", "0.5", "20.0"]).into());
    let percent = ("idle_collect_free_percent", format!("{}.0", dice.between(0, 100)));
    if idle.1 != "0.0" {
        given.extend([idle, percent]);
    }
    given.extend(parts(dice, dies));
    let seed = dice.below(1 << 32);
    given.push(("fault_seed", seed.to_string()));
    let given: Vec<_> = given.into_iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
    format!("{{{}}}", given.join(", "))
}

/// Parts that are off by default, some of them on.
fn parts(dice: &mut Dice, dies: u64) -> Vec<(&'static str, String)> {
    let mut given: Vec<(&str, String)> = vec![];
    match dice.below(4) {
        0 => given.extend([
            ("slc_static_mib", dice.between(1, 9).to_string()),
            ("slc_dynamic_percent", format!("{}.0", dice.pick(&[0, 30, 100]))),
            ("slc_when_full", format!("{:?}", dice.pick(&["direct", "fold"]))),
            ("slc_fold_after_ms", dice.pick(&["0.0", "0.5", "20.0"]).into()),
        ]),
        1 => given.extend([
            ("hot_percent", format!("{}.0", dice.between(1, 90))),
            ("hot_spare_percent", format!("{}.0", dice.between(10, 90))),
        ]),
        _ => {}
    }
    if dice.once_in(3) {
        given.extend([
            ("suspend", "true".into()),
            ("suspend_us", format!("{}.5", dice.below(100))),
            ("suspend_reads", dice.between(1, 10).to_string()),
        ]);
    }
    if dice.once_in(2) {
        given.extend([
            ("controller_mb_per_s", dice.pick(&["0.0", "30.0", "500.0"]).into()),
            ("controller_read_overhead_us", format!("{}.5", dice.below(20))),
            ("controller_write_overhead_us", format!("{}.5", dice.below(20))),
            ("rmw_us", format!("{}.5", dice.below(200))),
        ]);
    }
    let mut sometimes = |name, value: String, times| {
        if dice.once_in(times) {
            given.push((name, value));
        }
    };
    sometimes("fault_read_error_rate", "0.0005".into(), 3);
    sometimes("fault_program_error_rate", format!(r#"0.002, "fault_bad_blocks_max": {}"#, 4 * dies), 3);
    sometimes("fault_spike_rate", "0.001".into(), 3);
    sometimes("fault_power_loss_after_s", "0.2".into(), 4);
    sometimes("fault_dropout_after_ios", "3000".into(), 12);
    sometimes("fault_dropout_after_s", "1.5".into(), 12);
    sometimes(
        "idle_w",
        r#"1.0, "program_uj": 1000.0, "thermal_resistance_c_per_w": 10.0, "thermal_time_constant_s": 0.2,
        "throttle_from_c": 50.0, "throttle_full_c": 60.0"#
            .into(),
        4,
    );
    given
}

/// I/Os of mixed kinds and sizes: aligned and not, anywhere or in a small hot part, one after the other or not.
fn ios(dice: &mut Dice, sectors: u64) -> Vec<Request> {
    let writes = dice.pick(&[0, 50, 80, 100]);
    let longest = dice.pick(&[1, 8, 8, 64, 300, 2048]).min(sectors);
    let count = dice.between(1, (100_000 / longest).clamp(10, 600));
    let aligned = dice.once_in(2);
    let (hot, sequential) = (dice.pick(&[1, 1, 10, 100]), dice.once_in(3));
    let mut next = dice.below(sectors);
    let mut one = |_| {
        let mut length = dice.between(1, longest);
        let mut at = if sequential { next } else { dice.below(sectors.div_ceil(hot)) };
        if aligned && longest >= 8 {
            (length, at) = (length.next_multiple_of(8).min(longest), at / 8 * 8);
        }
        let at = at.min(sectors - length);
        next = (at + length) % sectors;
        request(if dice.below(100) < writes { Operation::Write } else { Operation::Read }, at, length)
    };
    (0..count).map(&mut one).collect()
}

/// One case, from its seed alone. Returns a digest of all completions, and whether there was a drive to try.
fn case(seed: u64) -> Option<u64> {
    let mut dice = Dice::new(seed);
    let text = parameters(&mut dice);
    let p = DriveParameters::preset("sata-enterprise", &text).ok()?;
    let sectors = p.capacity_bytes / SECTOR;
    let mut judge = Judge::new(p, 64);
    for _ in 0..dice.between(2, 25) {
        if judge.is_gone() {
            break;
        }
        match dice.below(14) {
            0 => judge.rest(dice.pick(&[1_000, 3_000_000, 300_000_000, 3_000_000_000])),
            1 => judge.switch_cache(dice.once_in(2)),
            2 => {
                let first = dice.below(sectors);
                judge.trim(first, dice.between(1, sectors - first));
            }
            3 => judge.lose_power(),
            4 if dice.once_in(4) => judge.purge(),
            _ => {
                let requests = ios(&mut dice, sectors);
                let cut = dice.once_in(8).then(|| dice.between(1, requests.len() as u64) as usize);
                judge.run(dice.between(1, 64) as u32, &requests, cut);
            }
        }
        judge.check();
    }
    Some(judge.digest)
}

/// Twice, with the same answers.
fn passes(seed: u64) -> Result<bool, String> {
    let run = || catch_unwind(AssertUnwindSafe(|| case(seed)));
    match (run(), run()) {
        (Ok(first), Ok(second)) if first == second => Ok(first.is_some()),
        (Ok(_), Ok(_)) => Err("the same seed gave different completions".into()),
        (Err(error), _) | (_, Err(error)) => Err(error
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| error.downcast_ref::<&str>().map(|text| (*text).to_string()))
            .unwrap_or_default()),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn every_seed_keeps_its_data() {
    if let Some(seed) = number("SEED") {
        let p = DriveParameters::preset("sata-enterprise", &parameters(&mut Dice::new(seed)));
        println!("seed {seed}: {p:?}");
        assert!(passes(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}")), "seed {seed} makes no drive");
        return;
    }
    let time = Duration::from_secs(number("SEEDS_S").unwrap_or(4));
    let first = number("FIRST_SEED").unwrap_or(1);
    let (begin, mut cases, mut drives, mut failed) = (Instant::now(), 0, 0, vec![]);
    for seed in first.. {
        if begin.elapsed() > time || failed.len() == 10 {
            break;
        }
        cases += 1;
        match passes(seed) {
            Ok(tried) => drives += u64::from(tried),
            Err(error) => {
                println!("seed {seed} fails: {error}\n    again: SEED={seed} make seeds");
                failed.push(seed);
            }
        }
    }
    println!("{cases} seeds from {first} on, {drives} of them drives, {} failed", failed.len());
    assert!(failed.is_empty(), "failing seeds: {failed:?}; again with SEED=... make seeds");
    // Of a few, the share says nothing.
    assert!(drives > 0 && (cases < 20 || drives * 10 > cases * 8), "{drives} drives of {cases} seeds");
}
