//! The log of every I/O for Python, column by column.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flashgauge_core::engine::iolog::{LogReader, Row, Taken};
use flashgauge_core::workload::Operation;
use pyo3::exceptions::PyEOFError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

#[pyclass(module = "flashgauge._core", frozen)]
pub struct IoLogReader {
    inner: Mutex<LogReader>,
}

impl IoLogReader {
    pub fn new(reader: LogReader) -> Self {
        Self { inner: Mutex::new(reader) }
    }
}

#[pymethods]
impl IoLogReader {
    #[getter]
    fn dropped(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).dropped()
    }

    fn take<'py>(&self, py: Python<'py>, timeout_s: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let timeout = Duration::from_secs_f64(timeout_s.clamp(0.0, 3600.0));
        let taken = py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).take(timeout));
        match taken {
            Taken::Rows(rows) => columns(py, &rows).map(Some),
            Taken::NothingYet => Ok(None),
            Taken::End => Err(PyEOFError::new_err("the session is closed, and all rows are taken")),
        }
    }
}

/// Each column as little-endian numbers, one after the other.
fn columns<'py>(py: Python<'py>, rows: &[Row]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let set = |name: &str, bytes: Vec<u8>| dict.set_item(name, PyBytes::new(py, &bytes));
    set("step", column(rows, |row| (row.step as u32).to_le_bytes()))?;
    set("thread", column(rows, |row| (row.thread as u16).to_le_bytes()))?;
    set("write", column(rows, |row| [u8::from(row.operation == Operation::Write)]))?;
    set("lba", column(rows, |row| row.lba.to_le_bytes()))?;
    set("bytes", column(rows, |row| (row.bytes.0 as u32).to_le_bytes()))?;
    set("intended_ns", column(rows, |row| row.intended.0.to_le_bytes()))?;
    set("submitted_ns", column(rows, |row| row.submitted.0.to_le_bytes()))?;
    set("completed_ns", column(rows, |row| row.completed.0.to_le_bytes()))?;
    set("errno", column(rows, |row| (row.errno as u16).to_le_bytes()))?;
    dict.set_item("rows", rows.len())?;
    Ok(dict)
}

fn column<const N: usize>(rows: &[Row], value: impl Fn(&Row) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * N);
    rows.iter().for_each(|row| bytes.extend_from_slice(&value(row)));
    bytes
}
