//! Prints how long the simulator takes for an hour of the drive's time, for the loads that a full-length test set
//! spends its days on.
//!
//!     cargo run --release --example sim_speed -- PRESET [OVERRIDES-JSON] [SIMULATED SECONDS PER LOAD]

use std::time::{Duration, Instant};

use flashgauge_core::engine::{Session, StepResult};
use flashgauge_core::error::Error;
use flashgauge_core::simdrive::DriveParameters;
use flashgauge_core::workload::{Access, ActiveRange, BlockShare, Stimulus, Stop};

const SEQUENTIAL: Access = Access::Sequential { restart: false };

fn run(session: &mut Session, access: Access, kib: u64, threads: u32, stop: Stop) -> Result<StepResult, Error> {
    let stimulus = Stimulus {
        access,
        block_sizes: vec![BlockShare { bytes: kib * 1024, weight: 1 }],
        read_percent: 0.0,
        active_range: ActiveRange { start_percent: 0.0, end_percent: 100.0 },
        thread_count: threads,
        queue_depth: 32,
        entropy_percent: 100,
        alignment_bytes: None,
        rate: None,
    };
    session.start(stimulus, stop, 60_000_000_000, true)?;
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
    let seconds: f64 = argument(3, "600").parse().expect("seconds");
    let capacity = parameters.capacity_bytes;
    let mut session = Session::simulated(parameters, 1, 4, 32)?;
    let time = Stop::Time { ns: (seconds * 1e9) as u64 };
    let show = |session: &mut Session, name: &str, access, kib, threads, stop| -> Result<(), Error> {
        let begin = Instant::now();
        let result = run(session, access, kib, threads, stop)?;
        let (host, simulated) = (begin.elapsed().as_secs_f64(), result.window_ns as f64 / 1e9);
        let ios = result.recorder.write.window_ios as f64;
        println!(
            "{name:<34} {:>8.2} host s per simulated hour, {:>6.2} M I/Os and {:>7.2} GB per host s; {:.1} IOPS",
            host / simulated * 3600.0,
            ios / host / 1e6,
            ios * kib as f64 * 1024.0 / host / 1e9,
            ios / simulated,
        );
        Ok(())
    };
    show(&mut session, "SEQ 1024 KiB T1Q32, from purge", SEQUENTIAL, 1024, 1, time)?;
    let fill = Stop::Bytes { bytes: 2 * capacity / 512 * 512 };
    show(&mut session, "SEQ 128 KiB T1Q32, two drive writes", SEQUENTIAL, 128, 1, fill)?;
    show(&mut session, "SEQ 1024 KiB T1Q32", SEQUENTIAL, 1024, 1, time)?;
    show(&mut session, "RND 4 KiB T4Q32, two drive writes", Access::Random, 4, 4, Stop::Ios { ios: capacity / 2048 })?;
    show(&mut session, "RND 4 KiB T4Q32", Access::Random, 4, 4, time)?;
    show(&mut session, "RND 8 KiB T4Q32", Access::Random, 8, 4, time)?;
    show(&mut session, "SEQ 1024 KiB T1Q32, after random", SEQUENTIAL, 1024, 1, time)
}
