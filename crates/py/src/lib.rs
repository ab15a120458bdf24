//! The binding only: sessions and histograms for Python. No logic.

mod errors;
mod histogram;
mod iolog;
mod session;
mod verify;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::errors::{DeviceError, TargetError};
    #[pymodule_export]
    use crate::histogram::{Histogram, write_histogram_log};
    #[pymodule_export]
    use crate::iolog::IoLogReader;
    #[pymodule_export]
    use crate::session::{Session, clock_ns, preset_description, preset_names, preset_text};
    #[pymodule_export]
    use crate::verify::Verifier;
}
