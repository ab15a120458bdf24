//! What flash holds, on request: beside each physical unit the sequence number of the host's write that its data is
//! of. Collection moves the numbers as it moves data, so that a unit's number, read through the map, says which write
//! the unit reads as.

use super::ftl::Ftl;
use super::memory::NONE;

/// A unit that was never written, or is trimmed. Sequence numbers begin at 1.
pub const UNWRITTEN: u64 = 0;

#[derive(Debug)]
pub(super) struct Stamps {
    held: Vec<u64>,
    /// Of the write that the host's next units belong to.
    current: u64,
}

impl Ftl {
    /// From now on keep record of what flash holds: 8 bytes for each physical unit.
    pub fn keep_stamps(&mut self) {
        let physical = self.geometry.units_per_superblock * self.superblocks.len() as u64;
        self.stamps = Some(Stamps { held: vec![UNWRITTEN; physical as usize], current: UNWRITTEN });
    }

    /// The units that are written from now on belong to this write.
    pub fn stamp(&mut self, write: u64) {
        self.settle();
        self.stamps.as_mut().expect("stamps are kept").current = write;
    }

    /// The write that the unit reads as. Stamps must be kept, and the tables settled.
    pub fn stamp_of(&self, unit: u64) -> u64 {
        match self.map.get(unit) {
            NONE => UNWRITTEN,
            physical => self.stamps.as_ref().expect("stamps are kept").held[physical as usize],
        }
    }

    /// The unit reads as an older write from now on, or as unwritten.
    pub fn revert(&mut self, unit: u64, write: u64) {
        let physical = self.map.get(unit);
        if write == UNWRITTEN {
            self.trim(unit..unit + 1);
        } else {
            self.stamps.as_mut().expect("stamps are kept").held[physical as usize] = write;
        }
    }

    /// The host has written these physical units.
    #[inline]
    pub(super) fn stamp_written(&mut self, physical: u32, count: u32) {
        if let Some(stamps) = &mut self.stamps {
            stamps.held[physical as usize..][..count as usize].fill(stamps.current);
        }
    }

    /// Collection has moved units from `first` on, those whose bits are set, to `to` and on.
    pub(super) fn stamps_moved(&mut self, first: u64, moving: u64, to: u32) {
        let from = (0..u64::from(u64::BITS)).filter(|bit| moving >> bit & 1 != 0).map(|bit| first + bit);
        from.zip(to..).for_each(|(from, to)| self.stamp_moved(from, to));
    }

    /// Collection has moved a unit.
    #[inline]
    pub(super) fn stamp_moved(&mut self, from: u64, to: u32) {
        if let Some(stamps) = &mut self.stamps {
            stamps.held[to as usize] = stamps.held[from as usize];
        }
    }
}
