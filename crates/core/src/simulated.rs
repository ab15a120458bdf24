//! The simulated devices there are, and their presets: solid-state drives and disks.

use serde::Serialize;

use crate::error::TargetError;
use crate::simdisk::{self, DiskParameters};
use crate::simdrive::{self, DriveParameters};
use crate::units::Bytes;

/// What a simulated device is made of.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameters {
    Ssd(Box<DriveParameters>),
    Disk(DiskParameters),
}

impl Parameters {
    /// The preset with `overrides` (a JSON object) applied.
    pub fn preset(name: &str, overrides: &str) -> Result<Self, TargetError> {
        if simdisk::preset_names().contains(&name) {
            return DiskParameters::preset(name, overrides).map(Self::Disk);
        }
        known(name)?;
        Ok(DriveParameters::preset(name, overrides)?.into())
    }

    pub fn capacity(&self) -> Bytes {
        match self {
            Self::Ssd(parameters) => parameters.capacity(),
            Self::Disk(parameters) => Bytes(parameters.capacity_bytes),
        }
    }

    /// `kind`, `parameters`, and the `geometry` that follows from them.
    pub fn description(&self) -> serde_json::Value {
        match self {
            Self::Ssd(p) => serde_json::json!({ "kind": "ssd", "parameters": p, "geometry": p.geometry() }),
            Self::Disk(p) => serde_json::json!({ "kind": "disk", "parameters": p, "geometry": p.geometry() }),
        }
    }
}

impl From<DriveParameters> for Parameters {
    fn from(parameters: DriveParameters) -> Self {
        Self::Ssd(Box::new(parameters))
    }
}

impl From<DiskParameters> for Parameters {
    fn from(parameters: DiskParameters) -> Self {
        Self::Disk(parameters)
    }
}

pub fn preset_names() -> Vec<&'static str> {
    [simdrive::preset_names(), simdisk::preset_names()].concat()
}

fn known(name: &str) -> Result<(), TargetError> {
    let names = preset_names();
    if names.contains(&name) {
        return Ok(());
    }
    Err(TargetError::UnknownPreset { name: name.into(), known: names.join(", ") })
}

/// The preset's TOML, and what it leaves to the defaults: each parameter once, with its source as a comment.
pub fn preset_text(name: &str) -> Result<String, TargetError> {
    if simdisk::preset_names().contains(&name) {
        return simdisk::preset_text(name);
    }
    known(name)?;
    simdrive::preset_text(name)
}
