//! Issues the I/O, gaplessly, and records every completion.

mod device;
mod null;
mod uring;

pub use device::{Completion, Device};
