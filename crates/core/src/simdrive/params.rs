//! Every parameter of the simulated drive, in one structure; a preset is a TOML file with the source of each.

use serde::{Deserialize, Serialize};

use super::slc::{SlcRules, SlcWhenFull};
use super::victims::{Collection, GcPacing, GcPolicy};
use super::{bounds, extras};
use crate::error::TargetError;
use crate::preset;
use crate::units::Bytes;

/// Bytes of one mapping unit: what the FTL maps, and what a smaller write must read and modify.
pub const UNIT: u64 = 4096;

const PRESETS: &[(&str, &str)] = &[
    ("sata-client", include_str!("../../presets/sata-client.toml")),
    ("sata-client-512", include_str!("../../presets/sata-client-512.toml")),
    ("sata-enterprise", include_str!("../../presets/sata-enterprise.toml")),
    ("sata-enterprise-emlc", include_str!("../../presets/sata-enterprise-emlc.toml")),
    ("nvme-enterprise", include_str!("../../presets/nvme-enterprise.toml")),
    ("pcie-card", include_str!("../../presets/pcie-card.toml")),
    ("nvme-client-slc", include_str!("../../presets/nvme-client-slc.toml")),
    ("nvme-enterprise-700", include_str!("../../presets/nvme-enterprise-700.toml")),
];

/// What a preset does not say.
const DEFAULTS: &str = include_str!("../../presets/defaults.toml");

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
    /// Pages of each plane that one program writes: 1, or all pages of a word line at once (3: one-shot TLC). A read
    /// fetches one page of each plane.
    pub pages_per_program: u32,
    pub read_us: f64,
    pub program_us: f64,
    pub erase_ms: f64,
    pub channel_mb_per_s: f64,
    /// Reads that wait on a die go before programs and erases that wait there; what has begun is finished.
    pub read_priority: bool,
    /// A host read interrupts a program or erase on its die, which goes on afterwards.
    pub suspend: bool,
    /// Time of the die for that, once for reads that follow each other.
    pub suspend_us: f64,
    /// Reads that may go before one program, its erase included.
    pub suspend_reads: u32,
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
    // Controller
    /// Its one data path, which everything to and from flash passes, collection included; 0: no limit.
    pub controller_mb_per_s: f64,
    /// Time on that path per command, beside its data. A read waits for it; a write is acknowledged before.
    pub controller_read_overhead_us: f64,
    pub controller_write_overhead_us: f64,
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
    // Hot and cold data
    /// The first so many percent of the LBAs are hot, as a stream directive or a namespace would tell the drive: they
    /// have superblocks and frontiers of their own. 0: all data together. Not together with an SLC cache.
    pub hot_percent: f64,
    /// Of the spare capacity, so many percent are the hot data's; the reserve is for each.
    pub hot_spare_percent: f64,
    // SLC cache
    /// The static SLC cache, what it holds; superblocks of its own, whole ones, beside the main area. 0: none.
    pub slc_static_mib: u64,
    /// The dynamic SLC cache: of the flash that data, packed tightly, would leave free, so many percent may be in SLC
    /// mode, where it holds 1 / `bits_per_cell` of its capacity. 0: none.
    pub slc_dynamic_percent: f64,
    /// Of the main area; only the capacity in SLC mode depends on it.
    pub bits_per_cell: u32,
    /// In SLC mode a program writes one page of every plane.
    pub slc_program_us: f64,
    pub slc_read_us: f64,
    pub slc_erase_ms: f64,
    /// direct: when the SLC cache is full, the host's data goes to the main area; fold: the host waits while the
    /// oldest data is copied from the cache to the main area.
    pub slc_when_full: SlcWhenFull,
    /// The SLC cache is folded also when there has been no command for so long, until it is empty; 0: never.
    pub slc_fold_after_ms: f64,
    /// Keep record of which write each unit of flash is of: 8 bytes for each 4 KiB, so that a read-back can be judged.
    pub track_data: bool,
    /// Power is lost once, so long after the drive was made, whatever is outstanding; 0: never. Implies `track_data`.
    pub fault_power_loss_after_s: f64,
    /// From the loss of power until the drive takes commands again.
    pub power_on_ms: f64,
    /// Of the random stream that faults are drawn from.
    pub fault_seed: u64,
    /// Probability that a 4 KiB unit read from flash turns out unreadable (EIO), until it is rewritten.
    pub fault_read_error_rate: f64,
    /// Most units that become unreadable.
    pub fault_read_errors_max: u32,
    /// Probability that a page (of all planes of a die) fails to be programmed: it is programmed once more, and its
    /// block is bad.
    pub fault_program_error_rate: f64,
    /// Most blocks that become bad. As many as there are dies make one superblock less.
    pub fault_bad_blocks_max: u32,
    /// Probability that the controller pauses when a command comes.
    pub fault_spike_rate: f64,
    /// How long.
    pub fault_spike_ms: f64,
    /// Most pauses.
    pub fault_spikes_max: u32,
    /// After so many commands the drive is gone (ENODEV); 0: never.
    pub fault_dropout_after_ios: u64,
    /// After so long since it was made the drive is gone; 0: never.
    pub fault_dropout_after_s: f64,
    /// Power of a drive that does nothing. With all energies 0 there is no record of energy.
    pub idle_w: f64,
    /// Energy of reading and of programming a page, of erasing a block: of every plane of a die. A program of several
    /// pages takes as many times as much; SLC mode takes the same power, for its own times.
    pub read_uj: f64,
    pub program_uj: f64,
    pub erase_uj: f64,
    /// Energy of a command, and of each byte between host and drive.
    pub command_uj: f64,
    pub transfer_nj_per_byte: f64,
    pub ambient_c: f64,
    /// Degrees above ambient for each W; 0: no temperature.
    pub thermal_resistance_c_per_w: f64,
    pub thermal_time_constant_s: f64,
    /// Above this temperature the drive works for a part of the time only,
    pub throttle_from_c: f64,
    /// and at this one hardly at all; 0: it never throttles.
    pub throttle_full_c: f64,
}

impl DriveParameters {
    /// The preset with `overrides` (a JSON object) applied.
    pub fn preset(name: &str, overrides: &str) -> Result<Self, TargetError> {
        let parameters: Self = preset::parameters(name, &preset_text(name)?, overrides)?;
        parameters.validate()?;
        let changes: serde_json::Map<String, serde_json::Value> = serde_json::from_str(overrides).unwrap_or_default();
        match extras::without_effect(&parameters, |name| changes.contains_key(name)) {
            Some((name, problem)) => Err(TargetError::DriveParameter { name: name.into(), problem: problem.into() }),
            None => Ok(parameters),
        }
    }

    fn validate(&self) -> Result<(), TargetError> {
        let check = |good: bool, name: &str, problem: &str| {
            if good { Ok(()) } else { Err(TargetError::DriveParameter { name: name.into(), problem: problem.into() }) }
        };
        if let Some((name, problem)) = bounds::outside(self) {
            check(false, name, &problem)?;
        }
        check(self.capacity_bytes >= UNIT, "capacity_bytes", "at least 4096 bytes are needed")?;
        check(self.capacity_bytes.is_multiple_of(512), "capacity_bytes", "a multiple of 512 is needed")?;
        check(self.capacity_bytes <= 8 << 40, "capacity_bytes", "at most 8 TiB can be simulated")?;
        for (name, count) in [
            ("channels", self.channels),
            ("dies", self.dies),
            ("planes", self.planes),
            ("pages_per_block", self.pages_per_block),
            ("queue_slots", self.queue_slots),
            ("suspend_reads", self.suspend_reads),
        ] {
            check((1..=65_536).contains(&count), name, "1 to 65536 is possible")?;
        }
        check(self.gc_reserve_superblocks >= 3, "gc_reserve_superblocks", "at least 3 are needed")?;
        check(self.gc_reserve_superblocks <= 16, "gc_reserve_superblocks", "at most 16 are possible")?;
        check((1..=64).contains(&self.gc_choices), "gc_choices", "1 to 64 are possible")?;
        check((1..=2).contains(&self.gc_frontiers), "gc_frontiers", "1 or 2 is possible")?;
        let whole_pages = self.page_bytes.is_multiple_of(UNIT) && (UNIT..=1 << 20).contains(&self.page_bytes);
        check(whole_pages, "page_bytes", "a multiple of 4096 up to 1 MiB is needed")?;
        let page_units = u64::from(self.planes) * self.page_bytes / UNIT;
        check((1..=64).contains(&page_units), "planes", "all planes' pages together hold 1 to 64 units of 4 KiB")?;
        let pages = u64::from(self.pages_per_program);
        let program = (1..=64 / page_units).contains(&pages);
        check(program, "pages_per_program", "1 or more, and a program writes at most 64 units of 4 KiB")?;
        let whole_programs = self.pages_per_block.is_multiple_of(self.pages_per_program);
        check(whole_programs, "pages_per_block", "a multiple of pages_per_program is needed")?;
        // Each pool gathers one, and may wait for more data with what it has.
        let programs = if self.hot_percent > 0.0 { 2 } else { 1 };
        let gathered_kib = programs * pages * page_units * UNIT / 1024;
        check(
            self.write_buffer_kib >= gathered_kib,
            "write_buffer_kib",
            "must hold what a program of each pool writes",
        )?;
        check(self.write_buffer_kib <= 64 << 20, "write_buffer_kib", "at most 64 GiB are possible")?;
        check(self.slc_static_mib <= 1 << 20, "slc_static_mib", "at most 1 TiB is possible")?;
        let bits = (2..=5).contains(&self.bits_per_cell) && self.pages_per_program <= self.bits_per_cell;
        let cached = self.slc_static_mib > 0 || self.slc_dynamic_percent > 0.0;
        let pooled = self.hot_percent > 0.0;
        check(!cached || !pooled, "hot_percent", "not together with an SLC cache")?;
        check(!cached || bits, "bits_per_cell", "with an SLC cache 2 to 5 is possible, at least pages_per_program")?;
        if let Some((name, problem)) = extras::problem(self) {
            check(false, name, problem)?;
        }
        let geometry = self.geometry();
        check(!pooled || geometry.hot_units > 0, "hot_percent", "less than a unit of 4 KiB would be hot")?;
        let too_small = format!("too small for {} dies", self.dies);
        check(geometry.superblocks >= LEAST_SUPERBLOCKS, "capacity_bytes", &too_small)?;
        let physical = (geometry.superblocks + geometry.slc_superblocks) * geometry.units_per_superblock;
        check(
            physical < u64::from(u32::MAX),
            "capacity_bytes",
            "at most 16 TiB of flash, spare included, can be simulated",
        )
    }

    /// The controller's data path in MB/s, without end where there is no limit.
    pub(super) fn controller_rate(&self) -> f64 {
        if self.controller_mb_per_s > 0.0 { self.controller_mb_per_s } else { f64::INFINITY }
    }

    /// Reads that may interrupt a program; 0: none may.
    pub(super) fn suspends(&self) -> u32 {
        if self.suspend { self.suspend_reads } else { 0 }
    }

    /// How garbage is collected.
    pub fn collection(&self) -> Collection {
        Collection {
            policy: self.gc_policy,
            choices: self.gc_choices,
            frontiers: self.gc_frontiers,
            pacing: self.gc_pacing,
            reserve: self.gc_reserve_superblocks,
            slc: SlcRules { dynamic_percent: self.slc_dynamic_percent, when_full: self.slc_when_full },
        }
    }

    /// The drive knows which write each unit reads as.
    pub fn tracks_data(&self) -> bool {
        self.track_data || self.fault_power_loss_after_s > 0.0
    }

    /// Units the write buffer holds.
    pub fn buffer_units(&self) -> i64 {
        (self.write_buffer_kib * 1024 / UNIT) as i64
    }

    /// Superblocks beside those that the user capacity, the reserve and the frontiers need; of two pools, the one that
    /// has fewer.
    pub fn spare_superblocks(&self) -> u64 {
        let [hot, cold] = self.spare_of_pools();
        hot.min(cold)
    }

    /// Of the hot pool and the cold one; of both the same if there is one.
    fn spare_of_pools(&self) -> [u64; 2] {
        let g = self.geometry();
        let spare = |units: u64, superblocks: u64| {
            superblocks.saturating_sub(units.div_ceil(g.units_per_superblock) + self.superblocks_not_in_use())
        };
        let cold = spare(g.units - g.hot_units, g.superblocks - g.hot_superblocks);
        if g.hot_superblocks > 0 { [spare(g.hot_units, g.hot_superblocks), cold] } else { [cold; 2] }
    }

    /// Free superblocks at which collection while idle ends, by pool, of a drive that has lost so many of each.
    pub fn idle_free_superblocks(&self, retired: [u64; 2]) -> [u64; 2] {
        let share = self.idle_collect_free_percent / 100.0;
        let reserve = u64::from(self.gc_reserve_superblocks);
        let [hot, cold] = self.spare_of_pools();
        let left = [hot.saturating_sub(retired[0]), cold.saturating_sub(retired[1])];
        left.map(|spare| reserve + (spare as f64 * share).round() as u64)
    }

    pub fn capacity(&self) -> Bytes {
        Bytes(self.capacity_bytes)
    }

    /// The reserve, and open superblocks: of two frontiers, and one that the dynamic SLC cache fills.
    fn superblocks_not_in_use(&self) -> u64 {
        u64::from(self.gc_reserve_superblocks) + 2 + u64::from(self.slc_dynamic_percent > 0.0)
    }

    /// Blocks and pages. A capacity far below the real drive's would leave few superblocks, and with few of
    /// them write amplification changes; then blocks are made shorter, and their erase time with them, so that
    /// the cost of erasing a page stays what it was.
    pub fn geometry(&self) -> Geometry {
        let units = self.capacity_bytes.div_ceil(UNIT);
        let units_per_sense = u64::from(self.planes) * self.page_bytes / UNIT;
        let units_per_page = units_per_sense * u64::from(self.pages_per_program);
        let row = units_per_page * u64::from(self.dies);
        let physical = (units as f64 * (1.0 + self.over_provisioning)).ceil() as u64;
        let pages_of_block = u64::from(self.pages_per_block / self.pages_per_program);
        let pages = (physical / (row * WANTED_SUPERBLOCKS)).max(4).min(pages_of_block);
        let units_per_superblock = row * pages;
        let hot_units = (units as f64 * self.hot_percent / 100.0) as u64;
        let hot_physical = hot_units + ((physical - units) as f64 * self.hot_spare_percent / 100.0) as u64;
        // On top of the spare capacity proper.
        let with_reserve = |physical: u64| physical.div_ceil(units_per_superblock) + self.superblocks_not_in_use();
        let (superblocks, hot_superblocks) = match hot_units {
            0 => (with_reserve(physical), 0),
            _ => (with_reserve(physical - hot_physical) + with_reserve(hot_physical), with_reserve(hot_physical)),
        };
        let slc_rows = pages * u64::from(self.pages_per_program) / u64::from(self.bits_per_cell.max(1));
        let slc_units_per_superblock = slc_rows.max(1) * u64::from(self.dies) * units_per_sense;
        let erase_ns = |ms: f64| (ms * 1e6 * pages as f64 / pages_of_block as f64).round() as u64;
        Geometry {
            units,
            units_per_page: units_per_page as u32,
            units_per_sense: units_per_sense as u32,
            dies: self.dies,
            units_per_superblock,
            superblocks,
            erase_ns: erase_ns(self.erase_ms),
            hot_units,
            hot_superblocks,
            slc_superblocks: (self.slc_static_mib << 20).div_ceil(slc_units_per_superblock * UNIT),
            slc_units_per_superblock,
            slc_erase_ns: erase_ns(self.slc_erase_ms),
        }
    }
}

/// What follows from the parameters. A superblock is one block of every plane of every die; a page here, and in all
/// of the mapping, is what one program writes: `pages_per_program` pages of every plane of one die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Logical units of `UNIT` bytes.
    pub units: u64,
    pub units_per_page: u32,
    /// What one read operation of a die fetches: one page of every plane. A whole number of them is in each page.
    pub units_per_sense: u32,
    pub dies: u32,
    pub units_per_superblock: u64,
    /// Of the main area.
    pub superblocks: u64,
    pub erase_ns: u64,
    /// Units of hot data, the first ones, and the superblocks of the main area that are theirs; 0: all together.
    pub hot_units: u64,
    pub hot_superblocks: u64,
    /// Of the static SLC cache, and what each superblock holds in SLC mode.
    pub slc_superblocks: u64,
    pub slc_units_per_superblock: u64,
    pub slc_erase_ns: u64,
}

impl Geometry {
    /// Read operations that the units of a page take whose bits are set: one for each page of the flash they are in.
    #[inline]
    pub fn senses(&self, units: u64) -> u32 {
        let m = self.units_per_sense;
        if m == self.units_per_page {
            return u32::from(units != 0);
        }
        let one = u64::MAX >> (64 - m);
        (0..self.units_per_page).step_by(m as usize).map(|at| u32::from((units >> at) & one != 0)).sum()
    }
}

pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// The preset's TOML, and what it leaves to the defaults: each parameter once, with its source as a comment.
pub fn preset_text(name: &str) -> Result<String, TargetError> {
    let (_, text) = PRESETS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| TargetError::UnknownPreset { name: name.into(), known: preset_names().join(", ") })?;
    Ok(preset::with_defaults(text, DEFAULTS))
}
