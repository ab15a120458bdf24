//! SLC cache: what it holds, how fast it takes data, and how it recovers, against sums of die time.

mod support;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdrive::{DriveParameters, UNIT};
use flashgauge_core::units::{Bytes, Lba};

use crate::support::host::{Host, random_units, read, write};
use crate::support::*;

/// The preset with another capacity, of the same rates, and a smaller static cache.
fn slc(changes: &str) -> DriveParameters {
    // Of two values for a parameter the later one holds.
    let json = format!(r#"{{"capacity_bytes": 8000000000, "slc_static_mib": 64{changes}}}"#);
    DriveParameters::preset("nvme-client-slc", &json).unwrap()
}

/// Units that the cache of an empty drive holds: the static superblocks and, of those that are free beside three open
/// ones and what data in the cache will need, a share.
fn capacity(p: &DriveParameters) -> f64 {
    let g = p.geometry();
    let held = g.slc_units_per_superblock as f64 / g.units_per_superblock as f64;
    let (share, fixed) = (p.slc_dynamic_percent / 100.0, g.slc_superblocks as f64);
    let free = (g.superblocks - u64::from(p.gc_reserve_superblocks) - 3) as f64;
    let dynamic = share * (free - fixed * held) / (1.0 + share * held);
    (fixed + dynamic.max(0.0)) * g.slc_units_per_superblock as f64
}

/// Die time of a unit, in us.
struct DieTime {
    into_cache: f64,
    into_main: f64,
    /// From the cache to the main area, the erases that both need later included.
    folded: f64,
}

impl DieTime {
    fn of(p: &DriveParameters) -> Self {
        let (g, transfer) = (p.geometry(), UNIT as f64 / p.channel_mb_per_s);
        let (n, m) = (f64::from(g.units_per_page), f64::from(g.units_per_sense));
        let units_of_block = |superblock: u64| superblock as f64 / f64::from(p.dies);
        let into_main = p.program_us / n + transfer;
        let slc_erase = g.slc_erase_ns as f64 / 1e3 / units_of_block(g.slc_units_per_superblock);
        Self {
            into_cache: p.slc_program_us / m + transfer,
            into_main,
            folded: into_main + p.slc_read_us / m + slc_erase,
        }
    }
}

/// Units per second when each takes so many us of die time.
fn rate(p: &DriveParameters, us: f64) -> f64 {
    f64::from(p.dies) * 1e6 / us
}

/// A host that writes all of the drive in order, over and over.
struct Writer {
    host: Host,
    next: u64,
}

impl Writer {
    fn new(p: DriveParameters) -> Self {
        Self { host: Host::new(p, 32), next: 0 }
    }

    /// Units per second over the next so many.
    fn write(&mut self, units: f64) -> f64 {
        let all = self.host.drive.parameters().geometry().units;
        let places = all / 32;
        let (first, count) = (self.next, (units / 32.0) as u64);
        self.next += count;
        let done = self.host.run(32, (first..first + count).map(|place| write(place % places * 32, 32)));
        (32 * count) as f64 * 1e9 / (done[done.len() - 1].completed - done[0].submitted) as f64
    }

    /// Write until it becomes slow. Units written fast.
    fn burst(&mut self, slow: f64) -> f64 {
        let step = 32.0 * 96.0;
        (0..).find(|_| self.write(step) < slow).expect("a cache is full at some time") as f64 * step
    }

    fn folded(&self) -> u64 {
        self.host.drive.counters().folded_units
    }
}

fn assert_near(ours: f64, law: f64, share: f64, what: &str) {
    println!("{what}: {ours:.0}, law {law:.0}, {:+.2} %", (ours / law - 1.0) * 100.0);
    assert!((ours / law - 1.0).abs() < share, "{what}: {ours:.0}, not {law:.0}");
}

/// The preset's figures, in bytes per ns, from die times alone: into the cache, past it, while it is folded.
#[test]
fn the_three_rates_come_out_of_the_mechanisms() {
    for (when_full, published) in [("direct", 1.5), ("fold", 1.0)] {
        let p = slc(&format!(r#", "slc_when_full": "{when_full}""#));
        let (time, held) = (DieTime::of(&p), capacity(&p));
        let mut writer = Writer::new(p.clone());
        // The buffer takes the first data without a program.
        writer.write(4096.0);
        let fast = writer.write(0.97 * held - 4096.0);
        assert_near(fast, rate(&p, time.into_cache), 0.01, "into the cache");
        assert_eq!(writer.folded(), 0);
        assert_near(fast * UNIT as f64 / 1e6, 4200.0, 0.15, "MB/s");
        writer.write(0.06 * held);
        let full = writer.write(held);
        // The dynamic cache becomes smaller as the drive fills, and that is folded as well.
        let g = p.geometry();
        let shrinks = g.slc_units_per_superblock as f64 / g.units_per_superblock as f64 * p.slc_dynamic_percent / 100.0;
        let folding = time.into_cache + time.folded * (1.0 + shrinks);
        let us = if when_full == "fold" { folding } else { time.into_main };
        assert_near(full, rate(&p, us), 0.02, when_full);
        assert_near(full * UNIT as f64 / 1e6, published * 1e3, 0.15, "MB/s");
        assert_eq!(writer.folded() > 0, when_full == "fold");
        writer.host.drive.check();
    }
}

/// It is full after what the law says, to the superblock; static, dynamic and both.
#[test]
fn the_cache_holds_what_it_should() {
    for (fixed, percent) in [(64, 0.0), (0, 10.0), (64, 33.0), (16, 100.0)] {
        let p = slc(&format!(r#", "slc_static_mib": {fixed}, "slc_dynamic_percent": {percent:?}"#));
        let time = DieTime::of(&p);
        let between = rate(&p, (time.into_cache + time.into_main) / 2.0);
        let ours = Writer::new(p.clone()).burst(between);
        let (law, superblock) = (capacity(&p), p.geometry().slc_units_per_superblock as f64);
        println!("{fixed} MiB and {percent} %: {:.1} superblocks, law {:.1}", ours / superblock, law / superblock);
        let steps = (ours - law) / superblock;
        assert!((-4.0..4.0).contains(&steps), "{fixed} MiB and {percent} %: {steps} superblocks more than {law} units");
    }
}

/// Folding takes the dies' time and nothing else, a little at a time or a superblock at once.
#[test]
fn folding_takes_the_dies_time() {
    // A superblock at once, dies wait for one another at its end.
    for (pacing, most) in [("paced", 0.01), ("line", 0.05)] {
        let cache = r#", "slc_static_mib": 900, "slc_dynamic_percent": 0, "slc_when_full": "fold""#;
        let p = slc(&format!(r#"{cache}, "gc_pacing": "{pacing}""#));
        let (time, held) = (DieTime::of(&p), capacity(&p));
        let mut writer = Writer::new(p.clone());
        writer.write(1.05 * held);
        let full = writer.write(4.0 * held);
        assert_near(full, rate(&p, time.into_cache + time.folded), most, pacing);
    }
}

/// Idle time folds as much as the dies' time is worth, and the host finds that much room again. In a static cache: a
/// dynamic one becomes smaller as the drive fills.
#[test]
fn the_cache_recovers_in_proportion_to_the_idle_time() {
    let fixed = r#", "slc_static_mib": 900, "slc_dynamic_percent": 0, "idle_collect_after_ms": 0"#;
    let p = slc(&format!(r#"{fixed}, "slc_fold_after_ms": 50"#));
    let (time, held) = (DieTime::of(&p), capacity(&p));
    let between = rate(&p, (time.into_cache + time.into_main) / 2.0);
    let superblock = p.geometry().slc_units_per_superblock as f64;
    let mut writer = Writer::new(p.clone());
    writer.burst(between);
    writer.write(held);
    for ms in [150, 250, 450, 3000] {
        let before = writer.folded();
        writer.host.rest(49 * MILLISECOND);
        assert_eq!(writer.folded(), before, "not before its time");
        writer.host.rest((ms + 1) * MILLISECOND);
        let folded = (writer.folded() - before) as f64;
        let law = rate(&p, time.folded) * ms as f64 / 1e3;
        if law < 0.8 * held {
            // And what is on its way to the dies, two programs for each.
            let ahead = 2.0 * f64::from(p.dies * p.geometry().units_per_page);
            assert_near(folded, law + ahead / 2.0, 0.02 + ahead / 2.0 / law, &format!("folded in {ms} ms"));
        } else {
            assert!(folded > 0.9 * held, "{folded} of {held} units folded in {ms} ms");
            let rested = writer.folded();
            writer.host.rest(SECOND);
            assert_eq!(writer.folded(), rested, "the cache is empty");
        }
        let fast = writer.burst(between);
        println!("{ms} ms: {:.1} superblocks folded, {:.1} written fast", folded / superblock, fast / superblock);
        assert!((fast - folded).abs() < 4.0 * superblock, "{ms} ms: {fast} units fast, {folded} folded");
        writer.write(held / 4.0);
    }
    writer.host.drive.check();
    // Never, if it is so set.
    let mut writer = Writer::new(slc(&format!(r#"{fixed}, "slc_fold_after_ms": 0"#)));
    writer.write(2.0 * held);
    writer.host.rest(100 * SECOND);
    assert_eq!(writer.folded(), 0);
    assert!(writer.burst(between) < 3.0 * superblock, "no more than the buffer takes");
}

/// A read costs what the cells it finds cost.
#[test]
fn data_in_the_cache_is_read_as_slc() {
    let p = slc("");
    let mut writer = Writer::new(p.clone());
    writer.write(8192.0);
    writer.host.rest(SECOND / 2);
    let us = |writer: &mut Writer| writer.host.one(read(1000, 1)) as f64 / 1e3;
    let fast = us(&mut writer);
    // The superblock that is open is not folded.
    writer.write(2.0 * p.geometry().slc_units_per_superblock as f64);
    writer.host.rest(10 * SECOND);
    assert!(writer.folded() > 1000);
    let slow = us(&mut writer);
    assert!((slow - fast - (p.read_us - p.slc_read_us)).abs() < 0.01, "{fast} us in the cache, {slow} us folded");
}

/// What is overwritten or trimmed in the cache needs no folding, and its room comes back.
#[test]
fn stale_data_in_the_cache_is_not_copied() {
    let p = slc("");
    let (time, held) = (DieTime::of(&p), capacity(&p));
    let mut writer = Writer::new(p.clone());
    let small = (0.4 * held / 32.0) as u64;
    writer.write(4096.0);
    let fast = {
        let done = writer.host.run(32, (0..10 * small).map(|i| write(i % small * 32, 32)));
        (320 * small) as f64 * 1e9 / (done[done.len() - 1].completed - done[0].submitted) as f64
    };
    let erase =
        p.geometry().slc_erase_ns as f64 / 1e3 * f64::from(p.dies) / p.geometry().slc_units_per_superblock as f64;
    let law = rate(&p, time.into_cache)..rate(&p, time.into_cache + erase);
    assert!(fast < 1.01 * law.start && fast > 0.98 * law.end, "{fast} units/s, {law:?}");
    assert_eq!(writer.folded(), 0, "ten times over what 0.4 of the cache holds");
    writer.burst(rate(&p, (time.into_cache + time.into_main) / 2.0));
    let all = Bytes(p.capacity_bytes / UNIT * UNIT);
    writer.host.drive.control(Control::Trim { lba: Lba(0), bytes: all }).unwrap();
    let again = writer.burst(rate(&p, (time.into_cache + time.into_main) / 2.0));
    assert!(again > 0.9 * held, "{again} of {held} units are fast after TRIM");
    assert_eq!(writer.folded(), 0);
    writer.host.drive.check();
}

#[test]
fn purge_and_the_volatile_cache() {
    let p = slc("");
    let between = rate(&p, 0.5 * (DieTime::of(&p).into_cache + DieTime::of(&p).into_main));
    let mut writer = Writer::new(p.clone());
    let first = writer.burst(between);
    writer.host.rest(SECOND);
    writer.host.drive.control(Control::Purge).unwrap();
    writer.next = 0;
    assert_eq!(writer.burst(between), first, "as fresh as before");
    writer.host.drive.control(Control::Purge).unwrap();
    // Not the SLC cache, which keeps its data, but the buffer is switched off: each write waits for its SLC program.
    writer.host.drive.control(Control::WriteCache(false)).unwrap();
    let m = u64::from(p.geometry().units_per_sense);
    let padded = writer.host.drive.counters().padded_units;
    let us = writer.host.one(write(5, 1)) as f64 / 1e3;
    let law = p.write_latency_us + p.slc_program_us + m as f64 * UNIT as f64 / p.channel_mb_per_s;
    assert!((law..law + 5.0).contains(&us), "{us} us, not {law}");
    assert_eq!(writer.host.drive.counters().padded_units - padded, m - 1, "the page is of SLC size");
}

/// A = alpha / (alpha + W0(-alpha e^-alpha)) for large blocks; W0 by Newton from the right.
fn large_blocks(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    alpha / (alpha + (0..200).fold(0.0, |w: f64, _| w - (w * w.exp() - x) / ((w + 1.0) * w.exp())))
}

/// Steady state under random writes: the dynamic cache gives its superblocks back, so that the spare capacity is what
/// it is without; the theory of write amplification holds (SIMULATION.md, section 2), for large blocks.
#[test]
fn the_dynamic_cache_gives_the_spare_back() {
    let amplification = |changes: &str| {
        let p = slc(&format!(
            r#", "capacity_bytes": 2000000000, "slc_static_mib": 0, "slc_fold_after_ms": 0,
            "idle_collect_after_ms": 0{changes}"#
        ));
        let units = p.geometry().units;
        let mut host = Host::new(p, 32);
        host.fill(units);
        let mut draw = random_units(31, units);
        let mut overwrite = |host: &mut Host, count: u64| {
            host.run(32, draw.by_ref().take(count as usize).map(|unit| write(unit, 1)));
        };
        overwrite(&mut host, 8 * units);
        let before = host.drive.counters();
        overwrite(&mut host, 4 * units);
        let after = host.drive.counters();
        host.drive.check();
        assert_eq!(after.folded_units, before.folded_units, "nothing is in the cache any more");
        let moved = (after.collected_units - before.collected_units) as f64;
        let amplification = 1.0 + moved / (after.host_units - before.host_units) as f64;
        let g = host.drive.parameters().geometry();
        let superblocks = g.superblocks - u64::from(host.drive.parameters().gc_reserve_superblocks) - 1;
        let alpha = (superblocks * g.units_per_superblock) as f64 / g.units as f64;
        (amplification / large_blocks(alpha), before.folded_units)
    };
    let (without, none) = amplification(r#", "slc_dynamic_percent": 0.0"#);
    let (with, folded) = amplification(r#", "slc_dynamic_percent": 100.0"#);
    println!("{with:.4} of the law with, {without:.4} without a dynamic cache");
    assert!((with / without - 1.0).abs() < 0.002);
    assert!(none == 0 && folded > 0);
    // Of a random load of four drive writes: three standard errors, and what is open or not by a superblock's part.
    for ratio in [with, without] {
        assert!((0.995..1.005).contains(&ratio), "{with:.4} of the law with, {without:.4} without a dynamic cache");
    }
}
