//! Every parameter of the simulated devices at its extremes, alone and together with others' extremes: either an error
//! in one line that names a parameter, or a device that serves what it is asked. Never a panic: arithmetic is checked.

mod support;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flashgauge_core::engine::{Control, Device};
use flashgauge_core::simdisk::SimDisk;
use flashgauge_core::simdrive::SimDrive;
use flashgauge_core::simulated::{Parameters, preset_text};
use flashgauge_core::units::{Bytes, Lba, Nanos, SECTOR};
use flashgauge_core::workload::{Operation, Request};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::*;

const DEPTH: u32 = 8;
/// Tables of more units than this take too long to check.
const MOST_UNITS: u64 = 1 << 20;
/// A drive that reckons its temperature every 10 ms is watched for so long; others until all is done, for months maybe.
const PATIENCE_NS: u64 = 50 * SECOND;

/// A hundredth of what a u64 counts.
const CLOCK_NS: u64 = u64::MAX / 100;

type Changes = Map<String, Value>;

/// Small devices: one as it comes, one with everything on that is off by default, one with an SLC cache, a disk.
fn bases() -> Vec<(&'static str, Changes)> {
    let of = |value: Value| value.as_object().unwrap().clone();
    let everything = json!({
        "capacity_bytes": 64_000_000, "hot_percent": 20.0, "suspend": true, "write_commands_per_map_page": 7,
        "idle_collect_after_ms": 1.0, "controller_mb_per_s": 500.0, "controller_read_overhead_us": 1.0,
        "controller_write_overhead_us": 1.0, "track_data": true, "fault_read_error_rate": 1e-4,
        "fault_program_error_rate": 1e-4, "fault_spike_rate": 0.01, "idle_w": 1.0, "program_uj": 100.0,
        "thermal_resistance_c_per_w": 10.0, "throttle_full_c": 80.0,
    });
    let cached = json!({ "capacity_bytes": 600_000_000, "slc_static_mib": 8, "slc_when_full": "fold", "slc_fold_after_ms": 1.0 });
    vec![
        ("sata-enterprise", of(json!({ "capacity_bytes": 64_000_000 }))),
        ("sata-enterprise", of(everything)),
        ("nvme-client-slc", of(cached)),
        ("sas-hdd", of(json!({ "capacity_bytes": 64_000_000 }))),
    ]
}

/// The parameters with these changes; an error is one line that names one of those changed.
fn device_of(preset: &str, changes: &Changes) -> Option<Parameters> {
    match Parameters::preset(preset, &Value::Object(changes.clone()).to_string()) {
        Ok(parameters) => Some(parameters),
        Err(error) => {
            let text = error.to_string();
            let known: toml::Table = preset_text(preset).unwrap().parse().unwrap();
            assert!(
                !text.contains('\n') && known.keys().any(|name| text.contains(name.as_str())),
                "{changes:?}: {text}"
            );
            None
        }
    }
}

fn accepts(preset: &str, base: &Changes, name: &str, value: &Value) -> bool {
    let mut changes = base.clone();
    changes.insert(name.into(), value.clone());
    device_of(preset, &changes).is_some()
}

/// From a good value towards one that is beyond all bounds: the last good one, by bisection.
fn last_good(good: Value, bad: f64, whole: bool, accepts: impl Fn(&Value) -> bool) -> Value {
    let value_of = |x: f64| if whole { json!(x as i64) } else { json!(x) };
    if accepts(&value_of(bad)) {
        return value_of(bad);
    }
    let (mut good, mut bad) = (good.as_f64().unwrap(), bad);
    for _ in 0..80 {
        // In even steps of the exponent where there is far to go.
        let far = good > 0.0 && bad > 0.0 && (bad / good > 4.0 || good / bad > 4.0);
        let middle = if far { (good * bad).sqrt() } else { (good + bad) / 2.0 };
        let middle = if whole { middle.round() } else { middle };
        // Counts to the last one, numbers nearly.
        if middle == good || middle == bad || (!whole && (good - bad).abs() <= 1e-6 * good.abs()) {
            break;
        }
        if accepts(&value_of(middle)) { good = middle } else { bad = middle }
    }
    value_of(good)
}

/// Parameter -> the extremes that a base accepts, other things being equal.
fn extremes(preset: &str, base: &Changes) -> BTreeMap<String, Vec<Value>> {
    let table: toml::Table = preset_text(preset).unwrap().parse().unwrap();
    let now = serde_json::to_value(device_of(preset, base).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for (name, value) in &table {
        let accepts = |value: &Value| accepts(preset, base, name, value);
        let good = now[name].clone();
        let values = match value {
            toml::Value::Boolean(_) => vec![json!(true), json!(false)],
            toml::Value::Integer(_) | toml::Value::Float(_) => {
                let whole = value.is_integer();
                let top = if whole { 9.2e18 } else { 1e300 };
                let mut values = vec![last_good(good.clone(), 0.0, whole, accepts)];
                // Most that may be 0 may not be less.
                if accepts(&if whole { json!(-1) } else { json!(-1e-9) }) {
                    values.push(last_good(good.clone(), -1e6, whole, accepts));
                }
                values.push(last_good(good, top, whole, accepts));
                values
            }
            toml::Value::String(_) => {
                let words =
                    ["greedy", "fifo", "random", "d-choices", "cost-benefit", "line", "paced", "fold", "direct"];
                words.into_iter().chain(["elevator", "sptf"]).map(Value::from).filter(|word| accepts(word)).collect()
            }
            _ => panic!("{name} has no type that a parameter has"),
        };
        for wrong in [json!(null), json!([1]), json!({"a": 1}), json!(-9.2e18), json!(u64::MAX), json!(1e308)] {
            accepts(&wrong); // An error, or not: no panic.
        }
        found.insert(name.clone(), values);
    }
    found
}

/// What a test does with a device, in little: writes, reads, idling and changes of state.
struct User {
    device: Box<dyn Device>,
    sectors: u64,
    warm: bool,
    end: u64,
}

impl User {
    /// `None`: it is too large to be tried here.
    fn of(parameters: Parameters) -> Option<Self> {
        let sectors = parameters.capacity().0 / SECTOR;
        let warm = matches!(&parameters, Parameters::Ssd(p) if p.thermal_resistance_c_per_w > 0.0);
        let device: Box<dyn Device> = match parameters {
            Parameters::Ssd(p) => {
                let g = p.geometry();
                let units = g.units_per_superblock * (g.superblocks + g.slc_superblocks);
                if units > MOST_UNITS || p.write_buffer_kib > 1 << 22 {
                    return None;
                }
                Box::new(SimDrive::new(*p, DEPTH).unwrap())
            }
            Parameters::Disk(p) => Box::new(SimDisk::new(p, DEPTH)),
        };
        Some(Self { device, sectors, warm, end: if warm { PATIENCE_NS } else { u64::MAX } })
    }

    /// Each request completes, once, unless the device takes longer than anybody would wait: false then.
    fn run(&mut self, requests: impl Iterator<Item = Request>) -> bool {
        let (mut free, mut done): (Vec<u32>, _) = ((0..DEPTH).collect(), vec![]);
        let mut requests = requests.fuse();
        loop {
            while let Some(slot) = free.pop() {
                let Some(request) = requests.next() else {
                    free.push(slot);
                    break;
                };
                self.device.submit(slot, &request).unwrap();
            }
            if free.len() == DEPTH as usize {
                return true;
            }
            self.device.wait(Nanos(self.end), &mut done).unwrap();
            assert!(self.device.now().0 < CLOCK_NS, "sums of times stay far below what the clock counts");
            for completion in done.drain(..) {
                assert!(!free.contains(&completion.slot), "an I/O completes once");
                free.push(completion.slot);
            }
            if self.device.now().0 >= self.end {
                return false;
            }
        }
    }

    fn rest(&mut self, ns: u64) {
        let until = Nanos(self.device.now().0 + ns);
        let mut done = vec![];
        while self.device.now() < until {
            self.device.wait(until, &mut done).unwrap();
        }
        assert!(done.is_empty(), "an idle device completes nothing");
    }

    fn requests(
        &self,
        seed: u64,
        count: u64,
        operation: Operation,
        sectors: u64,
    ) -> impl Iterator<Item = Request> + use<> {
        let places = self.sectors - sectors.min(self.sectors - 1);
        let places = support::host::random_units(seed, places).take(count as usize);
        let bytes = Bytes(sectors.min(self.sectors - 1) * SECTOR);
        places.map(move |at| Request { operation, lba: Lba(at), bytes })
    }

    fn try_all(mut self) {
        use Operation::{Read, Write};
        for (count, operation, sectors) in
            [(300, Write, 256), (1500, Write, 8), (100, Read, 8), (30, Write, 1), (20, Read, 2048), (3, Write, 2048)]
        {
            if !self.run(self.requests(count, count, operation, sectors)) {
                return;
            }
        }
        self.device.conditions();
        self.rest(SECOND);
        // A drive that has dropped out takes none of these, and a disk not all.
        for control in [
            Control::Trim { lba: Lba(0), bytes: Bytes(self.sectors / 2 * SECTOR) },
            Control::WriteCache(false),
            Control::PowerLoss,
        ] {
            let _ = self.device.control(control);
            self.end = self.end.max(self.device.now().0.saturating_add(PATIENCE_NS));
            if !self.run(self.requests(7, 100, Write, 8)) {
                return;
            }
        }
        let _ = self.device.control(Control::Purge);
        self.run(self.requests(8, 20, Read, 8));
        // Whatever begins when it has been idle for long begins.
        self.rest(if self.warm { SECOND } else { 3601 * SECOND });
        self.device.conditions();
    }
}

#[test]
fn every_parameter_works_at_its_extremes() {
    let mut tried = 0;
    for ((preset, base), known) in bases().into_iter().zip(EXTREMES.iter()) {
        for (name, values) in known {
            for value in values {
                let mut changes = base.clone();
                changes.insert(name.clone(), value.clone());
                println!("{preset} {name} = {value}");
                if let Some(user) = device_of(preset, &changes).and_then(User::of) {
                    user.try_all();
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "{tried} devices were tried");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, max_shrink_iters: 100, ..Default::default() })]

    #[test]
    fn extremes_go_together_or_are_refused(
        which in 0usize..4, picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 2..8)
    ) {
        let (preset, base) = &bases()[which];
        let all: Vec<_> = EXTREMES[which].iter().collect();
        let mut changes = base.clone();
        for (name, value) in picks {
            let (name, values) = all[name.index(all.len())];
            if !values.is_empty() {
                changes.insert(name.clone(), values[value.index(values.len())].clone());
            }
        }
        if let Some(user) = device_of(preset, &changes).and_then(User::of) {
            user.try_all();
        }
    }
}

/// Of each base.
static EXTREMES: LazyLock<Vec<BTreeMap<String, Vec<Value>>>> =
    LazyLock::new(|| bases().iter().map(|(preset, base)| extremes(preset, base)).collect());
