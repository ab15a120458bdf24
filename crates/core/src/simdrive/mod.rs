//! The simulated SSD: mapping and garbage collection, dies and channels, host link, write buffer; virtual time.
//!
//! Everything a test sees (fresh out of the box, transition, steady state, tail latency) follows from these
//! mechanisms; nothing is scripted.

mod bounds;
mod buffer;
mod check;
mod collect;
mod command;
mod counters;
mod divisor;
mod drive;
mod energy;
mod events;
mod extras;
mod faults;
mod flash;
mod frontier;
mod ftl;
mod idle;
mod memory;
mod moves;
mod params;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod plain_slc;
#[cfg(test)]
mod plain_steps;
mod pools;
mod prefetch;
mod ranges;
mod reads;
mod slc;
mod stamps;
mod stream;
mod suspend;
#[cfg(test)]
mod tests;
mod track;
mod victims;

pub use counters::DriveCounters;
pub use drive::SimDrive;
pub use extras::FaultCounters;
pub use ftl::{Counters, FlashWork, Ftl};
pub use params::{DriveParameters, Geometry, UNIT, preset_names, preset_text};
pub use slc::{CellMode, SlcRules, SlcWhenFull};
pub use victims::{Collection, GcPacing, GcPolicy};
