//! The simulated disk: seeks, rotation, a queue that is reordered, and a write cache, in virtual time.
//!
//! The nearest thing to the rows of a comparison that are not flash, and a device whose steady state is its first.

mod disk;
mod mechanics;
mod params;
mod queue;

pub use disk::SimDisk;
pub use mechanics::{Access, Geometry, Mechanics, Place};
pub use params::{DiskParameters, QueuePolicy, preset_names, preset_text};
