//! Prints what the comparison of storage classes (shared/reference, calypso-storage-classes.csv) publishes of a
//! drive, and its latency at T1Q1, measured on a preset; and its matrix of IOPS if asked for. docs/data.py keeps it.
//!
//!     cargo run --release --example sim_calibrate -- PRESET [CAPACITY-BYTES | blocks] [THREADS] [DEPTH] [SECONDS] [matrix] [OVERRIDES-JSON]
//!
//! A drive smaller than the preset's gets as much less spare capacity as makes its write amplification that of the
//! whole one: with few superblocks, one more is much. `blocks`: as small as it can be with blocks of the preset's
//! length, which is what maximum latencies follow from.

use std::time::Duration;

use flashgauge_core::engine::{Session, StepResult};
use flashgauge_core::error::Error;
use flashgauge_core::simdrive::{DriveParameters, UNIT};
use flashgauge_core::workload::{Access, ActiveRange, BlockShare, Stimulus, Stop};

const SEQUENTIAL: Access = Access::Sequential { restart: false };
/// Superblocks of the smallest drive that is measured with whole blocks; with fewer, blocks are made shorter.
const SUPERBLOCKS: u64 = 530;

struct Bench {
    session: Session,
    threads: u32,
    depth: u32,
}

impl Bench {
    fn run(
        &mut self,
        access: Access,
        kib: f64,
        read: f64,
        (threads, depth): (u32, u32),
        stop: Stop,
    ) -> Result<StepResult, Error> {
        let stimulus = Stimulus {
            access,
            block_sizes: vec![BlockShare { bytes: (kib * 1024.0) as u64, weight: 1 }],
            read_percent: read,
            active_range: ActiveRange { start_percent: 0.0, end_percent: 100.0 },
            thread_count: threads,
            queue_depth: depth,
            entropy_percent: 100,
            alignment_bytes: None,
            rate: None,
        };
        self.session.start(stimulus, stop, 1_000_000_000, true)?;
        loop {
            if let Some(result) = self.session.wait(Duration::from_secs(1))? {
                return Ok(result);
            }
        }
    }

    fn random(&mut self, kib: f64, read: f64, stop: Stop) -> Result<f64, Error> {
        let load = (self.threads, self.depth);
        Ok(per_second(&self.run(Access::Random, kib, read, load, stop)?))
    }
}

fn per_second(result: &StepResult) -> f64 {
    (result.recorder.read.window_ios + result.recorder.write.window_ios) as f64 * 1e9 / result.window_ns as f64
}

/// Mean and maximum latency of a step of one operation, in ms.
fn latency_ms(result: &StepResult) -> (f64, f64) {
    let side = if result.recorder.read.window_ios > 0 { &result.recorder.read } else { &result.recorder.write };
    (side.latency_sum_ns as f64 / side.histogram().len() as f64 / 1e6, side.histogram().max() as f64 / 1e6)
}

/// Physical capacity / user capacity, without the reserve and, on average, half of each open superblock.
fn effective_alpha(parameters: &DriveParameters) -> f64 {
    let geometry = parameters.geometry();
    let superblocks = geometry.superblocks - u64::from(parameters.gc_reserve_superblocks) - 1;
    (superblocks * geometry.units_per_superblock) as f64 / geometry.units as f64
}

/// Drive writes of RND 4 KiB after which only a fortieth of the spare capacity's size is still where it was before.
fn settling(parameters: &DriveParameters) -> f64 {
    (40.0 / (effective_alpha(parameters) - 1.0)).ln()
}

/// The smallest capacity with blocks of their own length.
fn whole_blocks(p: &DriveParameters) -> u64 {
    let superblock = u64::from(p.dies * p.planes * p.pages_per_block) * p.page_bytes;
    p.capacity_bytes.min((SUPERBLOCKS * superblock) / UNIT * UNIT)
}

fn shrink(parameters: &mut DriveParameters, capacity_bytes: u64) {
    let wanted = effective_alpha(parameters);
    parameters.capacity_bytes = capacity_bytes;
    // Superblocks are whole: user capacity takes up what over-provisioning cannot.
    parameters.over_provisioning -= effective_alpha(parameters) - wanted;
    let physical = effective_alpha(parameters) * parameters.geometry().units as f64;
    let spare = 1.0 + parameters.over_provisioning;
    let bytes = physical / wanted * UNIT as f64;
    parameters.over_provisioning = spare * parameters.capacity_bytes as f64 / bytes - 1.0;
    parameters.capacity_bytes = bytes as u64 / UNIT * UNIT;
    eprintln!(
        "{} bytes, over-provisioning {:.4}: effective {:.5} (the whole drive: {:.5}), {} superblocks",
        parameters.capacity_bytes,
        parameters.over_provisioning,
        effective_alpha(parameters) - 1.0,
        wanted - 1.0,
        parameters.geometry().superblocks
    );
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let argument = |index: usize, default: &str| args.get(index).cloned().unwrap_or(default.into());
    let mut parameters = DriveParameters::preset(&argument(1, "sata-enterprise"), &argument(7, "{}"))?;
    match args.get(2).map(String::as_str) {
        Some("blocks") => {
            let bytes = whole_blocks(&parameters);
            shrink(&mut parameters, bytes);
        }
        Some(bytes) => shrink(&mut parameters, bytes.parse().expect("bytes or `blocks`")),
        None => {}
    }
    let drive_writes = settling(&parameters);
    let threads: u32 = argument(3, "4").parse().expect("threads");
    let depth: u32 = argument(4, "32").parse().expect("queue depth");
    let seconds: f64 = argument(5, "10").parse().expect("seconds");
    let units = parameters.capacity_bytes / UNIT;
    let mut bench = Bench { session: Session::simulated(parameters, 1, threads, depth.max(32))?, threads, depth };
    let time = Stop::Time { ns: (seconds * 1e9) as u64 };

    println!("metric,value");
    println!("fob_rnd4k_w,{:.0}", bench.random(4.0, 0.0, Stop::Ios { ios: units / 2 })?);
    bench.run(SEQUENTIAL, 128.0, 0.0, (1, 32), Stop::Bytes { bytes: 2 * units / 32 * 32 * UNIT })?;
    for (name, read) in [("w", 0.0), ("r", 100.0)] {
        let rate = per_second(&bench.run(SEQUENTIAL, 1024.0, read, (1, 32), time)?);
        println!("seq1024k_{name}_mbs,{:.0}", rate * 1.048576);
    }
    bench.random(4.0, 0.0, Stop::Ios { ios: (drive_writes * units as f64) as u64 })?;
    for (name, read) in [("w", 0.0), ("rw65", 65.0), ("r", 100.0)] {
        println!("rnd4k_{name},{:.0}", bench.random(4.0, read, time)?);
    }
    for (name, kib, read) in [("0.5k_r", 0.5, 100.0), ("4k_r", 4.0, 100.0), ("8k_r", 8.0, 100.0), ("4k_w", 4.0, 0.0)] {
        bench.session.idle(1_000_000_000)?;
        let (mean, most) = latency_ms(&bench.run(Access::Random, kib, read, (1, 1), time)?);
        println!("lat_rnd{name}_avg_ms,{mean:.3}\nlat_rnd{name}_max_ms,{most:.3}");
    }
    if argument(6, "") != "matrix" {
        return Ok(());
    }
    println!("rw_mix,0.5,4,8,16,32,64,128,1024");
    for read in [0.0, 5.0, 35.0, 50.0, 65.0, 95.0, 100.0] {
        print!("{read:.0}/{:.0}", 100.0 - read);
        for kib in [0.5, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1024.0] {
            print!(",{:.1}", bench.random(kib, read, time)?);
        }
        println!();
    }
    Ok(())
}
