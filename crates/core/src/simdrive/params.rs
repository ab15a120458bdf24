//! Every parameter of the simulated drive, in one structure; a preset is a TOML file with the source of each.

use serde::{Deserialize, Serialize};

use super::victims::{Collection, GcPacing, GcPolicy};
use crate::error::TargetError;
use crate::units::Bytes;

/// Bytes of one mapping unit: what the FTL maps, and what a smaller write must read and modify.
pub const UNIT: u64 = 4096;

const PRESETS: &[(&str, &str)] = &[
    ("sata-client", include_str!("../../presets/sata-client.toml")),
    ("sata-client-512", include_str!("../../presets/sata-client-512.toml")),
    ("sata-enterprise", include_str!("../../presets/sata-enterprise.toml")),
    ("sata-enterprise-emlc", include_str!("../../presets/sata-enterprise-emlc.toml")),
    ("nvme-enterprise", include_str!("../../presets/nvme-enterprise.toml")),
    ("nvme-enterprise-700", include_str!("../../presets/nvme-enterprise-700.toml")),
];

/// Fewest superblocks a small capacity is divided into before blocks stop shrinking.
const WANTED_SUPERBLOCKS: u64 = 512;
/// Fewer superblocks than this leave no room for the reserve and the open blocks.
const LEAST_SUPERBLOCKS: u64 = 24;

/// A drive: identity, geometry, timing, host interface, write buffer, garbage collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveParameters {
    pub interface: String,
    pub form_factor: String,
    pub media: String,
    /// User capacity.
    pub capacity_bytes: u64,
    /// Spare capacity / user capacity, without the blocks that are open or held in reserve.
    pub over_provisioning: f64,
    pub channels: u32,
    /// All dies; die i is on channel i mod `channels`.
    pub dies: u32,
    pub planes: u32,
    pub page_bytes: u64,
    pub pages_per_block: u32,
    pub read_us: f64,
    pub program_us: f64,
    pub erase_ms: f64,
    pub channel_mb_per_s: f64,
    /// Reads that wait on a die go before programs and erases that wait there; what has begun is finished.
    pub read_priority: bool,
    /// Commands the drive holds at a time (SATA NCQ: 32); more wait in the host.
    pub queue_slots: u32,
    /// Reads and writes each have the link to themselves (PCIe), or share it (SATA).
    pub full_duplex: bool,
    /// Time of the link and controller per command, beside the transfer.
    pub link_read_overhead_us: f64,
    pub link_read_mb_per_s: f64,
    pub link_read_max_iops: f64,
    pub link_write_overhead_us: f64,
    pub link_write_mb_per_s: f64,
    pub link_write_max_iops: f64,
    /// Fixed delay of a command that occupies nothing.
    pub read_latency_us: f64,
    pub write_latency_us: f64,
    pub write_buffer_kib: u64,
    /// The write buffer survives power loss: a write is acknowledged from it also with the cache disabled.
    pub power_loss_protection: bool,
    /// Die time of a read-modify-write beside the read itself.
    pub rmw_us: f64,
    /// One page of the mapping table is programmed for this many write commands; 0: never.
    pub write_commands_per_map_page: u32,
    /// Garbage collection runs while no more superblocks than this are free.
    pub gc_reserve_superblocks: u32,
    /// Which superblock is collected next: greedy, fifo, random, d-choices or cost-benefit.
    pub gc_policy: GcPolicy,
    /// How many superblocks "d-choices" draws to take the best of.
    pub gc_choices: u32,
    /// 2: host data and collected data are written to superblocks of their own; 1: to the same one.
    pub gc_frontiers: u32,
    /// paced: a little with each page the host writes; line: a whole superblock at once, while the host waits.
    pub gc_pacing: GcPacing,
    /// Garbage collection also runs when there has been no command for so long; 0: never.
    pub idle_collect_after_ms: f64,
    /// ... until so many percent of the spare capacity, in superblocks, are free on top of the reserve.
    pub idle_collect_free_percent: f64,
}

impl DriveParameters {
    /// The preset with `overrides` (a JSON object) applied.
    pub fn preset(name: &str, overrides: &str) -> Result<Self, TargetError> {
        let bad = |problem: String| TargetError::DriveParameter { name: name.into(), problem };
        let mut table: toml::Table = preset_text(name)?.parse().map_err(|e| bad(format!("{e}")))?;
        let changes: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(overrides).map_err(|e| bad(format!("overrides: {e}")))?;
        for (key, value) in changes {
            let parameter = |problem: String| TargetError::DriveParameter { name: key.clone(), problem };
            let Some(current) = table.get(&key) else {
                let known: Vec<_> = table.keys().cloned().collect();
                return Err(parameter(format!("no such parameter; there are: {}", known.join(", "))));
            };
            let mut new = toml::Value::try_from(&value).map_err(|e| parameter(e.to_string()))?;
            if let (toml::Value::Float(_), Some(whole)) = (current, new.as_integer()) {
                new = toml::Value::Float(whole as f64);
            }
            if !new.same_type(current) {
                return Err(parameter(format!("{value} is no {}", current.type_str())));
            }
            table.insert(key, new);
        }
        let parameters: Self = table.try_into().map_err(|e: toml::de::Error| bad(e.to_string()))?;
        parameters.validate()?;
        Ok(parameters)
    }

    fn validate(&self) -> Result<(), TargetError> {
        let check = |good: bool, name: &str, problem: &str| {
            if good { Ok(()) } else { Err(TargetError::DriveParameter { name: name.into(), problem: problem.into() }) }
        };
        check(self.capacity_bytes >= UNIT, "capacity_bytes", "at least 4096 bytes are needed")?;
        check(self.capacity_bytes.is_multiple_of(512), "capacity_bytes", "a multiple of 512 is needed")?;
        check(self.capacity_bytes <= 8 << 40, "capacity_bytes", "at most 8 TiB can be simulated")?;
        check((0.005..=10.0).contains(&self.over_provisioning), "over_provisioning", "0.005 to 10 is possible")?;
        for (name, count) in [
            ("channels", self.channels),
            ("dies", self.dies),
            ("planes", self.planes),
            ("pages_per_block", self.pages_per_block),
            ("queue_slots", self.queue_slots),
        ] {
            check((1..=65_536).contains(&count), name, "1 to 65536 is possible")?;
        }
        check(self.gc_reserve_superblocks >= 3, "gc_reserve_superblocks", "at least 3 are needed")?;
        check(self.gc_reserve_superblocks <= 16, "gc_reserve_superblocks", "at most 16 are possible")?;
        check((1..=64).contains(&self.gc_choices), "gc_choices", "1 to 64 are possible")?;
        check((1..=2).contains(&self.gc_frontiers), "gc_frontiers", "1 or 2 is possible")?;
        let percent = (0.0..=100.0).contains(&self.idle_collect_free_percent);
        check(percent, "idle_collect_free_percent", "0 to 100 is possible")?;
        let whole_pages = self.page_bytes.is_multiple_of(UNIT) && (UNIT..=1 << 20).contains(&self.page_bytes);
        check(whole_pages, "page_bytes", "a multiple of 4096 up to 1 MiB is needed")?;
        let page_units = u64::from(self.planes) * self.page_bytes / UNIT;
        check((2..=64).contains(&page_units), "planes", "all planes' pages together hold 2 to 64 units of 4 KiB")?;
        let page_kib = u64::from(self.planes) * self.page_bytes / 1024;
        check(self.write_buffer_kib >= page_kib, "write_buffer_kib", "must hold a page of every plane")?;
        check(self.write_buffer_kib <= 64 << 20, "write_buffer_kib", "at most 64 GiB are possible")?;
        for (name, value) in self.positive_numbers() {
            check(value.is_finite() && (1e-6..=1e12).contains(&value), name, "a positive number is needed")?;
        }
        for (name, value) in self.delays() {
            check(value.is_finite() && (0.0..=1e7).contains(&value), name, "0 or a positive number is needed")?;
        }
        let geometry = self.geometry();
        let too_small = format!("too small for {} dies", self.dies);
        check(geometry.superblocks >= LEAST_SUPERBLOCKS, "capacity_bytes", &too_small)?;
        let physical = geometry.superblocks * geometry.units_per_superblock;
        check(
            physical < u64::from(u32::MAX),
            "capacity_bytes",
            "at most 16 TiB of flash, spare included, can be simulated",
        )
    }

    fn positive_numbers(&self) -> [(&'static str, f64); 8] {
        [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_ms", self.erase_ms),
            ("channel_mb_per_s", self.channel_mb_per_s),
            ("link_read_mb_per_s", self.link_read_mb_per_s),
            ("link_read_max_iops", self.link_read_max_iops),
            ("link_write_mb_per_s", self.link_write_mb_per_s),
            ("link_write_max_iops", self.link_write_max_iops),
        ]
    }

    fn delays(&self) -> [(&'static str, f64); 6] {
        [
            ("link_read_overhead_us", self.link_read_overhead_us),
            ("link_write_overhead_us", self.link_write_overhead_us),
            ("read_latency_us", self.read_latency_us),
            ("write_latency_us", self.write_latency_us),
            ("rmw_us", self.rmw_us),
            ("idle_collect_after_ms", self.idle_collect_after_ms),
        ]
    }

    /// How garbage is collected.
    pub fn collection(&self) -> Collection {
        Collection {
            policy: self.gc_policy,
            choices: self.gc_choices,
            frontiers: self.gc_frontiers,
            pacing: self.gc_pacing,
            reserve: self.gc_reserve_superblocks,
        }
    }

    /// Units the write buffer holds.
    pub fn buffer_units(&self) -> i64 {
        (self.write_buffer_kib * 1024 / UNIT) as i64
    }

    /// Free superblocks at which collection while idle ends.
    pub fn idle_free_superblocks(&self) -> u64 {
        let geometry = self.geometry();
        let kept = geometry.units.div_ceil(geometry.units_per_superblock) + u64::from(self.gc_reserve_superblocks) + 2;
        let spare = geometry.superblocks.saturating_sub(kept);
        let free = (spare as f64 * self.idle_collect_free_percent / 100.0).round() as u64;
        u64::from(self.gc_reserve_superblocks) + free
    }

    pub fn capacity(&self) -> Bytes {
        Bytes(self.capacity_bytes)
    }

    /// Blocks and pages. A capacity far below the real drive's would leave few superblocks, and with few of
    /// them write amplification changes; then blocks are made shorter, and their erase time with them, so that
    /// the cost of erasing a page stays what it was.
    pub fn geometry(&self) -> Geometry {
        let units = self.capacity_bytes.div_ceil(UNIT);
        let units_per_page = u64::from(self.planes) * self.page_bytes / UNIT;
        let row = units_per_page * u64::from(self.dies);
        let physical = (units as f64 * (1.0 + self.over_provisioning)).ceil() as u64;
        let pages = (physical / (row * WANTED_SUPERBLOCKS)).max(4).min(u64::from(self.pages_per_block));
        let units_per_superblock = row * pages;
        // Two frontiers are open and the reserve is free, on top of the spare capacity proper.
        let superblocks = physical.div_ceil(units_per_superblock) + u64::from(self.gc_reserve_superblocks) + 2;
        Geometry {
            units,
            units_per_page: units_per_page as u32,
            dies: self.dies,
            units_per_superblock,
            superblocks,
            erase_ns: (self.erase_ms * 1e6 * pages as f64 / f64::from(self.pages_per_block)).round() as u64,
        }
    }
}

/// What follows from the parameters. A superblock is one block of every plane of every die; a page here is one
/// page of every plane of one die, the unit of programming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Logical units of `UNIT` bytes.
    pub units: u64,
    pub units_per_page: u32,
    pub dies: u32,
    pub units_per_superblock: u64,
    pub superblocks: u64,
    pub erase_ns: u64,
}

pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

pub fn preset_text(name: &str) -> Result<&'static str, TargetError> {
    PRESETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| TargetError::UnknownPreset { name: name.into(), known: preset_names().join(", ") })
}
