//! Issues the I/O, gaplessly, and records every completion.

mod clock;
mod datacost;
mod device;
pub mod faulty;
pub mod iolog;
mod null;
mod progress;
mod protocol;
mod result;
mod session;
pub mod stamp;
mod uring;
pub mod verify;
mod worker;

pub use clock::monotonic;
pub use device::{Completion, Conditions, Control, Device};
pub use null::NullDevice;
pub use protocol::StopReason;
pub use result::StepResult;
pub use session::{Limits, Session};
pub use uring::{NopDevice, Target, UringDevice};
