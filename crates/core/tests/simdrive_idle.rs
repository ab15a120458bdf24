//! Garbage collection while the host is idle, against the law of host idle recovery (SIMULATION.md, section 3).

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::{DriveParameters, UNIT};
use flashgauge_core::units::Nanos;

use crate::support::host::{Host, random_units, read, write};
use crate::support::*;

/// Four dies and little spare, so that steady state is far below fresh out of the box; a link that limits nothing,
/// and a buffer that is small against what is written between two idle times.
fn drive_of(idle: &str) -> DriveParameters {
    drive(&format!(
        r#"{{"capacity_bytes": 1000000000, "over_provisioning": 0.1, "dies": 4, "channels": 4,
        "write_buffer_kib": 128, "write_commands_per_map_page": 0, "link_write_overhead_us": 0.1,
        "link_write_mb_per_s": 1e6, "link_write_max_iops": 1e9, "write_latency_us": 0.0{idle}}}"#
    ))
}

const IDLE: &str = r#", "idle_collect_after_ms": 0.001, "idle_collect_free_percent": 60"#;

/// A host that writes random units for a while, and rests for a while.
struct Cycler<D> {
    host: Host,
    draw: D,
}

fn steady(idle: &str) -> Cycler<impl Iterator<Item = u64>> {
    let p = drive_of(idle);
    let units = p.geometry().units;
    let mut cycler = Cycler { host: Host::new(p, 32), draw: random_units(11, units) };
    cycler.host.fill(units);
    cycler.overwrite(6);
    cycler
}

impl<D: Iterator<Item = u64>> Cycler<D> {
    fn overwrite(&mut self, drive_writes: u64) {
        let count = drive_writes * self.host.drive.parameters().geometry().units;
        self.host.run(32, self.draw.by_ref().take(count as usize).map(|unit| write(unit, 1)));
    }

    /// What the dies still have to do when the host stops is done.
    fn settle(&mut self) {
        self.host.rest(50 * MILLISECOND);
    }

    /// Keep 32 writes outstanding for `ns`, then wait for the last. Units written in that time.
    fn burst(&mut self, ns: u64) -> u64 {
        let (end, mut written, mut outstanding, mut done) = (self.host.drive.now().0 + ns, 0, 0, vec![]);
        let mut free: Vec<u32> = (0..32).collect();
        loop {
            while self.host.drive.now().0 < end
                && let Some(slot) = free.pop()
            {
                self.host.drive.submit(slot, &write(self.draw.next().unwrap(), 1)).unwrap();
                outstanding += 1;
            }
            if outstanding == 0 {
                return written;
            }
            self.host.drive.wait(Nanos::MAX, &mut done).unwrap();
            for completion in done.drain(..) {
                outstanding -= 1;
                free.push(completion.slot);
                written += u64::from(completion.at.0 <= end);
            }
        }
    }

    /// Units per second in the bursts, and the write amplification over all of it, the first cycles left out.
    fn cycles(&mut self, on: u64, off: u64, count: u64) -> (f64, f64) {
        let mut written = 0;
        let before = |cycler: &Self| cycler.host.drive.counters();
        let mut start = before(self);
        for cycle in 0..count + count / 2 {
            if cycle == count / 2 {
                (written, start) = (0, before(self));
            }
            written += self.burst(on);
            if off > 0 {
                self.host.rest(off);
            }
        }
        let end = before(self);
        let (host, collected) = (end.host_units - start.host_units, end.collected_units - start.collected_units);
        (written as f64 * 1e9 / (count * on) as f64, (host + collected) as f64 / host as f64)
    }
}

/// Die time of a host unit at write amplification `a`, in us (SIMULATION.md, section 3).
fn die_us(p: &DriveParameters, a: f64) -> f64 {
    let n = f64::from(p.geometry().units_per_page);
    let transfer = UNIT as f64 / p.channel_mb_per_s;
    let pages = p.geometry().units_per_superblock as f64 / n / f64::from(p.dies);
    let erase = p.geometry().erase_ns as f64 / 1e3 / pages;
    let valid = (a - 1.0) / a;
    let reads = (a - 1.0) * (1.0 - (1.0 - valid).powf(n)) * p.read_us / (n * valid.max(1e-9));
    a * ((p.program_us + erase) / n + transfer) + reads
}

const ON: u64 = SECOND / 4;

/// The law: the dies' time while idle is worth as much as that under load, so that n times the time is n times the
/// writes, up to the rate of a fresh drive, the dies' limit here. More superblocks are free on average than without
/// idle time; they hold nothing that the host has overwritten, the victims hold more that is valid, and so write
/// amplification over the cycles, A', is above that of steady writing, A0: a factor die time(A0) / die time(A'), which
/// is A0 / A' within a per cent.
#[test]
fn idle_time_speeds_writes_up_as_the_law_says() {
    let p = drive_of(IDLE);
    let mut cycler = steady(IDLE);
    let (base, a0) = cycler.cycles(ON, 0, 40);
    let by_die_time = f64::from(p.dies) * 1e6 / die_us(&p, a0);
    assert!((base / by_die_time - 1.0).abs() < 0.02, "{base} units/s without idle time, {by_die_time} by die time");
    let fresh = f64::from(p.dies) * 1e6 / die_us(&p, 1.0);
    for ratio in [1u64, 2, 3, 5, 10] {
        let (rate, a) = cycler.cycles(ON, ratio * ON, 60);
        let law = fresh.min(base * (1 + ratio) as f64 * a0 / a);
        assert!((rate / law - 1.0).abs() < 0.01, "idle {ratio} times as long: {rate:.0} units/s, law {law:.0}");
        // Without knowing A': as long as little of the spare capacity is freed ahead, it is near A0.
        if ratio <= 3 {
            let ideal = base * (1 + ratio) as f64;
            assert!((rate / ideal - 1.0).abs() < 0.05, "idle {ratio} times as long: {rate:.0} units/s, {ideal:.0}");
        }
    }
    // Writing without a pause uses up what was gained, and brings the base rate back.
    cycler.overwrite(5);
    let (again, _) = cycler.cycles(ON, 0, 40);
    assert!((again / base - 1.0).abs() < 0.02, "back at {again:.0} units/s, {base:.0} before");
    cycler.host.drive.check();
}

#[test]
fn without_idle_collection_idle_time_changes_nothing() {
    // The buffer is empty after a rest, which a burst of this length hardly notices.
    let on = 4 * SECOND;
    for never in [
        "",
        r#", "idle_collect_after_ms": 100000.0"#,
        r#", "idle_collect_after_ms": 1.0, "idle_collect_free_percent": 0"#,
    ] {
        let mut cycler = steady(never);
        let (base, _) = cycler.cycles(on, 0, 6);
        for ratio in [1, 10] {
            let (rate, _) = cycler.cycles(on, ratio * on, 6);
            assert!((rate / base - 1.0).abs() < 0.02, "{never}: {rate:.0} units/s instead of {base:.0}");
        }
    }
}

/// What was freed ahead lasts for (units freed) / (rate of a fresh drive); then the base rate is back.
#[test]
fn the_elevated_rate_lasts_as_long_as_what_was_freed() {
    let p = drive_of(IDLE);
    let mut cycler = steady(IDLE);
    cycler.host.rest(100 * SECOND);
    let rested = cycler.host.drive.counters();
    cycler.host.rest(100 * SECOND);
    assert_eq!(cycler.host.drive.counters(), rested, "enough is free: collection has ended");
    let freed =
        (p.idle_free_superblocks([0; 2])[0] - u64::from(p.gc_reserve_superblocks)) * p.geometry().units_per_superblock;
    let step = SECOND / 20;
    let fresh = f64::from(p.dies) * step as f64 / 1e3 / die_us(&p, 1.0);
    let written = |cycler: &Cycler<_>| (cycler.host.drive.counters().host_units - rested.host_units) as f64;
    while written(&cycler) < freed as f64 - 2.0 * fresh {
        let burst = cycler.burst(step) as f64;
        assert!((burst / fresh - 1.0).abs() < 0.05, "{burst} units in a step, {fresh:.0} when fresh");
    }
    assert_eq!(cycler.host.drive.counters().collected_units, rested.collected_units, "nothing is collected meanwhile");
    while cycler.burst(step) as f64 > 0.9 * fresh {}
    // The superblock that was open is filled first, so that it lasts for up to one more.
    let end = freed + p.geometry().units_per_superblock;
    assert!(written(&cycler) < end as f64 + fresh, "{} units instead of {freed}", written(&cycler));
    let (base, _) = cycler.cycles(ON, 0, 40);
    assert!(base < 0.2 * fresh * SECOND as f64 / step as f64, "{base} units/s");
}

/// Collection has the dies' real times, and all of the dies.
#[test]
fn collection_takes_the_dies_time() {
    let p = drive_of(IDLE);
    let mut cycler = steady(IDLE);
    let (_, a) = cycler.cycles(ON, 0, 40);
    // A unit of host data costs die_us(a); without its own program that is the a - 1 units collected for it.
    let us = (die_us(&p, a) - die_us(&p, 1.0)) / (a - 1.0);
    let mut moved = 0;
    for ms in [40, 80, 160] {
        cycler.burst(SECOND);
        cycler.settle();
        let before = cycler.host.drive.counters().collected_units;
        cycler.host.rest(ms * MILLISECOND);
        let now = cycler.host.drive.counters().collected_units - before;
        let law = f64::from(p.dies) * ms as f64 * 1e3 / us;
        // Two pages that are on their way for each die.
        let slack = 2.0 * f64::from(p.dies * p.geometry().units_per_page) + 0.03 * law;
        assert!((now as f64 - law).abs() < slack, "{now} units in {ms} ms, {law:.0} by die time");
        assert!(now > moved, "more in {ms} ms than in half of that");
        moved = now;
    }
}

/// It starts when the host has been away for long enough, not before, and again after each command.
#[test]
fn collection_begins_after_the_time_set() {
    let mut cycler = steady(r#", "idle_collect_after_ms": 50, "idle_collect_free_percent": 60"#);
    cycler.host.rest(40 * MILLISECOND);
    let before = cycler.host.drive.counters().collected_units;
    for _ in 0..10 {
        cycler.host.one(read(1, 1));
        cycler.host.rest(49 * MILLISECOND);
    }
    assert_eq!(cycler.host.drive.counters().collected_units, before);
    cycler.host.rest(2 * MILLISECOND);
    assert!(cycler.host.drive.counters().collected_units > before);
}

/// A command finds the dies at work, waits for what they have begun, and no longer.
#[test]
fn the_host_waits_for_what_has_begun() {
    let p = drive_of(IDLE);
    let mut cycler = steady(IDLE);
    let program_ns = (p.program_us * 1e3) as u64 + p.geometry().erase_ns;
    cycler.settle();
    let mut latencies: Vec<u64> = (0..200)
        .map(|i| {
            cycler.host.rest(3 * MILLISECOND);
            cycler.host.one(read(i * 1000, 1))
        })
        .collect();
    latencies.sort_unstable();
    assert!(latencies[100] > 500_000, "half of the reads wait {} ns or longer", latencies[100]);
    // Two programs, and the reads of what is collected with them.
    assert!(latencies[199] < 3 * program_ns, "the longest waits {} ns", latencies[199]);
    // Writes go into the buffer.
    cycler.host.rest(3 * MILLISECOND);
    assert!(cycler.host.one(write(5, 1)) < 100_000);
}

/// Time passes alike in one piece and in many, and a switch of the cache or a purge ends it.
#[test]
fn time_in_pieces_is_the_same_time() {
    let run = |idle: &str, pieces: u64| {
        let mut cycler = steady(idle);
        for _ in 0..3 {
            for _ in 0..pieces {
                cycler.host.rest(60 * MILLISECOND / pieces);
            }
            cycler.burst(100 * MILLISECOND);
        }
        cycler.host.rest(MILLISECOND);
        let before = cycler.host.drive.counters();
        cycler.host.drive.control(Control::WriteCache(false)).unwrap();
        assert_eq!(cycler.host.drive.counters().collected_units, before.collected_units, "nothing new is begun");
        let latency = cycler.host.one(write(9, 1));
        let counters = cycler.host.drive.counters();
        cycler.host.drive.control(Control::Purge).unwrap();
        cycler.host.rest(SECOND);
        assert_eq!(cycler.host.drive.counters().collected_units, 0, "nothing is left to collect");
        cycler.host.drive.check();
        (counters, latency, cycler.host.drive.now())
    };
    let both =
        format!(r#"{IDLE}, "slc_static_mib": 16, "bits_per_cell": 3, "slc_fold_after_ms": 7, "slc_when_full": "fold""#);
    for idle in [IDLE, &both] {
        assert_eq!(run(idle, 1), run(idle, 1000));
    }
}

/// One kind of work has its time and finds nothing to do: the other begins all the same, in one rest without a break.
#[test]
fn work_that_has_nothing_to_do_keeps_no_other_from_beginning() {
    // Nothing to collect on a drive that is nearly empty, but something to fold.
    let p =
        drive_of(r#", "idle_collect_after_ms": 10, "slc_static_mib": 16, "bits_per_cell": 3, "slc_fold_after_ms": 20"#);
    let mut host = Host::new(p.clone(), 32);
    host.fill(p.geometry().slc_units_per_superblock * 2);
    host.rest(SECOND);
    assert!(host.drive.counters().folded_units > 0);
    // No cache to fold, but much to collect.
    let p = DriveParameters::preset(
        "nvme-client-slc",
        r#"{"capacity_bytes": 2000000000, "slc_static_mib": 0, "slc_dynamic_percent": 0, "idle_collect_after_ms": 1500}"#,
    )
    .unwrap();
    assert!(p.slc_fold_after_ms < p.idle_collect_after_ms);
    let units = p.geometry().units;
    let mut host = Host::new(p, 32);
    host.fill(units);
    host.run(32, random_units(1, units).take(2 * units as usize).map(|unit| write(unit, 1)));
    let before = host.drive.counters().collected_units;
    host.rest(10 * SECOND);
    assert!(host.drive.counters().collected_units > before);
}
