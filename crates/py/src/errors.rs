//! The one map from core errors to Python exceptions.

use flashgauge_core::error::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(flashgauge._core, TargetError, PyValueError);
pyo3::create_exception!(flashgauge._core, DeviceError, PyOSError);

pub fn to_python(error: Error) -> PyErr {
    match error {
        Error::Stimulus(error) => PyValueError::new_err(error.to_string()),
        Error::Target(error) => TargetError::new_err(error.to_string()),
        Error::Device(error) => DeviceError::new_err((error.errno, error.to_string())),
        Error::Busy | Error::Closed | Error::WorkerLost => PyRuntimeError::new_err(error.to_string()),
    }
}
