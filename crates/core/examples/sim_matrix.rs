//! Prints the IOPS matrix of a preset after pre-conditioning, and the simulator's speed.
//!
//!     cargo run --release --example sim_matrix -- PRESET [OVERRIDES-JSON] [SECONDS PER POINT] [ROUNDS]

use std::time::{Duration, Instant};

use flashgauge_core::engine::{Session, StepResult};
use flashgauge_core::error::Error;
use flashgauge_core::simdrive::DriveParameters;
use flashgauge_core::workload::{Access, ActiveRange, BlockShare, Stimulus, Stop};

fn run(session: &mut Session, access: Access, kib: f64, read_percent: f64, stop: Stop) -> Result<StepResult, Error> {
    let stimulus = Stimulus {
        access,
        block_sizes: vec![BlockShare { bytes: (kib * 1024.0) as u64, weight: 1 }],
        read_percent,
        active_range: ActiveRange { start_percent: 0.0, end_percent: 100.0 },
        thread_count: 4,
        queue_depth: 32,
        entropy_percent: 100,
        alignment_bytes: None,
        rate: None,
    };
    session.start(stimulus, stop, 1_000_000_000, true)?;
    loop {
        if let Some(result) = session.wait(Duration::from_secs(1))? {
            return Ok(result);
        }
    }
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let argument = |index: usize, default: &str| args.get(index).cloned().unwrap_or(default.into());
    let parameters = DriveParameters::preset(&argument(1, "sata-enterprise"), &argument(2, "{}"))?;
    let seconds: f64 = argument(3, "10").parse().expect("seconds");
    let rounds: u32 = argument(4, "1").parse().expect("rounds");
    let capacity = parameters.capacity_bytes;
    let mut session = Session::simulated(parameters, 1, 4, 32)?;
    let begin = Instant::now();
    let sequential = Access::Sequential { restart: false };
    let fill = run(&mut session, sequential, 128.0, 0.0, Stop::Bytes { bytes: 2 * capacity / 512 * 512 })?;
    println!("fill: {:.1} MB/s, {:.1} s", 2e3 * capacity as f64 / fill.window_ns as f64, begin.elapsed().as_secs_f64());
    for round in 1..=rounds {
        println!("round {round}");
        for read in [100.0, 95.0, 65.0, 50.0, 35.0, 5.0, 0.0] {
            print!("{read:>4}:");
            for kib in [1024.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 0.5] {
                let at = Instant::now();
                let stop = Stop::Time { ns: (seconds * 1e9) as u64 };
                let result = run(&mut session, Access::Random, kib, read, stop)?;
                let ios = (result.recorder.read.window_ios + result.recorder.write.window_ios) as f64;
                print!(" {:>9.1} ({:>4.1}M/s)", ios / seconds, ios / at.elapsed().as_secs_f64() / 1e6);
            }
            println!();
        }
        println!("{:.1} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}
