//! Issues, records and simulates I/O. Per-I/O work is here; per-step work is in Python.

pub mod engine;
pub mod error;
pub mod preset;
pub mod recorder;
pub mod simdisk;
pub mod simdrive;
pub mod simulated;
pub mod units;
pub mod workload;
