//! Issues the I/O, gaplessly, and records every completion.

mod clock;
mod datacost;
mod device;
pub mod faulty;
pub mod iolog;
mod null;
mod progress;
mod protocol;
mod session;
pub mod stamp;
mod uring;
pub mod verify;
mod worker;

pub use clock::monotonic;
pub use device::{Completion, Conditions, Control, Device};
pub use null::NullDevice;
pub use protocol::StopReason;
pub use session::{Limits, Session, StepResult};
pub use uring::{Target, UringDevice};
