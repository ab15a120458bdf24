//! The data of writes: random to the requested share, and never the same twice.
//!
//! Each slot has its own buffer. Every 512-byte sector of it is random in its first `entropy` percent and zero
//! in the rest; the unit is the sector so that a 512-byte write compresses like a large one. Random data is
//! drawn once and kept from write to write: what makes sectors unique is a 16-byte stamp at the start of each,
//! renewed before every write, of the sector's LBA and a counter of all writes of all threads. Small writes of a
//! slot take turns through its first 64 KiB, so that neighbours on the device are not alike but for their stamps
//! and do not compress together.
//! Limits: 2^16 threads, 2^48 writes per thread; the stamp is there also below 4 % entropy, so the least a
//! sector holds is 16 bytes (3 %) that do not repeat.

#![deny(unsafe_code)]

use std::io;

use memmap2::{Advice, MmapMut};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::units::{Lba, SECTOR};

const SECTOR_BYTES: usize = SECTOR as usize;
const STAMP_BYTES: usize = 16;
const COUNTER_BITS: u32 = 48;
/// Sets the data's random numbers apart from the offsets', which start from the same seed.
const DATA_STREAM: u64 = 0x6461_7461_2d66_696c;

/// The part of a slot's buffer that small writes take turns through: enough for a drive that compresses 64 KiB
/// at once, little enough to stay in the CPU's cache. Also the least size of a buffer.
const TURN_BYTES: usize = 65_536;
/// Direct I/O from whole pages works everywhere; smaller steps do not.
const PAGE: usize = 4096;

/// How much of a slot's buffer holds which pattern.
#[derive(Debug, Clone, Copy)]
struct Filled {
    entropy: u8,
    bytes: usize,
}

/// The write buffers of one thread.
#[derive(Debug)]
pub(super) struct WriteData {
    arena: MmapMut,
    stride: usize,
    filled: Vec<Filled>,
    entropy: u8,
    rng: Xoshiro256PlusPlus,
    thread: u64,
    writes: u64,
}

impl WriteData {
    /// Buffers for `slots` slots and writes up to `max_bytes`. They are filled when first written from.
    pub fn new(slots: usize, max_bytes: usize, thread: u32, seed: u64) -> io::Result<Self> {
        assert!(thread < 1 << (u64::BITS - COUNTER_BITS), "thread {thread} does not fit the stamp");
        let stride = max_bytes.next_multiple_of(PAGE).max(TURN_BYTES);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ DATA_STREAM);
        (0..thread).for_each(|_| rng.jump());
        let arena = arena(slots * stride)?;
        let filled = vec![Filled { entropy: 100, bytes: 0 }; slots];
        Ok(Self { arena, stride, filled, entropy: 100, rng, thread: u64::from(thread), writes: 0 })
    }

    /// Where the buffers begin; slot i's is `i * stride()` further.
    pub fn start(&mut self) -> *mut u8 {
        self.arena.as_mut_ptr()
    }

    /// Bytes of one buffer.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes at the start of a buffer that small writes take turns through.
    pub fn turn(&self) -> usize {
        TURN_BYTES
    }

    /// Buffers are refilled when next written from, not here: those in flight must not change, and refilling
    /// all others at once would leave the device idle between two steps.
    pub fn set_entropy(&mut self, percent: u8) {
        assert!(percent <= 100, "{percent} percent of a sector");
        self.entropy = percent;
    }

    /// Fill `bytes` of an idle slot's buffer, if they are not: the first write from it need not wait then.
    pub fn ready(&mut self, slot: usize, bytes: usize) {
        if self.filled[slot].bytes < bytes {
            self.fill(slot, bytes);
        }
    }

    /// Make `bytes` of an idle slot's buffer ready to be written at `lba`. Returns where they begin, from the start
    /// of the first buffer.
    #[inline]
    pub fn prepare(&mut self, slot: usize, lba: Lba, bytes: usize) -> usize {
        assert!(self.writes < 1 << COUNTER_BITS, "the stamp's counter is used up");
        let turns = (TURN_BYTES / bytes.next_multiple_of(PAGE)).max(1);
        let skipped = self.writes as usize % turns * bytes.next_multiple_of(PAGE);
        let filled = self.filled[slot];
        if filled.entropy != self.entropy || filled.bytes < skipped + bytes {
            self.fill(slot, skipped + bytes);
        }
        let counter = self.thread << COUNTER_BITS | self.writes;
        self.writes += 1;
        // Where the sector's start is random its stamp must not be compressible either.
        let mixed = random_bytes(self.entropy) >= STAMP_BYTES;
        let start = slot * self.stride + skipped;
        let sectors = self.arena[start..start + bytes].chunks_exact_mut(SECTOR_BYTES);
        for (sector, lba) in sectors.zip(lba.0..) {
            let (first, second) = if mixed { mixed_stamp(lba, counter) } else { (lba, counter) };
            sector[..8].copy_from_slice(&first.to_le_bytes());
            sector[8..STAMP_BYTES].copy_from_slice(&second.to_le_bytes());
        }
        start
    }

    /// Give the first `bytes` of the slot's buffer the current pattern, keeping what already has it.
    #[cold]
    fn fill(&mut self, slot: usize, bytes: usize) {
        let filled = &mut self.filled[slot];
        if filled.entropy != self.entropy {
            *filled = Filled { entropy: self.entropy, bytes: 0 };
        }
        let random = random_bytes(self.entropy);
        let start = slot * self.stride;
        for sector in self.arena[start + filled.bytes..start + bytes].chunks_exact_mut(SECTOR_BYTES) {
            let (head, tail) = sector.split_at_mut(random);
            self.rng.fill_bytes(head);
            tail.fill(0);
        }
        filled.bytes = bytes;
    }
}

/// Page-aligned memory, zero at first.
pub(super) fn arena(bytes: usize) -> io::Result<MmapMut> {
    let arena = MmapMut::map_anon(bytes)?;
    // Huge pages make pinning faster; a kernel without them does as well.
    let _ = arena.advise(Advice::HugePage);
    Ok(arena)
}

/// Random bytes per sector at this entropy.
fn random_bytes(entropy: u8) -> usize {
    (SECTOR_BYTES * usize::from(entropy)).div_ceil(100)
}

/// A stamp that looks random: one-to-one, so as unique as what it is made from.
#[inline]
fn mixed_stamp(lba: u64, counter: u64) -> (u64, u64) {
    // `mix` leaves 0 as it is, and LBA 0 is common.
    let first = mix(lba.wrapping_add(DATA_STREAM));
    (first, mix(counter ^ first))
}

/// A one-to-one map of 64 bits on which every input bit acts (the output step of splitmix64; Steele, Lea and
/// Flood, OOPSLA 2014).
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Prepare a write and return its data.
    fn write(data: &mut WriteData, slot: usize, lba: u64, bytes: usize) -> Vec<u8> {
        let start = data.prepare(slot, Lba(lba), bytes);
        assert!(start.is_multiple_of(PAGE) && start >= slot * data.stride && start + bytes <= (slot + 1) * data.stride);
        data.arena[start..start + bytes].to_vec()
    }

    #[test]
    fn no_two_sectors_are_equal() {
        for entropy in [0, 1, 3, 4, 50, 100] {
            let mut seen = HashSet::new();
            for thread in [0, 1] {
                let mut data = WriteData::new(3, 131_072, thread, 7).unwrap();
                data.set_entropy(entropy);
                for number in 0..101 {
                    let bytes = [512, 4096, 12_288, 131_072][number % 4];
                    let written = write(&mut data, number % 3, number as u64 % 5, bytes);
                    assert!(written.chunks_exact(SECTOR_BYTES).all(|sector| seen.insert(sector.to_vec())));
                }
            }
        }
    }

    #[test]
    fn stamps_are_legible_without_entropy() {
        let mut data = WriteData::new(1, 8192, 2, 7).unwrap();
        data.set_entropy(0);
        write(&mut data, 0, 0, 512);
        let written = write(&mut data, 0, 40, 8192);
        for (sector, lba) in written.chunks_exact(SECTOR_BYTES).zip(40u64..) {
            assert_eq!(sector[..8], lba.to_le_bytes());
            assert_eq!(sector[8..16], (2u64 << 48 | 1).to_le_bytes());
            assert!(sector[16..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn random_data_is_drawn_only_on_change() {
        let mut data = WriteData::new(2, 131_072, 0, 7).unwrap();
        (0..2).for_each(|slot| drop(write(&mut data, slot, 0, 131_072)));
        let before = data.rng.clone();
        data.set_entropy(100);
        (0..50).for_each(|number| drop(write(&mut data, number % 2, 0, 131_072)));
        assert_eq!(data.rng, before, "filled once, and nothing changed");
        data.set_entropy(50);
        (0..50).for_each(|number| drop(write(&mut data, number % 2, 0, 4096)));
        let after = data.rng.clone();
        assert_ne!(after, before);
        assert!(data.filled.iter().all(|filled| filled.bytes <= TURN_BYTES), "no more than is written from");
        data.set_entropy(50);
        (0..50).for_each(|number| drop(write(&mut data, number % 2, 0, 4096)));
        assert_eq!(data.rng, after, "the same again is no change");
    }

    #[test]
    fn neighbouring_small_writes_differ_throughout() {
        let mut data = WriteData::new(1, 4096, 0, 7).unwrap();
        let blocks: Vec<_> = (0..16).map(|number| write(&mut data, 0, number * 8, 4096)).collect();
        let words: HashSet<&[u8]> = blocks.iter().flat_map(|block| block.chunks_exact(8)).collect();
        assert_eq!(words.len(), TURN_BYTES / 8, "64 KiB without a repetition");
    }
}
