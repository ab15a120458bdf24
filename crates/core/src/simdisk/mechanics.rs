//! Where a sector is, and how long the heads take to it: layout with skew, seek curve, rotation. Whole nanoseconds.
//!
//! A seek over a share x of all cylinders takes a + b sqrt(x) + c x (accelerating, then coasting: Ruemmler and
//! Wilkes, IEEE Computer 1994); a, b and c follow from the times that data sheets give: to the next cylinder, the mean
//! of all possible seeks, and across all cylinders. Each track begins where the heads are just ready for a write
//! when they come from the end of the one before, so that what is sequential loses the time of the switch, and no turn.

use serde::Serialize;

use super::params::DiskParameters;
use crate::units::SECTOR;
use crate::workload::Operation;

/// A sector's place: which track, counted along the LBAs, which zone, and which sector on the track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub track: u64,
    pub zone: usize,
    pub sector: u64,
}

/// When the heads begin to transfer, when they are done, and the track where they are then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub begin: u64,
    pub end: u64,
    pub track: u64,
}

/// What follows from the parameters, for the curious.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Geometry {
    pub cylinders: u64,
    pub tracks: u64,
    pub turn_ns: u64,
    /// Between the first sectors of two tracks of a cylinder, and of two cylinders' last and first.
    pub head_skew_ns: u64,
    pub cylinder_skew_ns: u64,
}

struct Zone {
    first_track: u64,
    first_sector: u64,
    sectors_per_track: u64,
}

pub struct Mechanics {
    heads: u64,
    zones: Vec<Zone>,
    cylinders: u64,
    turn_ns: u64,
    /// a, b and c, in ns.
    seek: [f64; 3],
    head_switch_ns: u64,
    write_settle_ns: u64,
    head_skew_ns: u64,
    cylinder_skew_ns: u64,
}

fn sectors_per_track(p: &DiskParameters, zone: u32) -> u64 {
    let (outer, inner) = (f64::from(p.outer_sectors_per_track), f64::from(p.inner_sectors_per_track));
    let share = f64::from(zone) / f64::from(p.zones - 1).max(1.0);
    (outer + (inner - outer) * share).round() as u64
}

impl Mechanics {
    /// As many as hold the capacity; each zone has as many.
    pub fn cylinders(p: &DiskParameters) -> u64 {
        let row: u64 = (0..p.zones).map(|zone| sectors_per_track(p, zone)).sum();
        let zone = (p.capacity_bytes / SECTOR).div_ceil(row * u64::from(p.heads));
        zone * u64::from(p.zones)
    }

    pub fn new(p: &DiskParameters) -> Self {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        let cylinders = Self::cylinders(p);
        let zone_tracks = cylinders / u64::from(p.zones) * u64::from(p.heads);
        let mut zones: Vec<Zone> = vec![];
        for zone in 0..p.zones {
            let first_sector = zones.last().map_or(0, |z| z.first_sector + zone_tracks * z.sectors_per_track);
            let first_track = u64::from(zone) * zone_tracks;
            zones.push(Zone { first_track, first_sector, sectors_per_track: sectors_per_track(p, zone) });
        }
        let (head_switch_ns, write_settle_ns) = (ns(p.head_switch_ms), ns(p.write_settle_ms));
        let mut mechanics = Self {
            heads: p.heads.into(),
            zones,
            cylinders,
            turn_ns: (60e9 / p.rpm).round() as u64,
            seek: seek_curve(cylinders, [p.seek_track_ms, p.seek_average_ms, p.seek_full_ms].map(|ms| ms * 1e6)),
            head_switch_ns,
            write_settle_ns,
            head_skew_ns: head_switch_ns + write_settle_ns,
            cylinder_skew_ns: 0,
        };
        mechanics.cylinder_skew_ns = mechanics.seek_ns(1) + write_settle_ns;
        mechanics
    }

    pub fn geometry(&self) -> Geometry {
        Geometry {
            cylinders: self.cylinders,
            tracks: self.cylinders * self.heads,
            turn_ns: self.turn_ns,
            head_skew_ns: self.head_skew_ns,
            cylinder_skew_ns: self.cylinder_skew_ns,
        }
    }

    pub fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    pub fn place(&self, sector: u64) -> Place {
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let z = &self.zones[zone];
        let inside = sector - z.first_sector;
        Place { track: z.first_track + inside / z.sectors_per_track, zone, sector: inside % z.sectors_per_track }
    }

    /// Time of a read's seek over so many cylinders.
    pub fn seek_ns(&self, cylinders: u64) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let x = cylinders as f64 / (self.cylinders - 1) as f64;
        let [a, b, c] = self.seek;
        (a + b * x.sqrt() + c * x).round().max(0.0) as u64
    }

    /// A longer seek never takes less time: the curve's slope, b / (2 sqrt(x)) + c, has no sign but at its ends.
    pub fn seeks_rise(&self) -> bool {
        let [a, b, c] = self.seek;
        let nearest = 1.0 / (self.cylinders - 1) as f64;
        a.is_finite() && [nearest, 1.0].iter().all(|x| b / (2.0 * x.sqrt()) + c >= 0.0)
    }

    /// Time of the heads from track to track, settled for the operation.
    pub fn travel_ns(&self, from: u64, to: u64, operation: Operation) -> u64 {
        if from == to {
            return 0;
        }
        let cylinders = (from / self.heads).abs_diff(to / self.heads);
        let move_ns = if cylinders == 0 { self.head_switch_ns } else { self.seek_ns(cylinders) };
        move_ns + if operation == Operation::Write { self.write_settle_ns } else { 0 }
    }

    /// When in each turn the track's first sector passes.
    fn begins_ns(&self, track: u64) -> u64 {
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let cylinder_ns = (self.heads - 1) * self.head_skew_ns + self.cylinder_skew_ns;
        // Of a slow disk with many cylinders the product would be too large.
        (cylinder * (cylinder_ns % self.turn_ns) + head * self.head_skew_ns) % self.turn_ns
    }

    /// From the begin of the zone's tracks to a sector's.
    fn along_ns(&self, zone: usize, sector: u64) -> u64 {
        sector * self.turn_ns / self.zones[zone].sectors_per_track
    }

    fn wait_ns(&self, at: u64, place: Place) -> u64 {
        let wanted = self.begins_ns(place.track) + self.along_ns(place.zone, place.sector);
        (wanted + self.turn_ns - at % self.turn_ns) % self.turn_ns
    }

    /// Seek and rotation to a place, for heads that leave `from` at `at`.
    pub fn positioning_ns(&self, from: u64, at: u64, place: Place, operation: Operation) -> u64 {
        let travel = self.travel_ns(from, place.track, operation);
        travel + self.wait_ns(at + travel, place)
    }

    /// Position, and transfer so many sectors, from track to track as they come.
    pub fn access(&self, from: u64, at: u64, place: Place, sectors: u64, operation: Operation) -> Access {
        let begin = at + self.positioning_ns(from, at, place, operation);
        let (mut now, mut here, mut left) = (begin, place, sectors);
        loop {
            let on_track = left.min(self.zones[here.zone].sectors_per_track - here.sector);
            now += self.along_ns(here.zone, here.sector + on_track) - self.along_ns(here.zone, here.sector);
            left -= on_track;
            if left == 0 {
                return Access { begin, end: now, track: here.track };
            }
            let track = here.track + 1;
            let zone = here.zone + usize::from(self.zones.get(here.zone + 1).is_some_and(|z| z.first_track == track));
            let next = Place { track, zone, sector: 0 };
            now += self.positioning_ns(here.track, now, next, operation);
            here = next;
        }
    }
}

/// a, b and c of the seek over a share of the cylinders, so that the next cylinder, the mean over all pairs of
/// different cylinders, and the whole stroke take these times.
fn seek_curve(cylinders: u64, [next, mean, full]: [f64; 3]) -> [f64; 3] {
    let most = (cylinders - 1) as f64;
    let (mut roots, mut shares, mut pairs) = (0.0, 0.0, 0.0);
    for distance in 1..cylinders {
        let (x, weight) = (distance as f64 / most, (cylinders - distance) as f64);
        roots += weight * x.sqrt();
        shares += weight * x;
        pairs += weight;
    }
    let (root, share, nearest) = (roots / pairs, shares / pairs, 1.0 / most);
    // b (1 - sqrt(nearest)) + c (1 - nearest) = full - next; b (root - sqrt(nearest)) + c (share - nearest) = mean - next
    let [p, q, r] = [1.0 - nearest.sqrt(), 1.0 - nearest, full - next];
    let [s, t, u] = [root - nearest.sqrt(), share - nearest, mean - next];
    let determinant = p * t - q * s;
    let (b, c) = ((r * t - q * u) / determinant, (p * u - r * s) / determinant);
    [full - b - c, b, c]
}
