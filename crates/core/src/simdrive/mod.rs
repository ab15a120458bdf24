//! The simulated SSD: mapping and garbage collection, dies and channels, host link, write buffer; virtual time.
//!
//! Everything a test sees (fresh out of the box, transition, steady state, tail latency) follows from these
//! mechanisms; nothing is scripted.

mod buffer;
mod collect;
mod command;
mod divisor;
mod drive;
mod events;
mod flash;
mod frontier;
mod ftl;
mod idle;
mod memory;
mod params;
#[cfg(test)]
mod plain;
mod prefetch;
mod stream;
#[cfg(test)]
mod tests;
mod victims;

pub use drive::{DriveCounters, SimDrive};
pub use ftl::{Counters, FlashWork, Ftl};
pub use params::{DriveParameters, Geometry, UNIT, preset_names, preset_text};
pub use victims::{Collection, GcPacing, GcPolicy};
