//! Reading back and verifying what was written.

use std::path::Path;

use flashgauge_core::engine::verify::{self, Findings};
use flashgauge_core::units::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::to_python;

#[pyclass(module = "flashgauge._core", frozen)]
pub struct Verifier {
    pub inner: verify::Verifier,
}

#[pymethods]
impl Verifier {
    #[new]
    fn new(path: &str, range_bytes: u64, seed: u64) -> PyResult<Self> {
        let opened = verify::Verifier::open(Path::new(path), Bytes(range_bytes), seed);
        Ok(Self { inner: opened.map_err(|error| to_python(error.into()))? })
    }

    #[getter]
    fn range_bytes(&self) -> u64 {
        self.inner.range().0
    }

    /// Judge what lies there; at most so much in one call that Ctrl-C is not kept waiting.
    fn verify<'py>(&self, py: Python<'py>, start_bytes: u64, length_bytes: u64) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.inner.verify(Bytes(start_bytes), Bytes(length_bytes)));
        findings(py, found.map_err(|error| to_python(error.into()))?)
    }
}

/// Fields of `flashgauge.verification.Findings`.
fn findings(py: Python<'_>, found: Findings) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sectors", found.sectors)?;
    dict.set_item("intact", found.intact)?;
    dict.set_item("unwritten", found.unwritten)?;
    dict.set_item("corrupt", found.corrupt)?;
    dict.set_item("misdirected", found.misdirected)?;
    dict.set_item("lost", found.lost)?;
    dict.set_item("foreign", found.foreign)?;
    dict.set_item("known", found.known)?;
    dict.set_item("first_bad_lba", found.first_bad)?;
    Ok(dict)
}
