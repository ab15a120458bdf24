//! HDR histograms for Python, and the HdrHistogram V2 interval log.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashgauge_core::recorder::latency_histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

type Counts = hdrhistogram::Histogram<u64>;

#[pyclass(module = "flashgauge._core")]
pub struct Histogram {
    pub inner: Counts,
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("histogram: {error}"))
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self { inner: latency_histogram() }
    }

    #[pyo3(signature = (latency_ns, count=1))]
    fn record(&mut self, latency_ns: u64, count: u64) -> PyResult<()> {
        self.inner.record_n(latency_ns, count).map_err(value_error)
    }

    fn add(&mut self, other: &Bound<'_, Histogram>) -> PyResult<()> {
        // Adding a histogram to itself would borrow it twice.
        let counts = other.try_borrow().map_err(|_| PyValueError::new_err("a histogram cannot be added to itself"))?;
        self.inner.add(&counts.inner).map_err(value_error)
    }

    fn copy(&self) -> Self {
        Self { inner: self.inner.clone() }
    }

    #[getter]
    fn count(&self) -> u64 {
        self.inner.len()
    }

    #[getter]
    fn mean_ns(&self) -> f64 {
        self.inner.mean()
    }

    fn quantile_ns(&self, quantile: f64) -> PyResult<u64> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(PyValueError::new_err(format!("a quantile is 0 to 1, not {quantile}")));
        }
        Ok(self.inner.value_at_quantile(quantile))
    }

    fn buckets(&self) -> Vec<(u64, u64)> {
        let recorded = self.inner.iter_recorded();
        recorded.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
    }

    fn encode(&self) -> PyResult<String> {
        let mut bytes = vec![];
        V2DeflateSerializer::new().serialize(&self.inner, &mut bytes).map_err(value_error)?;
        Ok(STANDARD.encode(bytes))
    }

    #[staticmethod]
    fn decode(text: &str) -> PyResult<Self> {
        let bytes = STANDARD.decode(text).map_err(value_error)?;
        let mut inner: Counts = Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(value_error)?;
        inner.auto(true);
        Ok(Self { inner })
    }
}

/// Write an interval log: (tag, start seconds, duration seconds, histogram) for each entry.
#[pyfunction]
pub fn write_histogram_log(path: &str, entries: Vec<(String, f64, f64, PyRef<'_, Histogram>)>) -> PyResult<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("latencies in ns, tagged by step and direction; Interval_Max in ms")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut file, &mut serializer)?;
    for (tag, start_s, duration_s, histogram) in &entries {
        let tag = Tag::new(tag).ok_or_else(|| PyValueError::new_err(format!("not a log tag: {tag:?}")))?;
        let (start, duration) = (Duration::try_from_secs_f64(*start_s), Duration::try_from_secs_f64(*duration_s));
        let (start, duration) = (start.map_err(value_error)?, duration.map_err(value_error)?);
        log.write_histogram(&histogram.inner, start, duration, Some(tag))
            .map_err(|error| PyOSError::new_err(format!("{path}: {error}")))?;
    }
    Ok(file.flush()?)
}
