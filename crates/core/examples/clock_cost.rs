//! What one look at the engine's clock costs, in ns: `cargo run --release --example clock_cost`.

use flashgauge_core::engine::monotonic;

fn main() {
    const LOOKS: u64 = 10_000_000;
    let mut each: Vec<f64> = (0..5)
        .map(|_| {
            let begin = monotonic();
            let last = (0..LOOKS).fold(begin, |last, _| monotonic().max(last));
            last.since(begin) as f64 / LOOKS as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    println!("least {:.1} ns, median {:.1} ns, most {:.1} ns", each[0], each[2], each[4]);
}
