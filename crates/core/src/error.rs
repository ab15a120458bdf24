//! Errors by area. Each message names the cure; the binding maps them to Python in one place.

use thiserror::Error;

/// A stimulus or stop rule that cannot be issued.
#[derive(Debug, Error, PartialEq)]
pub enum StimulusError {
    #[error("{0} must be 0 to 100 percent")]
    Percent(&'static str),
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    #[error("{0} bytes: a positive multiple of the logical block (512 bytes or more) is needed")]
    BlockSize(u64),
    #[error("alignment {0} bytes: a positive multiple of 512 is needed")]
    Alignment(u64),
    #[error("the range of {range} bytes (per thread or group) is smaller than one block of {block} bytes")]
    RangeTooSmall { range: u64, block: u64 },
    #[error("the LBA groups' probabilities add up to {0} percent, not 100")]
    GroupProbability(f64),
    #[error("a rate of {0} I/Os per second: more than 0 and at most a thousand million are possible")]
    Rate(f64),
    #[error("{what} {asked} is over the {limit} this session was opened for")]
    OverLimit { what: &'static str, asked: u64, limit: u64 },
    #[error("not a stimulus: {0}")]
    Format(String),
}

/// A target that cannot be used as asked, found before any I/O.
#[derive(Debug, Error)]
pub enum TargetError {
    #[error("no preset {name:?}; there are: {known}")]
    UnknownPreset { name: String, known: String },
    #[error("drive parameter {name}: {problem}")]
    DriveParameter { name: String, problem: String },
    #[error("{path}: {problem}; {cure}")]
    Unusable { path: String, problem: String, cure: String },
    #[error("{0}")]
    NotSupported(String),
}

/// A failure of the device or of the kernel's interface to it, while in use.
#[derive(Debug, Error, Clone)]
#[error("{context}: {problem}")]
pub struct DeviceError {
    pub errno: i32,
    pub context: String,
    pub problem: String,
}

impl DeviceError {
    pub fn from_io(context: impl Into<String>, error: &std::io::Error) -> Self {
        Self { errno: error.raw_os_error().unwrap_or(0), context: context.into(), problem: error.to_string() }
    }
}

#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Stimulus(#[from] StimulusError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("a step is under way; wait for it before the next")]
    Busy,
    #[error("the session is closed")]
    Closed,
    #[error("an engine thread ended unexpectedly; this is a bug")]
    WorkerLost,
}
