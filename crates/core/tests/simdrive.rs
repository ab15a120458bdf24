//! probe
mod support;
use crate::support::host::*;
use crate::support::*;
use flashgauge_core::simdrive::*;

#[test]
fn probe() {
    for over in [r#"{"capacity_bytes": 1000000000}"#, r#"{"capacity_bytes": 1000000000, "channel_mb_per_s": 3330.0}"#, r#"{"capacity_bytes": 1000000000, "channel_mb_per_s": 3330.0, "program_us": 600.0}"#] {
        let p = drive(over);
        let mut h = Host::new(p.clone(), 32);
        let n = 900;
        let done = h.run(32, (0..n).map(|i| write(i * 256, 256)));
        let t0 = done[300].completed; let t1 = done[n as usize - 1].completed;
        println!("{over} rate {} MB/s law {}", (n - 301) as f64 * 1048.576e6 / (t1 - t0) as f64 , 32.0*16384.0/p.program_us);
    }
    for (op, dies, ar) in [(0.28, 8, 1.0), (0.07, 8, 1.0), (0.5, 8, 1.0), (0.28, 8, 0.75), (0.07, 8, 0.75)] {
        let p = drive(&format!(r#"{{"capacity_bytes": 1000000000, "over_provisioning": {op}, "dies": {dies}, "write_commands_per_map_page": 0}}"#));
        let g = p.geometry();
        let t = std::time::Instant::now();
        let mut h = Host::new(p, 32);
        let u = (g.units as f64 * ar) as u64;
        h.fill(u);
        h.run(32, random_units(1, u).take(8 * u as usize).map(|x| write(x, 1)));
        let (a, c) = h.moved(|h| { h.run(32, random_units(2, u).take(3 * u as usize).map(|x| write(x, 1))); });
        let wa = (a + c) as f64 / a as f64;
        let mut out = format!("{op} {dies} {ar} {g:?} WA {wa:.4} in {:?}", t.elapsed());
        for k in [g.superblocks as f64 - 5.0, g.superblocks as f64 - 4.0, g.superblocks as f64 - 6.0] {
            let alpha = k * g.units_per_superblock as f64 / u as f64;
            let x = -alpha * (-alpha as f64).exp();
            let mut w = 0.0f64;
            for _ in 0..100 { w -= (w * w.exp() - x) / (w.exp() * (w + 1.0)); }
            out += &format!(" {:.4}", alpha / (alpha + w));
        }
        println!("{out}");
    }
}
