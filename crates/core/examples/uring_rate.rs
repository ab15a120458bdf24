//! How many random 4 KiB reads a second one engine thread gets from a device; for comparison with fio.
//!
//! Usage: uring_rate PATH [SECONDS [QUEUE_DEPTH [BLOCK_BYTES]]]. It only reads, within the first GiB.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use flashgauge_core::engine::{Device, NullDevice, Target, UringDevice};
use flashgauge_core::units::{Bytes, Nanos};
use flashgauge_core::workload::{RequestStream, Stimulus};

const RANGE: Bytes = Bytes(1 << 30);

fn stimulus(block_bytes: u64, queue_depth: u32) -> Stimulus {
    let text = format!(
        r#"{{"access": {{"kind": "random"}}, "block_sizes": [{{"bytes": {block_bytes}, "weight": 1}}],
            "read_percent": 100, "active_range": {{"start_percent": 0, "end_percent": 100}},
            "thread_count": 1, "queue_depth": {queue_depth}}}"#
    );
    Stimulus::from_json(&text).expect("a constant but for two numbers")
}

/// I/Os completed per second, and per wait.
fn rate(device: &mut dyn Device, stimulus: &Stimulus, seconds: u64) -> Result<(f64, f64), Box<dyn Error>> {
    let mut stream = RequestStream::new(1, 0);
    stream.set(stimulus, RANGE)?;
    let start = device.now();
    let end = Nanos(start.0 + seconds * 1_000_000_000);
    let mut free: Vec<u32> = (0..stimulus.queue_depth).collect();
    let (mut done, mut completed, mut waits) = (vec![], 0u64, 0u64);
    let mut now = start;
    while now < end || free.len() < stimulus.queue_depth as usize {
        while now < end
            && let Some(slot) = free.pop()
        {
            device.submit(slot, &stream.next_request())?;
        }
        device.wait(end, &mut done)?;
        waits += 1;
        for completion in done.drain(..) {
            completion.result.map_err(std::io::Error::from_raw_os_error)?;
            (now, completed) = (completion.at, completed + 1);
            free.push(completion.slot);
        }
        if free.is_empty() {
            now = device.now();
        }
    }
    Ok((completed as f64 * 1e9 / device.now().since(start) as f64, completed as f64 / waits as f64))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).ok_or("usage: uring_rate PATH [SECONDS [QUEUE_DEPTH [BLOCK_BYTES]]]")?;
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (seconds, depth, block) = (number(2, 5)?, u32::try_from(number(3, 32)?)?, number(4, 4096)?);
    let stimulus = stimulus(block, depth);
    let target = Arc::new(Target::open(Path::new(path), RANGE, true)?);
    target.check(&stimulus)?;
    let mut device = UringDevice::new(&target, 0, depth, Bytes(block), 1)?;
    let (iops, batch) = rate(&mut device, &stimulus, seconds)?;
    println!("{path}: {iops:.0} IOPS, {batch:.2} completions per wait");
    let (iops, _) = rate(&mut NullDevice::new(), &stimulus, 1)?;
    println!("null device: {iops:.0} IOPS");
    Ok(())
}
