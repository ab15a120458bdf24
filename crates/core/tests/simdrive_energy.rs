//! Energy and temperature against pencil and paper. Energies are exact but for the rounding of sums (1e-9 relative);
//! temperatures follow the exponential law within what 10 ms steps under a load of single commands leave.

mod support;

use flashgauge_core::engine::{Conditions, Device};
use flashgauge_core::simdrive::DriveParameters;

use crate::support::host::{Host, random_units, read, write};
use crate::support::*;

fn small(changes: &str) -> DriveParameters {
    drive(&format!(
        r#"{{"capacity_bytes": 102400000, "dies": 8, "channels": 4, "write_commands_per_map_page": 0, {changes}}}"#
    ))
}

fn conditions(host: &mut Host) -> Conditions {
    host.drive.conditions().expect("energies are given")
}

fn assert_close(ours: f64, expected: f64, relative: f64, what: &str) {
    assert!((ours - expected).abs() <= relative * expected.abs(), "{what}: {ours}, not {expected}");
}

#[test]
fn the_energy_of_a_known_mix_is_the_sum_of_its_parts() {
    let p = small(
        r#""idle_w": 0.7, "read_uj": 30.0, "program_uj": 500.0, "erase_uj": 4000.0, "command_uj": 2.0,
        "transfer_nj_per_byte": 1.5"#,
    );
    let n = u64::from(p.geometry().units_per_page);
    let mut host = Host::new(p.clone(), 32);
    host.rest(SECOND);
    let idle = conditions(&mut host);
    assert_eq!((idle.span_ns, idle.temperature_c), (SECOND, None));
    assert_close(idle.energy_j, 0.7, 1e-9, "a second of idling");

    // A prime number of pages, few enough to fit into fresh flash: nothing is erased.
    const PAGES: u64 = 5003;
    host.run(8, (0..PAGES).map(|i| write(n * (i % 500), n)));
    host.rest(SECOND);
    let busy = conditions(&mut host);
    let expected =
        0.7 * busy.span_ns as f64 / 1e9 + PAGES as f64 * (500e-6 + 2e-6) + (PAGES * n * 4096) as f64 * 1.5e-9;
    assert_close(busy.energy_j, expected, 1e-9, "whole pages written");

    host.run(8, random_units(1, 500 * n).take(PRIME as usize).map(|unit| read(unit, 1)));
    let busy = conditions(&mut host);
    let expected = 0.7 * busy.span_ns as f64 / 1e9 + PRIME as f64 * (30e-6 + 2e-6 + 4096.0 * 1.5e-9);
    assert_close(busy.energy_j, expected, 1e-9, "units read");
}

/// A program of three pages takes three times the energy of one; in SLC mode each operation takes what its time says.
#[test]
fn programs_of_several_pages_and_of_slc_pages_take_their_energy() {
    const PROGRAMS: u64 = 211;
    let one_shot = r#""pages_per_block": 240, "pages_per_program": 3, "program_uj": 500.0, "read_uj": 30.0"#;
    for (cache, programs_of_page, reads_of_page) in
        [("", 1.0, 1.0), (r#", "slc_static_mib": 64, "bits_per_cell": 3"#, 3.0 * 250.0 / 1900.0, 25.0 / 50.0)]
    {
        let times = r#""program_us": 1900.0, "slc_program_us": 250.0, "read_us": 50.0, "slc_read_us": 25.0"#;
        let p = small(&format!("{one_shot}, {times}{cache}"));
        let (per_program, per_sense) =
            (u64::from(p.geometry().units_per_page), u64::from(p.geometry().units_per_sense));
        let mut host = Host::new(p, 32);
        host.run(8, (0..PROGRAMS).map(|i| write(per_program * i, per_program)));
        host.rest(SECOND);
        // Each native program is of three pages.
        let programmed = PROGRAMS as f64 * 3.0 * 500e-6 * programs_of_page;
        assert_close(conditions(&mut host).energy_j, programmed, 1e-9, "pages programmed");
        host.run(8, (0..PROGRAMS).map(|i| read(per_sense * i, 1)));
        assert_close(conditions(&mut host).energy_j, PROGRAMS as f64 * 30e-6 * reads_of_page, 1e-9, "pages read");
    }
}

/// A drive that only erases has energy: it comes in whole blocks, as many as were released and opened again.
#[test]
fn erased_blocks_are_counted_when_they_are_written_again() {
    let p = small(r#""erase_uj": 1000.0"#);
    let units = p.geometry().units;
    let mut host = Host::new(p.clone(), 32);
    host.fill(units);
    host.run(32, random_units(1, units).take(4 * units as usize).map(|unit| write(unit, 1)));
    let blocks = conditions(&mut host).energy_j / (1e-3 * p.geometry().erase_ns as f64 / (p.erase_ms * 1e6));
    assert!((blocks - blocks.round()).abs() < 1e-6, "{blocks} blocks");
    // Released ones that are still free, or only begun, are not erased yet.
    let released = (host.drive.counters().superblock_erases * u64::from(p.dies)) as f64;
    let waiting = f64::from((p.gc_reserve_superblocks + 2 + 2) * p.dies);
    assert!((released - waiting..=released).contains(&blocks), "{blocks} of {released} blocks");
}

/// Heat for about 4 W under single random reads: 1 W idle, and 10.5 thousand reads a second of 290 uJ.
const WARM: &str = r#""idle_w": 1.0, "read_uj": 290.0, "ambient_c": 25.0, "thermal_resistance_c_per_w": 10.0,
    "thermal_time_constant_s": 2.0"#;

/// So many seconds of single random reads.
fn load(host: &mut Host, depth: u32, seconds: f64) -> (Conditions, f64) {
    let units = host.drive.parameters().geometry().units;
    let begin = host.drive.now().0;
    let (mut reads, mut places) = (0, random_units(7, units));
    conditions(host);
    while ((host.drive.now().0 - begin) as f64) < seconds * 1e9 {
        reads += host.run(depth, places.by_ref().take(200).map(|unit| read(unit, 1))).len();
    }
    let found = conditions(host);
    (found, reads as f64 * 1e9 / found.span_ns as f64)
}

fn power_w(found: &Conditions) -> f64 {
    found.energy_j / (found.span_ns as f64 / 1e9)
}

fn filled(changes: &str) -> Host {
    let p = small(changes);
    let mut host = Host::new(p.clone(), 32);
    host.fill(p.geometry().units);
    host.drive.set_write_cache(true);
    host
}

#[test]
fn temperature_goes_to_ambient_plus_power_times_resistance_in_its_time_constant() {
    let mut host = filled(WARM);
    host.rest(60 * SECOND);
    let cold = conditions(&mut host);
    assert_close(cold.temperature_max_c.unwrap(), 35.0, 0.02, "from the fill down to 25 C + 1 W x 10 C/W");
    host.rest(SECOND);
    assert_close(conditions(&mut host).temperature_c.unwrap(), 35.0, 1e-6, "idle, settled");

    let (first, _) = load(&mut host, 1, 2.0);
    let power = power_w(&first);
    let rise = 10.0 * (power - 1.0);
    let seconds = first.span_ns as f64 / 1e9;
    let share = 1.0 - (-seconds / 2.0).exp();
    assert!((seconds - 2.0).abs() < 0.03 && rise > 20.0, "{seconds} s, {rise} C");
    assert_close(first.temperature_max_c.unwrap(), 35.0 + rise * share, 0.001, "after one time constant");
    // The mean of 1 - e^-t over one time constant.
    let mean = 35.0 + rise * (1.0 - share * 2.0 / seconds);
    assert_close(first.temperature_c.unwrap(), mean, 0.001, "mean over one time constant");

    load(&mut host, 1, 30.0);
    let (settled, _) = load(&mut host, 1, 2.0);
    let expected = 25.0 + 10.0 * power_w(&settled);
    assert_close(settled.temperature_c.unwrap(), expected, 0.001, "settled under load");
    assert_eq!(settled.throttled_ns, Some(0));
}

#[test]
fn a_throttled_drive_settles_below_its_limit_at_the_power_that_keeps_it_there() {
    let hot = format!(r#"{WARM}, "throttle_from_c": 50.0, "throttle_full_c": 55.0"#);
    let (mut free, mut host) = (filled(WARM), filled(&hot));
    let (unthrottled, free_rate) = (load(&mut free, 16, 30.0).0, load(&mut free, 16, 2.0).1);
    assert!(unthrottled.temperature_max_c.unwrap() > 100.0, "{unthrottled:?}");
    let (warming, _) = load(&mut host, 16, 30.0);
    assert!(warming.temperature_max_c.unwrap() < 55.0, "{warming:?}");
    let rates: Vec<_> = (0..3).map(|_| load(&mut host, 16, 2.0)).collect();
    for (found, rate) in &rates {
        let mean = found.temperature_c.unwrap();
        assert!((50.0..55.0).contains(&mean), "{found:?}");
        // What comes in goes out.
        assert_close(power_w(found), (mean - 25.0) / 10.0, 0.02, "power at the settled temperature");
        assert_close(*rate, rates[0].1, 0.03, "a steady rate");
        assert!(*rate < 0.5 * free_rate, "{rate} of {free_rate}");
        assert_eq!(found.throttled_ns, Some(found.span_ns), "all the time");
    }
    host.rest(60 * SECOND);
    conditions(&mut host);
    host.rest(SECOND);
    assert_eq!(conditions(&mut host).throttled_ns, Some(0), "cool again");

    // Large writes, a third of a second of them outstanding: the limit holds all the same.
    let hot = format!(r#"{hot}, "program_uj": 1500.0, "thermal_time_constant_s": 0.5"#);
    let mut host = Host::new(small(&hot), 128);
    host.run(128, (0..5000).map(|i| write(256 * (i % 90), 256)));
    let found = conditions(&mut host);
    assert!((50.0..55.0).contains(&found.temperature_max_c.unwrap()), "{found:?}");
}

#[test]
fn energies_without_throttling_change_no_time() {
    let run = |changes: &str| {
        let p = small(changes);
        let units = p.geometry().units;
        let mut host = Host::new(p, 32);
        let mut done = host.run(16, (0..units / 256).map(|i| write(256 * i, 256)));
        done.extend(host.run(32, random_units(1, units).take(50_000).map(|unit| write(unit, 1))));
        done
    };
    assert!(run(WARM) == run(r#""fault_seed": 1"#), "the same completions");
}

#[test]
fn wrong_parameters_are_named() {
    for (changes, name) in [
        (r#"{"throttle_full_c": 60.0}"#, "throttle_full_c"),
        (r#"{"idle_w": -1.0}"#, "idle_w"),
        (r#"{"thermal_time_constant_s": 0.0}"#, "thermal_time_constant_s"),
        (r#"{"ambient_c": -300.0}"#, "ambient_c"),
        (r#"{"thermal_resistance_c_per_w": 5.0}"#, "thermal_resistance_c_per_w: no effect without an energy"),
        (r#"{"idle_w": 1.0, "throttle_full_c": 90.0}"#, "throttle_full_c: no effect without thermal_resistance"),
        (
            r#"{"idle_w": 1.0, "thermal_resistance_c_per_w": 5.0, "throttle_full_c": 70.0}"#,
            "throttle_full_c: must be above throttle_from_c",
        ),
    ] {
        let error = DriveParameters::preset("sata-enterprise", changes).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}
