//! Issues the I/O, gaplessly, and records every completion.

mod clock;
mod device;
mod null;
mod progress;
mod protocol;
mod session;
mod uring;
mod worker;

pub use clock::monotonic;
pub use device::{Completion, Conditions, Control, Device};
pub use null::NullDevice;
pub use protocol::StopReason;
pub use session::{Limits, Session, StepResult};
pub use uring::{NopDevice, Target, UringDevice};
