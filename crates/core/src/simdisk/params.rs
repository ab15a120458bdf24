//! Every parameter of the simulated disk, in one structure; a preset is a TOML file with the source of each.

use serde::{Deserialize, Serialize};

use super::mechanics::{Geometry, Mechanics};
use crate::error::TargetError;
use crate::preset;

const PRESETS: &[(&str, &str)] = &[("sas-hdd", include_str!("../../presets/sas-hdd.toml"))];

/// Which of the commands that wait goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueuePolicy {
    /// The one that came first.
    Fifo,
    /// The next one inwards; after the innermost, the outermost (C-LOOK).
    Elevator,
    /// Shortest positioning time first: seek and rotation together [Seltzer, Chen and Ousterhout 1990; Jacobson
    /// and Wilkes 1991]; but what goes on where the last one ended goes on.
    Sptf,
}

/// A disk: identity, geometry, mechanics, queue, write cache, interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    pub interface: String,
    pub form_factor: String,
    pub media: String,
    /// User capacity.
    pub capacity_bytes: u64,
    pub rpm: f64,
    /// Surfaces; a cylinder is one track of each.
    pub heads: u32,
    /// Parts of as many cylinders each, with as many sectors on each track.
    pub zones: u32,
    /// Sectors of 512 bytes; the zones between the outermost and the innermost are interpolated.
    pub outer_sectors_per_track: u32,
    pub inner_sectors_per_track: u32,
    /// Seek of a read to the next cylinder, of the mean of all possible seeks, and across all cylinders.
    pub seek_track_ms: f64,
    pub seek_average_ms: f64,
    pub seek_full_ms: f64,
    /// From one surface of a cylinder to another.
    pub head_switch_ms: f64,
    /// How much longer a write settles than a read, after a seek or a switch of heads.
    pub write_settle_ms: f64,
    /// The controller's time for a command, before the heads move.
    pub controller_us: f64,
    /// Commands the disk holds at a time; more wait in the host.
    pub queue_slots: u32,
    pub queue_policy: QueuePolicy,
    /// A command that has waited for so long goes first; 0: never.
    pub queue_age_limit_ms: f64,
    /// With the cache enabled a write is done when it is in the cache, while there is room.
    pub write_cache_kib: u64,
    /// Writes the cache holds at most.
    pub write_cache_segments: u32,
    /// Of the interface, for each direction.
    pub link_mb_per_s: f64,
}

impl DiskParameters {
    /// The preset with `overrides` (a JSON object) applied.
    pub fn preset(name: &str, overrides: &str) -> Result<Self, TargetError> {
        let parameters: Self = preset::parameters(name, &preset_text(name)?, overrides)?;
        parameters.validate()?;
        Ok(parameters)
    }

    fn validate(&self) -> Result<(), TargetError> {
        let check = |good: bool, name: &str, problem: &str| {
            if good { Ok(()) } else { Err(TargetError::DriveParameter { name: name.into(), problem: problem.into() }) }
        };
        check(self.capacity_bytes.is_multiple_of(512), "capacity_bytes", "a multiple of 512 is needed")?;
        check(self.capacity_bytes <= 64 << 40, "capacity_bytes", "at most 64 TiB can be simulated")?;
        check((100.0..=100_000.0).contains(&self.rpm), "rpm", "100 to 100000 is possible")?;
        for (name, count, most) in [
            ("heads", self.heads, 64),
            ("zones", self.zones, 256),
            ("outer_sectors_per_track", self.outer_sectors_per_track, 100_000),
            ("inner_sectors_per_track", self.inner_sectors_per_track, 100_000),
            ("queue_slots", self.queue_slots, 65_536),
            ("write_cache_segments", self.write_cache_segments, 65_536),
        ] {
            check((1..=most).contains(&count), name, &format!("1 to {most} is possible"))?;
        }
        let same = self.zones > 1 || self.outer_sectors_per_track == self.inner_sectors_per_track;
        check(same, "zones", "one zone has one number of sectors per track; more zones are needed")?;
        check(self.write_cache_kib <= 64 << 20, "write_cache_kib", "at most 64 GiB are possible")?;
        for (name, value) in [
            ("seek_track_ms", self.seek_track_ms),
            ("seek_average_ms", self.seek_average_ms),
            ("seek_full_ms", self.seek_full_ms),
            ("head_switch_ms", self.head_switch_ms),
            ("write_settle_ms", self.write_settle_ms),
        ] {
            check((0.0..=1e4).contains(&value), name, "0 to 10000 is possible")?;
        }
        let age = (0.0..=1e6).contains(&self.queue_age_limit_ms);
        check(age, "queue_age_limit_ms", "0 to 1000000 is possible")?;
        check((0.0..=1e7).contains(&self.controller_us), "controller_us", "0 to 10000000 is possible")?;
        check((0.01..=1e9).contains(&self.link_mb_per_s), "link_mb_per_s", "0.01 to 1000000000 is possible")?;
        let cylinders = Mechanics::cylinders(self);
        check(cylinders >= 16, "capacity_bytes", "too small: fewer than 16 cylinders")?;
        check(cylinders <= 1 << 24, "capacity_bytes", "too large: more than 16 Mi cylinders")?;
        let rises = Mechanics::new(self).seeks_rise();
        check(rises, "seek_average_ms", "no time that rises with distance has these three seek times")
    }

    /// What the disk is made of.
    pub fn geometry(&self) -> Geometry {
        Mechanics::new(self).geometry()
    }
}

pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// The preset's TOML: each parameter with its source as a comment.
pub fn preset_text(name: &str) -> Result<String, TargetError> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    let missing = || TargetError::UnknownPreset { name: name.into(), known: preset_names().join(", ") };
    Ok(found.ok_or_else(missing)?.1.into())
}
