//! Stamps in written data. A sealed sector says where it belongs, which write it is of, of which run, and whether any
//! byte of it has changed since: 32 bytes at its start, of its LBA, the write's sequence number, the run's seed, and a
//! hash (XXH3) of all the rest.
//!
//! Random data gets a stamp that looks random: its words pass through one-to-one maps, which reading undoes. The lowest
//! bit of the hash says so.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::units::{Lba, SECTOR};

pub(super) const SECTOR_BYTES: usize = SECTOR as usize;
/// Of a sealed sector.
pub(super) const SEAL_BYTES: usize = 32;
const HASH_AT: usize = 24;
/// Writes of a thread, below the thread's number in a sequence number.
pub(super) const COUNTER_BITS: u32 = 48;
/// `mix` leaves 0 as it is, and LBA 0 is common.
const OFFSET: u64 = 0x6461_7461_2d66_696c;

/// Gives the writes of a thread their sequence numbers: thread and count, beginning with 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    thread: u64,
    writes: u64,
    seed: u64,
}

impl Origin {
    pub fn new(thread: u32, seed: u64) -> Self {
        assert!(thread < 1 << (u64::BITS - COUNTER_BITS), "thread {thread} does not fit the stamp");
        Self { thread: u64::from(thread), writes: 0, seed }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next write's sequence number.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.writes += 1;
        assert!(self.writes < 1 << COUNTER_BITS, "the stamp's counter is used up");
        self.thread << COUNTER_BITS | self.writes
    }
}

/// What a sealed sector says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub lba: u64,
    pub sequence: u64,
    pub seed: u64,
}

/// Seal each sector of a write. `random`: how many bytes of each are random.
pub(super) fn seal(data: &mut [u8], lba: Lba, sequence: u64, seed: u64, random: usize) {
    let mixed = random >= SEAL_BYTES;
    for (sector, lba) in data.chunks_exact_mut(SECTOR_BYTES).zip(lba.0..) {
        let words = if mixed {
            let (first, second) = mixed_pair(lba, sequence);
            [first, second, mix(seed ^ second)]
        } else {
            [lba, sequence, seed]
        };
        for (bytes, word) in sector.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let hash = hash_of(sector, mixed) & !1 | u64::from(mixed);
        sector[HASH_AT..SEAL_BYTES].copy_from_slice(&hash.to_le_bytes());
    }
}

/// What a sector's stamp says, if nothing in the sector has changed since it was sealed.
pub fn open(sector: &[u8]) -> Option<Stamp> {
    let hash = word(sector, 3);
    let mixed = hash & 1 == 1;
    if hash_of(sector, mixed) & !1 != hash & !1 {
        return None;
    }
    let [first, second, third] = [word(sector, 0), word(sector, 1), word(sector, 2)];
    if !mixed {
        return Some(Stamp { lba: first, sequence: second, seed: third });
    }
    let lba = unmix(first).wrapping_sub(OFFSET);
    Some(Stamp { lba, sequence: unmix(second) ^ first, seed: unmix(third) ^ second })
}

/// Of all but the hash itself, and of how the words are written.
fn hash_of(sector: &[u8], mixed: bool) -> u64 {
    xxh3_64_with_seed(&sector[SEAL_BYTES..SECTOR_BYTES], xxh3_64(&sector[..HASH_AT]) ^ u64::from(mixed))
}

fn word(sector: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(sector[number * 8..number * 8 + 8].try_into().expect("eight bytes"))
}

/// LBA and sequence number as words that look random: one-to-one, so as unique as what they are made from.
#[inline]
pub(super) fn mixed_pair(lba: u64, sequence: u64) -> (u64, u64) {
    let first = mix(lba.wrapping_add(OFFSET));
    (first, mix(sequence ^ first))
}

/// A one-to-one map of 64 bits on which every input bit acts (the output step of splitmix64; Steele, Lea and
/// Flood, OOPSLA 2014).
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The value that `mix` makes this of: its steps undone from the last to the first.
fn unmix(value: u64) -> u64 {
    let value = (value ^ value >> 31 ^ value >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let value = (value ^ value >> 27 ^ value >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    value ^ value >> 30 ^ value >> 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(random: usize) -> Vec<u8> {
        let mut data: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        seal(&mut data, Lba(77), 3 << COUNTER_BITS | 5, 1234, random);
        data
    }

    #[test]
    fn a_sealed_sector_says_what_it_is() {
        for random in [0, 31, 32, 512] {
            for (sector, lba) in sealed(random).chunks_exact(SECTOR_BYTES).zip(77..) {
                assert_eq!(open(sector), Some(Stamp { lba, sequence: 3 << COUNTER_BITS | 5, seed: 1234 }));
            }
        }
    }

    #[test]
    fn any_changed_bit_shows() {
        for random in [0, 512] {
            let data = sealed(random);
            for bit in 0..SECTOR_BYTES * 8 {
                let mut sector = data[512..1024].to_vec();
                sector[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(&sector), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn mixing_is_undone() {
        let mut value = 1u64;
        for _ in 0..10_000 {
            assert_eq!(unmix(mix(value)), value);
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        assert_eq!(unmix(mix(0)), 0);
    }
}
