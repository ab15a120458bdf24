//! Sessions for Python: long waits without the GIL, 100 ms at most between looks at Ctrl-C.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashgauge_core::engine::{self, Conditions, Control, Limits, StepResult, StopReason, Target};
use flashgauge_core::error::{Error, StimulusError};
use flashgauge_core::recorder::{Recorder, Tally};
use flashgauge_core::simulated::{self, Parameters};
use flashgauge_core::units::{Bytes, Lba};
use flashgauge_core::workload::{Operation, Stimulus, Stop};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::to_python;
use crate::histogram::Histogram;
use crate::iolog::IoLogReader;
use crate::verify::Verifier;

/// Longest wait between two looks at pending signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

#[pyclass(module = "flashgauge._core", frozen)]
pub struct Session {
    inner: Mutex<engine::Session>,
    description: String,
}

impl Session {
    fn new(inner: Result<engine::Session, Error>, description: String) -> PyResult<Self> {
        Ok(Self { inner: Mutex::new(inner.map_err(to_python)?), description })
    }

    fn lock(&self) -> MutexGuard<'_, engine::Session> {
        // The core's state is consistent between calls, also after a panic in one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn duration(seconds: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| PyValueError::new_err(format!("{what} {seconds}: not a time")))
}

#[pymethods]
impl Session {
    #[staticmethod]
    fn simulated(
        py: Python<'_>,
        preset: &str,
        overrides_json: &str,
        seed: u64,
        max_threads: u32,
        max_queue_depth: u32,
    ) -> PyResult<Self> {
        let parameters = Parameters::preset(preset, overrides_json).map_err(|error| to_python(error.into()))?;
        let description = serde_json::to_string(&parameters).expect("plain numbers and texts");
        let open = || engine::Session::simulated(parameters, seed, max_threads, max_queue_depth);
        Self::new(py.detach(open), description)
    }

    #[staticmethod]
    #[pyo3(signature = (path, range_bytes, seed, max_threads, max_queue_depth, max_block_bytes, exclusive, verifiable=false))]
    #[allow(clippy::too_many_arguments)] // The stub names them; they are keywords in Python.
    fn block(
        py: Python<'_>,
        path: &str,
        range_bytes: u64,
        seed: u64,
        max_threads: u32,
        max_queue_depth: u32,
        max_block_bytes: u64,
        exclusive: bool,
        verifiable: bool,
    ) -> PyResult<Self> {
        let limits = Limits { threads: max_threads, queue_depth: max_queue_depth, block: Bytes(max_block_bytes) };
        let open = || {
            let target = Target::open(Path::new(path), Bytes(range_bytes), exclusive)?;
            if verifiable {
                return engine::Session::verified(target, seed, limits);
            }
            engine::Session::uring(target, seed, limits)
        };
        Self::new(py.detach(open), "{}".into())
    }

    #[staticmethod]
    fn null(range_bytes: u64, seed: u64, max_threads: u32, max_queue_depth: u32) -> PyResult<Self> {
        Self::new(engine::Session::null(Bytes(range_bytes), seed, max_threads, max_queue_depth), "{}".into())
    }

    #[staticmethod]
    fn null_with_data(range_bytes: u64, seed: u64, limits: (u32, u32, u64), verifiable: bool) -> PyResult<Self> {
        let limits = Limits { threads: limits.0, queue_depth: limits.1, block: Bytes(limits.2) };
        Self::new(engine::Session::null_with_data(Bytes(range_bytes), seed, limits, verifiable), "{}".into())
    }

    #[staticmethod]
    fn nop(py: Python<'_>, range_bytes: u64, seed: u64, max_threads: u32, max_queue_depth: u32) -> PyResult<Self> {
        let open = || engine::Session::nop(Bytes(range_bytes), seed, max_threads, max_queue_depth);
        Self::new(py.detach(open), "{}".into())
    }

    #[getter]
    fn range_bytes(&self) -> u64 {
        self.lock().range().0
    }

    #[getter]
    fn virtual_time(&self) -> bool {
        self.lock().virtual_time()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.lock().seed()
    }

    fn describe(&self) -> &str {
        &self.description
    }

    fn check(&self, stimulus_json: &str, stop_json: &str) -> PyResult<()> {
        let (stimulus, stop) = step(stimulus_json, stop_json)?;
        self.lock().check(&stimulus, stop, 1).map_err(to_python)
    }

    fn start(&self, stimulus_json: &str, stop_json: &str, interval_ns: u64, stop_on_error: bool) -> PyResult<()> {
        let (stimulus, stop) = step(stimulus_json, stop_json)?;
        self.lock().start(stimulus, stop, interval_ns, stop_on_error).map_err(to_python)
    }

    fn progress(&self) -> (u64, u64) {
        self.lock().progress()
    }

    fn wait<'py>(&self, py: Python<'py>, timeout_s: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let deadline = Instant::now() + duration(timeout_s, "timeout")?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let result = py.detach(|| self.lock().wait(left.min(SIGNAL_CHECK))).map_err(to_python)?;
            py.check_signals()?;
            if let Some(result) = result {
                return measurement(py, result).map(Some);
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn idle(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let time = duration(seconds, "idle time")?;
        let idle = |time: Duration| py.detach(|| self.lock().idle(time.as_nanos() as u64)).map_err(to_python);
        if self.virtual_time() {
            idle(time)?;
            return py.check_signals();
        }
        idle(Duration::ZERO)?; // Drain: the time counts from when the device has nothing to do.
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            idle(left.min(SIGNAL_CHECK))?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn purge(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().control(Control::Purge)).map_err(to_python)
    }

    fn set_write_cache(&self, py: Python<'_>, enabled: bool) -> PyResult<()> {
        py.detach(|| self.lock().control(Control::WriteCache(enabled))).map_err(to_python)
    }

    fn trim(&self, py: Python<'_>, lba: u64, range_bytes: u64) -> PyResult<()> {
        let control = Control::Trim { lba: Lba(lba), bytes: Bytes(range_bytes) };
        py.detach(|| self.lock().control(control)).map_err(to_python)
    }

    fn power_loss(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().control(Control::PowerLoss)).map_err(to_python)
    }

    fn forget_written(&self) {
        self.lock().forget_written();
    }

    fn written_ranges(&self) -> Vec<(u64, u64)> {
        self.lock().written().ranges().iter().map(|range| (range.start, range.end)).collect()
    }

    fn verifier(&self, py: Python<'_>) -> PyResult<Verifier> {
        Ok(Verifier { inner: py.detach(|| self.lock().verifier()).map_err(to_python)? })
    }

    fn log_ios(&self, py: Python<'_>) -> PyResult<IoLogReader> {
        Ok(IoLogReader::new(py.detach(|| self.lock().log_ios()).map_err(to_python)?))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.lock().close());
    }
}

fn step(stimulus_json: &str, stop_json: &str) -> PyResult<(Stimulus, Stop)> {
    let stimulus = Stimulus::from_json(stimulus_json).map_err(|error| to_python(error.into()))?;
    let stop =
        serde_json::from_str(stop_json).map_err(|error| to_python(StimulusError::Format(error.to_string()).into()))?;
    Ok((stimulus, stop))
}

/// The fields of `flashgauge.measurement.Measurement`.
fn measurement(py: Python<'_>, result: StepResult) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let mut recorder = result.recorder;
    dict.set_item("start_ns", recorder.start().0)?;
    dict.set_item("window_ns", result.window_ns)?;
    dict.set_item("intervals", intervals(py, &recorder)?)?;
    dict.set_item("submitted_ios", result.submitted_ios)?;
    dict.set_item("intended_ios", result.intended_ios)?;
    let lateness = recorder.lateness.take().map(|inner| Histogram { inner }.into_pyobject(py)).transpose()?;
    dict.set_item("lateness", lateness)?;
    dict.set_item("handover_ios", recorder.handover_ios)?;
    dict.set_item("late_ios", recorder.late_ios)?;
    dict.set_item("handover_ns", result.handover_ns)?;
    dict.set_item("bridge_ios", result.bridge_ios)?;
    dict.set_item("written_bytes", result.written_bytes)?;
    dict.set_item("size_ios", &recorder.size_ios)?;
    dict.set_item("group_ios", &recorder.group_ios)?;
    dict.set_item("gap_ns", result.gap_ns)?;
    let reason = match result.reason {
        StopReason::Complete => "complete",
        StopReason::Interrupted => "interrupted",
        StopReason::IoError => "io_error",
    };
    dict.set_item("stop_reason", reason)?;
    dict.set_item("conditions", result.conditions.map(|found| conditions(py, found)).transpose()?)?;
    let mut errors = vec![];
    for error in &recorder.errors {
        let item = PyDict::new(py);
        item.set_item("operation", if error.operation == Operation::Read { "read" } else { "write" })?;
        item.set_item("errno", error.errno)?;
        item.set_item("ios", error.ios)?;
        item.set_item("first_lba", error.first_lba)?;
        errors.push(item);
    }
    dict.set_item("errors", errors)?;
    dict.set_item("read", direction(py, recorder.read)?)?;
    dict.set_item("write", direction(py, recorder.write)?)?;
    Ok(dict)
}

/// Fields of `flashgauge.measurement.HostUsage`.
fn conditions(py: Python<'_>, found: Conditions) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let seconds = found.span_ns as f64 / 1e9;
    dict.set_item("energy_j", found.energy_j)?;
    dict.set_item("power_w", (found.span_ns > 0).then(|| found.energy_j / seconds))?;
    dict.set_item("temperature_c", found.temperature_c)?;
    dict.set_item("temperature_max_c", found.temperature_max_c)?;
    dict.set_item("throttled_s", found.throttled_ns.map(|ns| ns as f64 / 1e9))?;
    Ok(dict)
}

fn direction(py: Python<'_>, tally: Tally) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("ios", tally.ios)?;
    dict.set_item("bytes", tally.bytes)?;
    dict.set_item("window_ios", tally.window_ios)?;
    dict.set_item("window_bytes", tally.window_bytes)?;
    dict.set_item("latency_sum_ns", tally.latency_sum_ns)?;
    dict.set_item("latency_max_ns", tally.latency_max_ns)?;
    dict.set_item("histogram", Histogram { inner: tally.histogram() }.into_pyobject(py)?)?;
    Ok(dict)
}

fn intervals<'py>(py: Python<'py>, recorder: &Recorder) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let list = |field: fn(&flashgauge_core::recorder::Interval) -> u64| -> Vec<u64> {
        recorder.intervals.iter().map(field).collect()
    };
    dict.set_item("interval_ns", recorder.interval_ns())?;
    dict.set_item("read_ios", list(|interval| interval.read_ios))?;
    dict.set_item("write_ios", list(|interval| interval.write_ios))?;
    dict.set_item("read_bytes", list(|interval| interval.read_bytes))?;
    dict.set_item("write_bytes", list(|interval| interval.write_bytes))?;
    dict.set_item("latency_ios", list(|interval| interval.latency_ios))?;
    dict.set_item("latency_sum_ns", list(|interval| interval.latency_sum_ns))?;
    dict.set_item("latency_max_ns", list(|interval| interval.latency_max_ns))?;
    Ok(dict)
}

/// Now, on the clock that the measurements of real devices have.
#[pyfunction]
pub fn clock_ns() -> u64 {
    engine::monotonic().0
}

#[pyfunction]
pub fn preset_names() -> Vec<&'static str> {
    simulated::preset_names()
}

#[pyfunction]
pub fn preset_text(name: &str) -> PyResult<String> {
    simulated::preset_text(name).map_err(|error| to_python(error.into()))
}

/// What a preset, with changes, is: its kind, its parameters and the geometry they make. Nothing is simulated.
#[pyfunction]
pub fn preset_description(name: &str, overrides_json: &str) -> PyResult<String> {
    let parameters = Parameters::preset(name, overrides_json).map_err(|error| to_python(error.into()))?;
    Ok(parameters.description().to_string())
}
