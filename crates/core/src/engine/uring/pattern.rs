//! The data of writes: random to the requested share, and never the same twice.
//!
//! Each slot has its own buffer. Every 512-byte sector of it is random in its first `entropy` percent and zero
//! in the rest; the unit is the sector so that a 512-byte write compresses like a large one. A stamp at the start
//! of each 4 KiB (of each sector in small writes with nothing random), of the LBA and a counter of all writes of all
//! threads, makes it unique. That alone would not do for a compressor with a window of megabytes, which would find the rest of the
//! buffer again where it was written before. So a small write is renewed throughout: its random part is combined
//! (exclusive or) with a key drawn for the write. Large writes, for which that costs too much, take turns through
//! a part of the buffer so large that a repetition is `RING_BYTES` of the thread's writes away, or its queue's if more.
//!
//! Data that is to be verified has larger stamps, in every sector: see `super::super::stamp`.
//! Limits: 2^16 threads, 2^48 writes per thread; the stamp is there also below 4 % entropy, so the least a
//! sector holds is 16 bytes (3 %) that do not repeat.

#![deny(unsafe_code)]

use std::fs;
use std::io;

use memmap2::{Advice, MmapMut};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::super::stamp::{self, Origin, SECTOR_BYTES};
use crate::units::Lba;

const STAMP_BYTES: usize = 16;
/// Sets the data's random numbers apart from the offsets', which start from the same seed.
const DATA_STREAM: u64 = 0x6461_7461_2d66_696c;

/// Writes up to this size are renewed throughout: their buffers stay in the CPU's cache.
const RENEWED_BYTES: usize = 4096;
/// What larger writes of a thread take turns through, all slots together: more than the usual window of a compressor,
/// and so little that filling it holds up no step.
const RING_BYTES: usize = 4 << 20;
/// Direct I/O from whole pages works everywhere; smaller steps do not. Also what large writes have a stamp in each of.
const PAGE: usize = 4096;

/// How much of a slot's buffer holds which pattern.
#[derive(Debug, Clone, Copy)]
struct Filled {
    entropy: u8,
    bytes: usize,
}

/// The write buffers of one thread.
#[derive(Debug)]
pub(in super::super) struct WriteData {
    arena: MmapMut,
    stride: usize,
    turn: usize,
    filled: Vec<Filled>,
    entropy: u8,
    rng: Xoshiro256PlusPlus,
    origin: Origin,
    /// Stamps for `super::super::verify`.
    verifiable: bool,
    /// Large writes so far, for their turns.
    large: usize,
}

impl WriteData {
    /// Buffers for `slots` slots and writes up to `max_bytes`. They are filled when first written from.
    pub fn new(slots: usize, max_bytes: usize, thread: u32, seed: u64) -> io::Result<Self> {
        let largest = max_bytes.next_multiple_of(PAGE);
        let ring = if largest > RENEWED_BYTES && may_lock() { RING_BYTES / slots / PAGE * PAGE } else { 0 };
        let stride = largest.max(ring);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ DATA_STREAM);
        (0..thread).for_each(|_| rng.jump());
        let arena = arena(slots * stride)?;
        let filled = vec![Filled { entropy: 100, bytes: 0 }; slots];
        let origin = Origin::new(thread, seed);
        let turn = ring.max(largest.min(RENEWED_BYTES));
        Ok(Self { arena, stride, turn, filled, entropy: 100, rng, origin, verifiable: false, large: 0 })
    }

    /// From now on every sector can be verified when it is read back.
    pub fn make_verifiable(&mut self) {
        self.verifiable = true;
    }

    /// Where the buffers begin; slot i's is `i * stride()` further.
    pub fn start(&mut self) -> *mut u8 {
        self.arena.as_mut_ptr()
    }

    /// What was made ready, from where `prepare` said.
    pub fn prepared(&self, start: usize, bytes: usize) -> &[u8] {
        &self.arena[start..start + bytes]
    }

    /// Bytes of one buffer.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes at the start of a buffer that writes smaller than that use.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Buffers are refilled when next written from, not here: those in flight must not change, and refilling
    /// all others at once would leave the device idle between two steps.
    pub fn set_entropy(&mut self, percent: u8) {
        assert!(percent <= 100, "{percent} percent of a sector");
        self.entropy = percent;
    }

    /// Fill `bytes` of an idle slot's buffer, if they are not: the first write from it need not wait then.
    pub fn ready(&mut self, slot: usize, bytes: usize) {
        let bytes = bytes.max(self.turn);
        if self.filled[slot].bytes < bytes {
            self.fill(slot, bytes);
        }
    }

    /// Make `bytes` of an idle slot's buffer ready to be written at `lba`. Returns where they begin, from the start
    /// of the first buffer.
    #[inline]
    pub fn prepare(&mut self, slot: usize, lba: Lba, bytes: usize) -> usize {
        let renew = bytes <= RENEWED_BYTES;
        let skipped = if renew { 0 } else { self.next_place(bytes) };
        let filled = self.filled[slot];
        if filled.entropy != self.entropy || filled.bytes < skipped + bytes {
            self.fill(slot, skipped + bytes);
        }
        let start = slot * self.stride + skipped;
        let data = &mut self.arena[start..start + bytes];
        let random = random_bytes(self.entropy);
        if renew {
            combine(data, random, &mut self.rng);
        }
        let sequence = self.origin.next();
        if self.verifiable {
            stamp::seal(data, lba, sequence, self.origin.seed(), random);
        } else {
            mark(data, lba, sequence, random, renew);
        }
        start
    }

    /// Where in its buffer a large write begins.
    fn next_place(&mut self, bytes: usize) -> usize {
        let bytes = bytes.next_multiple_of(PAGE);
        // A slot's turns follow the thread's writes; where these come to the slots in order, each turn is the next.
        let turn = self.large / self.filled.len() % (self.turn / bytes).max(1);
        self.large = self.large.wrapping_add(1);
        turn * bytes
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

/// Combine the first `random` bytes of each sector with words drawn for this write: random data stays random, and is
/// not what was there before. What is left of less than a word stays.
#[inline]
fn combine(data: &mut [u8], random: usize, rng: &mut Xoshiro256PlusPlus) {
    let key: [u64; 8] = std::array::from_fn(|_| rng.next_u64());
    let apply = |words: &mut [u8]| {
        for (bytes, key) in words.chunks_exact_mut(8).zip(&key) {
            let word = u64::from_le_bytes((&*bytes).try_into().expect("eight bytes")) ^ key;
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    };
    if random == SECTOR_BYTES {
        // The usual case, without the borders of sectors.
        data.chunks_exact_mut(64).for_each(apply);
        return;
    }
    for sector in data.chunks_exact_mut(SECTOR_BYTES) {
        sector[..random].chunks_mut(64).for_each(apply);
    }
}

/// Stamp each page, and each sector where nothing else makes it unique. What is random gets a stamp that looks random.
#[inline]
fn mark(data: &mut [u8], lba: Lba, sequence: u64, random: usize, renewed: bool) {
    if random < STAMP_BYTES {
        let every = if renewed { SECTOR_BYTES } else { PAGE };
        for (piece, lba) in data.chunks_mut(every).zip((lba.0..).step_by(every / SECTOR_BYTES)) {
            put(piece, lba, sequence);
        }
        return;
    }
    let (first, second) = stamp::mixed_pair(lba.0, sequence);
    for (page, number) in data.chunks_mut(PAGE).zip(0..) {
        put(page, first.wrapping_add(number), second);
    }
}

#[inline]
fn put(piece: &mut [u8], first: u64, second: u64) {
    piece[..8].copy_from_slice(&first.to_le_bytes());
    piece[8..STAMP_BYTES].copy_from_slice(&second.to_le_bytes());
}

/// Whether this process may lock as much memory as it likes (CAP_IPC_LOCK, or no limit): buffers are locked.
fn may_lock() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capable =
        capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|set| set >> 14 & 1 == 1);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory"));
    capable || limit.is_some_and(|line| line.contains("unlimited"))
}

/// Page-aligned memory, zero at first.
pub(in super::super) fn arena(bytes: usize) -> io::Result<MmapMut> {
    let arena = MmapMut::map_anon(bytes)?;
    // Huge pages make pinning faster; a kernel without them does as well.
    let _ = arena.advise(Advice::HugePage);
    Ok(arena)
}

/// Random bytes per sector at this entropy.
fn random_bytes(entropy: u8) -> usize {
    (SECTOR_BYTES * usize::from(entropy)).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::super::stamp::Stamp;
    use super::*;

    /// Prepare a write and return its data.
    fn write(data: &mut WriteData, slot: usize, lba: u64, bytes: usize) -> Vec<u8> {
        let start = data.prepare(slot, Lba(lba), bytes);
        assert!(start.is_multiple_of(PAGE) && start >= slot * data.stride && start + bytes <= (slot + 1) * data.stride);
        data.prepared(start, bytes).to_vec()
    }

    #[test]
    fn no_two_sectors_are_equal() {
        for entropy in [0, 1, 3, 4, 50, 100] {
            for verifiable in [false, true] {
                let mut seen = HashSet::new();
                for thread in [0, 1] {
                    let mut data = WriteData::new(3, 131_072, thread, 7).unwrap();
                    data.set_entropy(entropy);
                    data.verifiable = verifiable;
                    for number in 0..101 {
                        let bytes = [512, 4096, 1536, 4096][number % 4];
                        let written = write(&mut data, number % 3, number as u64 % 5, bytes);
                        assert!(written.chunks_exact(SECTOR_BYTES).all(|sector| seen.insert(sector.to_vec())));
                    }
                }
            }
        }
    }

    #[test]
    fn no_two_pages_of_large_writes_are_equal() {
        for entropy in [0, 50, 100] {
            let mut seen = HashSet::new();
            let mut data = WriteData::new(2, 131_072, 0, 7).unwrap();
            data.set_entropy(entropy);
            for number in 0..700 {
                let bytes = [131_072, 69_632, 8192][number % 3];
                let written = write(&mut data, number % 2, 0, bytes);
                assert!(written.chunks(PAGE).all(|page| seen.insert(page.to_vec())), "write {number}");
            }
        }
    }

    #[test]
    fn stamps_are_legible_without_entropy() {
        let mut data = WriteData::new(1, 4096, 2, 7).unwrap();
        data.set_entropy(0);
        write(&mut data, 0, 0, 512);
        let written = write(&mut data, 0, 40, 4096);
        for (sector, lba) in written.chunks_exact(SECTOR_BYTES).zip(40u64..) {
            assert_eq!(sector[..8], lba.to_le_bytes());
            assert_eq!(sector[8..16], (2u64 << 48 | 2).to_le_bytes());
            assert!(sector[16..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn verifiable_data_says_what_it_is() {
        for (entropy, bytes) in [(0, 4096), (4, 512), (50, 1024), (100, 131_072)] {
            let mut data = WriteData::new(2, 131_072, 3, 99).unwrap();
            data.set_entropy(entropy);
            data.make_verifiable();
            for sequence in 1..20 {
                let written = write(&mut data, sequence as usize % 2, 1000, bytes);
                for (sector, lba) in written.chunks_exact(SECTOR_BYTES).zip(1000..) {
                    let wanted = Stamp { lba, sequence: 3 << 48 | sequence, seed: 99 };
                    assert_eq!(stamp::open(sector), Some(wanted), "{entropy} % of {bytes} bytes");
                }
            }
        }
    }

    #[test]
    fn large_data_is_drawn_only_on_change() {
        let mut data = WriteData::new(2, 131_072, 0, 7).unwrap();
        let turns = 2 * data.stride / 131_072;
        (0..turns).for_each(|number| drop(write(&mut data, number % 2, 0, 131_072)));
        let before = data.rng.clone();
        data.set_entropy(100);
        (0..50).for_each(|number| drop(write(&mut data, number % 2, 0, 131_072)));
        assert_eq!(data.rng, before, "filled once, and nothing changed");
        data.set_entropy(50);
        (0..50).for_each(|number| drop(write(&mut data, number % 2, 0, 131_072)));
        assert_ne!(data.rng, before);
    }

    #[test]
    fn large_writes_repeat_after_the_ring_only() {
        let mut data = WriteData::new(4, 131_072, 0, 7).unwrap();
        let turns = if may_lock() { RING_BYTES / 131_072 } else { 4 };
        let middles: Vec<_> = (0..=turns).map(|n| write(&mut data, n % 4, 0, 131_072)[64..128].to_vec()).collect();
        let different: HashSet<_> = middles.iter().collect();
        assert_eq!(different.len(), turns);
        assert_eq!(middles[0], middles[turns]);
    }

    /// Even in one buffer, and word by word.
    #[test]
    fn small_writes_differ_throughout() {
        for bytes in [512, 1536, RENEWED_BYTES] {
            let mut data = WriteData::new(1, bytes, 0, 7).unwrap();
            let writes: Vec<_> = (0..64).map(|number| write(&mut data, 0, number * 1024, bytes)).collect();
            let words: HashSet<&[u8]> = writes.iter().flat_map(|write| write.chunks_exact(8)).collect();
            assert_eq!(words.len(), 64 * bytes / 8);
        }
    }

    /// What the random part of each sector is made of stays random, and the rest zero.
    #[test]
    fn entropy_is_that_share_of_each_sector() {
        for entropy in [5, 33, 50, 99] {
            let mut data = WriteData::new(1, 4096, 0, 7).unwrap();
            data.set_entropy(entropy);
            for number in 0..20 {
                let written = write(&mut data, 0, number, 4096);
                for sector in written.chunks_exact(SECTOR_BYTES) {
                    let random = random_bytes(entropy);
                    assert!(sector[random..].iter().all(|&byte| byte == 0));
                    let values: HashSet<_> = sector[..random].iter().collect();
                    assert!(values.len() > random.min(256) / 2, "of {random} bytes {} differ", values.len());
                }
            }
        }
    }
}
