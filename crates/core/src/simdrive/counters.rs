//! What a drive has done since it was fresh out of the box.

use serde::Serialize;

use super::drive::SimDrive;

/// Counters since purge, for tests and for the curious.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DriveCounters {
    pub host_units: u64,
    pub collected_units: u64,
    /// From the SLC cache to the main area.
    pub folded_units: u64,
    pub padded_units: u64,
    pub superblock_erases: u64,
}

impl DriveCounters {
    /// Units programmed for each unit the host wrote.
    pub fn write_amplification(&self) -> f64 {
        (self.host_units + self.folded_units + self.collected_units) as f64 / self.host_units as f64
    }
}

impl SimDrive {
    pub fn counters(&self) -> DriveCounters {
        let c = self.ftl.counters();
        DriveCounters {
            host_units: c.host_units,
            collected_units: c.collected_units,
            folded_units: c.folded_units,
            padded_units: c.padded_units,
            superblock_erases: c.erases,
        }
    }
}
