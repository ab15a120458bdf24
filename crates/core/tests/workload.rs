//! The workload against independent answers: a generator written out here, chi-square, coverage sector by sector.
//! Seeds are fixed, so a statistical test that passes keeps passing.

mod support;

use std::collections::HashSet;

use flashgauge_core::error::StimulusError;
use flashgauge_core::units::{Bytes, Lba, SECTOR};
use flashgauge_core::workload::{Access, BlockShare, Operation, Request, RequestStream, Stimulus};
use proptest::prelude::*;

use crate::support::*;

const GIB: u64 = 1 << 30;

fn requests(stream: &mut RequestStream, count: usize) -> Vec<Request> {
    (0..count).map(|_| stream.next_request()).collect()
}

/// Offsets in units of `block` bytes.
fn positions(stream: &mut RequestStream, count: usize, block: u64) -> Vec<u64> {
    let offsets = requests(stream, count).into_iter().map(|request| request.lba.to_bytes().0);
    offsets.inspect(|offset| assert_eq!(offset % block, 0, "aligned to its own size")).map(|o| o / block).collect()
}

/// xoshiro256++ as its authors publish it (prng.di.unimi.it, public domain), seeded by splitmix64.
struct Reference([u64; 4]);

impl Reference {
    fn new(mut seed: u64) -> Self {
        Self([0; 4].map(|_: u64| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// 2^128 draws ahead.
    fn jump(&mut self) {
        const JUMP: [u64; 4] =
            [0x180e_c6d3_3cfd_0aba, 0xd5a6_1266_f0c9_392c, 0xa958_2618_e03f_c9aa, 0x39ab_dc45_29b1_661c];
        let mut sum = [0; 4];
        for bit in (0..256).map(|bit| JUMP[bit / 64] >> (bit % 64) & 1) {
            if bit == 1 {
                sum.iter_mut().zip(self.0).for_each(|(sum, word)| *sum ^= word);
            }
            self.next();
        }
        self.0 = sum;
    }

    /// Uniform below `bound`: the 2^64 draws are cut into `bound` parts of equal size, what is left is rejected.
    fn below(&mut self, bound: u64) -> u64 {
        loop {
            let wide = u128::from(self.next()) * u128::from(bound);
            if wide % (1 << 64) >= (1 << 64) % u128::from(bound) {
                return (wide >> 64) as u64;
            }
        }
    }
}

/// Promise 10: the same seed gives the same offsets on any machine, and in any version of this program.
#[test]
fn offsets_are_those_of_the_published_generator() {
    // Nearly 2^55 sectors: about one draw in 700 must be rejected to stay uniform.
    for (capacity, block) in [(8 * GIB, 4096), (200_049_647_616, 4096), (u64::MAX / SECTOR * SECTOR / 7 * 6, 512)] {
        for (seed, thread) in [(0, 0), (1, 0), (1, 1), (0xdead_beef_0000_0001, 3)] {
            let mut reference = Reference::new(seed);
            (0..thread).for_each(|_| reference.jump());
            let bound = capacity / SECTOR / (block / SECTOR);
            let ours = positions(&mut stream(seed, thread, &random(block, 0.0), capacity), 20_000, block);
            for (index, position) in ours.into_iter().enumerate() {
                assert_eq!(position, reference.below(bound), "seed {seed}, thread {thread}, draw {index}");
            }
        }
    }
}

// clause: 6.rng
#[test]
fn random_offsets_are_uniform() {
    // Numbers of positions: small, prime, a power of two, one less and one more, a real drive's.
    for count in [2, 3, 97, 1000, 1023, 1024, 1025, 65_537, 1_000_003, 200_049_647_616 / 4096] {
        for seed in [1, 2] {
            let draws = 400_000;
            let buckets = count.min(1000);
            let mut observed = vec![0; buckets as usize];
            for position in positions(&mut stream(seed, 0, &random(4096, 0.0), count * 4096), draws, 4096) {
                assert!(position < count);
                observed[(position * buckets / count) as usize] += 1;
            }
            // Buckets differ in size by one position where they do not divide the range.
            let first = |bucket: u64| (bucket * count).div_ceil(buckets);
            let share = |bucket| (first(bucket + 1) - first(bucket)) as f64 / count as f64;
            let expected: Vec<f64> = (0..buckets).map(|bucket| draws as f64 * share(bucket)).collect();
            assert_chi_square(&observed, &expected, &format!("{count} positions, seed {seed}"));
        }
    }
}

/// Section 6 asks for at least 48 bits; a 32-bit draw would leave the low bits of large offsets constant.
#[test]
fn offsets_beyond_32_bits_are_uniform() {
    for count in [5u64 << 38, (1 << 42) + 12_345, 3_000_000_000_017] {
        let draws = 200_000;
        let offsets = positions(&mut stream(7, 0, &random(4096, 0.0), count * 4096), draws, 4096);
        let histogram = |bucket_of: &dyn Fn(u64) -> u64, buckets: usize| {
            let mut observed = vec![0; buckets];
            offsets.iter().for_each(|&offset| observed[bucket_of(offset) as usize] += 1);
            observed
        };
        let even = |buckets: usize| vec![draws as f64 / buckets as f64; buckets];
        let top = histogram(&|offset| (u128::from(offset) * 256 / u128::from(count)) as u64, 256);
        assert_chi_square(&top, &even(256), &format!("top of {count}"));
        assert_chi_square(&histogram(&|offset| offset % 128, 128), &even(128), &format!("low bits of {count}"));
        assert_chi_square(&histogram(&|offset| offset % 61, 61), &even(61), &format!("{count}, modulo 61"));
        assert_eq!(HashSet::<_>::from_iter(&offsets).len(), draws, "hardly any of so many positions comes twice");
    }
}

// clause: 6.1
#[test]
fn read_share_is_exact_at_the_ends_and_statistical_between() {
    let draws = 400_000;
    for access in [Access::Random, Access::Sequential { restart: false }] {
        for percent in [0.0, 5.0, 35.0, 50.0, 65.0, 95.0, 99.9, 100.0] {
            let mut stream = stream(3, 0, &stimulus(access.clone(), 4096, percent), GIB);
            let reads = requests(&mut stream, draws).iter().filter(|r| r.operation == Operation::Read).count();
            // Standard deviation 0 at the ends: not one may be of the other kind.
            assert_share(reads as u64, draws as u64, percent / 100.0, &format!("{percent} % reads"));
        }
    }
}

/// Reads and writes in the mix are drawn per I/O, independently: runs of reads have geometric lengths.
#[test]
fn operations_are_drawn_independently() {
    let draws = 400_000;
    let drawn = requests(&mut stream(4, 0, &random(4096, 65.0), GIB), draws);
    let pairs = drawn.windows(2).filter(|pair| pair.iter().all(|r| r.operation == Operation::Read)).count();
    // Neighbouring pairs overlap: their variance is that of a binomial times less than 1 + 2 p.
    let (p, n) = (0.65f64 * 0.65, draws as f64);
    let sigma = (n * p * (1.0 - p) * 2.3).sqrt();
    assert!((pairs as f64 - n * p).abs() < 5.0 * sigma, "{pairs} pairs of reads");
}

#[test]
fn block_sizes_come_in_their_weights() {
    // The workload of table 13-2's kind: many sizes, unequal weights, one that never comes.
    let sizes = [(512, 4), (1024, 1), (4096, 67), (8192, 10), (16384, 7), (32768, 3), (65536, 8), (1048576, 0)];
    let total: u32 = sizes.iter().map(|size| size.1).sum();
    for mut stimulus in [random(512, 40.0), sequential(512, 40.0)] {
        stimulus.block_sizes = sizes.map(|(bytes, weight)| BlockShare { bytes, weight }).into();
        let draws = 300_000;
        let drawn = requests(&mut stream(5, 0, &stimulus, 200_049_647_616), draws);
        for (bytes, weight) in sizes {
            let count = drawn.iter().filter(|request| request.bytes == Bytes(bytes)).count();
            assert_share(count as u64, draws as u64, f64::from(weight) / f64::from(total), &format!("{bytes} bytes"));
        }
        for request in drawn.iter().filter(|_| stimulus.access == Access::Random) {
            assert_eq!(request.lba.to_bytes().0 % request.bytes.0, 0, "each size is aligned to itself");
        }
    }
}

/// Section 6 item 7: the sequential share goes on where the sequence was, the rest is uniform; both at random turns.
// clause: 6.7
#[test]
fn sequential_and_random_accesses_mix_in_their_shares() {
    let count = 100_003;
    for percent in [0.0, 10.0, 50.0, 90.0, 100.0] {
        let access = Access::Mixed { sequential_percent: percent };
        let draws = 200_000;
        let offsets = positions(&mut stream(8, 0, &stimulus(access, 4096, 30.0), count * 4096), draws, 4096);
        let mut next = 0;
        let mut sequential = 0u64;
        let mut elsewhere = vec![];
        for &offset in &offsets {
            if offset == next {
                sequential += 1;
                next = (next + 1) % count;
            } else {
                elsewhere.push(offset);
            }
        }
        // A random offset meets the next one in sequence once in `count` times.
        assert_share(sequential, draws as u64, percent / 100.0 + (1.0 - percent / 100.0) / count as f64, "sequential");
        if elsewhere.len() > 10_000 {
            let mut observed = [0; 100];
            elsewhere.iter().for_each(|&offset| observed[(offset * 100 / count) as usize] += 1);
            assert_chi_square(&observed, &[elsewhere.len() as f64 / 100.0; 100], "random part");
        }
    }
    let wrong = stimulus(Access::Mixed { sequential_percent: 101.0 }, 4096, 0.0);
    assert!(matches!(wrong.validate(), Err(StimulusError::Percent("sequential_percent"))));
}

/// Table 13-2: 50 % of the accesses in the first 5 %, 30 % in the next 15 %, 20 % in the rest; within ActiveRange.
// clause: 6.5
#[test]
fn lba_groups_have_their_shares_and_bounds() {
    let groups = vec![group(0.0, 5.0, 50.0), group(5.0, 20.0, 30.0), group(20.0, 100.0, 20.0)];
    for (capacity, start, end) in [(GIB, 0.0, 100.0), (GIB, 0.0, 75.0), (200_049_647_616, 25.0, 75.0)] {
        let stimulus = within(stimulus(Access::Groups { groups: groups.clone() }, 4096, 40.0), start, end);
        let (low, high) = (capacity as f64 * start / 100.0, capacity as f64 * end / 100.0);
        let draws = 300_000;
        let offsets = positions(&mut stream(6, 0, &stimulus, capacity), draws, 4096);
        let relative = offsets.iter().map(|&offset| ((offset * 4096) as f64 - low) / (high - low));
        let relative: Vec<f64> = relative.inspect(|at| assert!((0.0..1.0).contains(at), "{at}")).collect();
        for (from, to, share) in [(0.0, 0.05, 0.5), (0.05, 0.2, 0.3), (0.2, 1.0, 0.2)] {
            let inside: Vec<f64> = relative.iter().copied().filter(|at| (from..to).contains(at)).collect();
            assert_share(inside.len() as u64, draws as u64, share, &format!("group from {from}"));
            let mut observed = [0; 50];
            inside.iter().for_each(|at| observed[((at - from) / (to - from) * 50.0) as usize] += 1);
            // The ends are rounded to 4 KiB, which changes no bucket of these groups by more than 0.1 %.
            assert_chi_square(&observed, &[inside.len() as f64 / 50.0; 50], &format!("within the group from {from}"));
        }
    }
}

/// A group that gets no accesses gets none, wherever it stands.
#[test]
fn groups_of_probability_zero_and_one_are_exact() {
    for chosen in 0..3 {
        let share = |index| if index == chosen { 100.0 } else { 0.0 };
        let groups = vec![group(0.0, 10.0, share(0)), group(10.0, 50.0, share(1)), group(50.0, 100.0, share(2))];
        let mut stream = stream(1, 0, &stimulus(Access::Groups { groups }, 4096, 0.0), 4096 * 1000);
        let bounds = [0..100, 100..500, 500..1000][chosen].clone();
        assert!(positions(&mut stream, 100_000, 4096).iter().all(|position| bounds.contains(position)));
    }
}

// clause: 6.3
#[test]
fn active_range_bounds_are_reached_and_not_crossed() {
    for (start, end) in [(0.0, 100.0), (0.0, 75.0), (25.0, 100.0), (10.0, 11.0), (33.3, 66.6)] {
        let count = 4000u64;
        let first = (count as f64 * start / 100.0).ceil() as u64;
        let last = (count as f64 * end / 100.0).floor() as u64 - 1;
        let mut seen = vec![false; count as usize];
        let stimulus = within(random(4096, 0.0), start, end);
        for position in positions(&mut stream(8, 0, &stimulus, count * 4096), 200_000, 4096) {
            seen[position as usize] = true;
        }
        for (position, seen) in seen.into_iter().enumerate() {
            let inside = (first..=last).contains(&(position as u64));
            assert_eq!(seen, inside, "position {position} of range {start} to {end} percent");
        }
    }
}

#[test]
fn alignment_is_what_was_asked() {
    // 12 sectors of I/O at any 4 KiB, at any sector, at 64 KiB; the last place ends at or before the range's end.
    for (alignment, block) in [(Some(4096), 6144), (Some(512), 6144), (Some(65536), 4096), (None, 6144)] {
        let mut stimulus = random(block, 50.0);
        stimulus.alignment_bytes = alignment;
        let (step, capacity) = (alignment.unwrap_or(block), MIB);
        let places = (capacity - block) / step + 1;
        let offsets = requests(&mut stream(9, 0, &stimulus, capacity), 100 * places as usize);
        let places_seen: HashSet<u64> = offsets.iter().map(|request| request.lba.to_bytes().0).collect();
        assert!(places_seen.iter().all(|offset| offset % step == 0 && offset + block <= capacity));
        assert_eq!(places_seen.len() as u64, places, "every place comes, {alignment:?}");
    }
}

#[test]
fn streams_depend_on_seed_and_thread_only() {
    let stimulus = random(4096, 65.0);
    let first = |seed, thread| requests(&mut stream(seed, thread, &stimulus, 64 * GIB), 10_000);
    assert_eq!(first(1, 2), first(1, 2));
    assert_ne!(first(1, 0), first(2, 0));
    let streams: Vec<_> = (0..8).map(|thread| first(1, thread)).collect();
    for (a, b) in (0..8).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let same = streams[a].iter().zip(&streams[b]).filter(|(x, y)| x.lba == y.lba).count();
        assert!(same < 10, "threads {a} and {b} agree {same} times");
    }
}

/// Threads far apart on one sequence of draws: none soon repeats what another did, not even shifted.
#[test]
fn threads_do_not_overlap() {
    let stimulus = random(4096, 0.0);
    let of = |thread, count| positions(&mut stream(1, thread, &stimulus, 1 << 62), count, 4096);
    let seen = HashSet::<u64>::from_iter(of(0, 500_000));
    for thread in 1..8 {
        assert!(of(thread, 2000).iter().all(|position| !seen.contains(position)), "thread {thread}");
    }
}

/// Promise 3, and 8.2: a random stream goes on where it was, whatever was asked in between.
#[test]
fn random_offsets_never_restart() {
    let stimulus = random(4096, 0.0);
    let whole = requests(&mut stream(1, 0, &stimulus, 64 * GIB), 3000);
    let mut cut = RequestStream::new(1, 0);
    let mut pieces = vec![];
    for _ in 0..30 {
        cut.set(&stimulus, Bytes(64 * GIB)).unwrap();
        pieces.extend(requests(&mut cut, 100));
    }
    assert_eq!(pieces, whole);
    assert_eq!(HashSet::<_>::from_iter(whole.iter().map(|r| r.lba.0)).len(), 3000, "2^24 places: none twice so soon");
}

// clause: 8.2.2.4.1.5
#[test]
fn sequential_position_survives_random_steps() {
    let capacity = MIB;
    let mut stream = RequestStream::new(1, 0);
    let mut expected = 0;
    for round in 0..10 {
        stream.set(&sequential(4096, 0.0), Bytes(capacity)).unwrap();
        for request in requests(&mut stream, 57) {
            assert_eq!(request.lba, Lba(expected), "round {round}");
            expected = (expected + 8) % (capacity / SECTOR);
        }
        stream.set(&random(8192, 50.0), Bytes(capacity)).unwrap();
        requests(&mut stream, 13);
    }
    let from_start = stimulus(Access::Sequential { restart: true }, 4096, 0.0);
    stream.set(&from_start, Bytes(capacity)).unwrap();
    assert_eq!(stream.next_request().lba, Lba(0), "unless the step says otherwise");
}

#[test]
fn a_position_outside_the_new_region_begins_at_its_start() {
    let mut stream = stream(1, 0, &sequential(4096, 0.0), MIB);
    requests(&mut stream, 200);
    stream.set(&within(sequential(4096, 0.0), 0.0, 50.0), Bytes(MIB)).unwrap();
    assert_eq!(stream.next_request().lba, Lba(0), "200 is past the half of 256 blocks");
    stream.set(&within(sequential(4096, 0.0), 25.0, 75.0), Bytes(MIB)).unwrap();
    assert_eq!(stream.next_request().lba, Lba(512), "1 is before the first quarter's end");
}

/// One pass of every thread, from its present position round to it.
fn pass(stimulus: &Stimulus, capacity: u64, skip: usize) -> Vec<Vec<Request>> {
    let one = |thread| {
        let mut stream = stream(1, thread, stimulus, capacity);
        requests(&mut stream, skip);
        let mut taken = vec![stream.next_request()];
        loop {
            let request = stream.next_request();
            if request.lba == taken[0].lba {
                return taken;
            }
            taken.push(request);
        }
    };
    (0..stimulus.thread_count).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// 8.2: together the threads cover every sector of the range once per pass, also of a range that is no
    /// multiple of the block; only the last I/O of a region is short.
    #[test]
    fn sequential_threads_cover_every_sector_once(
        block in 1u64..=64, threads in 1u32..=8, blocks in 0u64..40, rest in 0u64..64, skip in 0usize..100,
    ) {
        let sectors = block * (u64::from(threads) + blocks) + rest;
        let stimulus = at(sequential(block * SECTOR, 0.0), threads, 1);
        let mut covered = vec![0; sectors as usize];
        let mut lengths = vec![];
        for taken in pass(&stimulus, sectors * SECTOR, skip) {
            let full = taken.iter().filter(|request| request.bytes.0 == block * SECTOR).count();
            prop_assert!(full + 1 >= taken.len(), "at most one short I/O in a pass");
            for request in &taken {
                let first = request.lba.0 as usize;
                covered[first..first + (request.bytes.0 / SECTOR) as usize].iter_mut().for_each(|n| *n += 1);
            }
            lengths.push(taken.iter().map(|request| request.bytes.0 / SECTOR).sum::<u64>());
        }
        prop_assert!(covered.iter().all(|&times| times == 1), "{:?}", covered);
        let fair = sectors / u64::from(threads);
        prop_assert!(lengths[1..].iter().all(|length| length + block > fair), "{:?} of {}", lengths, sectors);
    }

    /// The same within an ActiveRange: one stretch, of the right size but for rounding to 4 KiB inwards.
    #[test]
    fn sequential_stays_in_the_active_range(
        sectors in 4000u64..20_000, start in 0.0f64..60.0, length in 20.0f64..40.0, threads in 1u32..=4,
    ) {
        let stimulus = at(within(sequential(4096, 0.0), start, start + length), threads, 1);
        let mut covered: Vec<u64> = pass(&stimulus, sectors * SECTOR, 0).into_iter().flatten()
            .flat_map(|request| request.lba.0..request.lba.0 + request.bytes.0 / SECTOR).collect();
        covered.sort_unstable();
        let (first, last) = (covered[0], covered[covered.len() - 1]);
        prop_assert!(covered.iter().copied().eq(first..=last));
        let (low, high) = (sectors as f64 * start / 100.0, sectors as f64 * (start + length) / 100.0);
        prop_assert!((low - 0.5..low + 8.5).contains(&(first as f64)), "{} of {}", first, low);
        prop_assert!((high - 8.5..high + 0.5).contains(&((last + 1) as f64)), "{} of {}", last, high);
        prop_assert_eq!(first % 8, 0);
    }

    /// Setting the same stimulus again is not noticed, at any point of any stream.
    #[test]
    fn setting_the_same_stimulus_again_changes_nothing(
        kind in 0..4, seed: u64, thread in 0u32..4, reads in 0.0f64..=100.0, cut in 0usize..500, weights in any::<[u8; 3]>(),
    ) {
        let access = match kind {
            0 => Access::Random,
            1 => Access::Sequential { restart: false },
            2 => Access::Mixed { sequential_percent: 37.0 },
            _ => Access::Groups { groups: vec![group(0.0, 30.0, 80.0), group(30.0, 100.0, 20.0)] },
        };
        let mut stimulus = at(stimulus(access, 4096, reads), 4, 1);
        let sizes = [512, 4096, 65536].into_iter().zip(weights);
        stimulus.block_sizes.extend(sizes.map(|(bytes, weight)| BlockShare { bytes, weight: weight.into() }));
        let capacity = 3 * MIB + 512;
        let whole = requests(&mut stream(seed, thread, &stimulus, capacity), 500);
        let mut again = stream(seed, thread, &stimulus, capacity);
        let mut pieces = requests(&mut again, cut);
        again.set(&stimulus, Bytes(capacity)).unwrap();
        pieces.extend(requests(&mut again, 500 - cut));
        prop_assert_eq!(pieces, whole);
    }

    /// An exact number of bytes divided among threads: nothing is lost, and at random access all get the same.
    #[test]
    fn shares_of_random_bytes_are_even(bytes in 0u64..1 << 50, threads in 1u64..=64) {
        let stream = stream(1, 0, &random(4096, 0.0), GIB);
        let share = stream.share_of(bytes, threads);
        prop_assert!(share * threads <= bytes && share.is_multiple_of(4096));
        prop_assert!(bytes - share * threads < 4096 * threads + threads, "the last one's extra is small");
    }

    /// As many bytes as whole passes over the range: each thread gets whole passes over its region.
    #[test]
    fn whole_passes_are_whole_for_every_thread(
        block_units in 1u64..=32, threads in 1u32..=8, blocks in 0u64..60, rest in 0u64..64, passes in 1u64..=3,
    ) {
        check_whole_passes(block_units * 8, threads, blocks, rest, passes)?;
    }

    /// The same for blocks that are no multiple of 4 KiB, whose regions may begin at any sector.
    #[test]
    fn whole_passes_of_small_blocks_are_whole_for_every_thread(
        block in 1u64..=32, threads in 1u32..=8, blocks in 0u64..60, rest in 0u64..64, passes in 1u64..=3,
    ) {
        check_whole_passes(block, threads, blocks, rest, passes)?;
    }
}

fn check_whole_passes(block: u64, threads: u32, blocks: u64, rest: u64, passes: u64) -> Result<(), TestCaseError> {
    let capacity = (block * (u64::from(threads) + blocks) + rest) * SECTOR;
    let stimulus = at(sequential(block * SECTOR, 0.0), threads, 1);
    let regions = pass(&stimulus, capacity, 0);
    for (thread, taken) in regions.iter().enumerate().take(threads as usize - 1) {
        let region: u64 = taken.iter().map(|request| request.bytes.0).sum();
        let share = stream(1, thread as u32, &stimulus, capacity).share_of(passes * capacity, threads.into());
        prop_assert_eq!(share, passes * region, "thread {} of {}", thread, threads);
    }
    Ok(())
}

#[test]
fn every_wrong_stimulus_says_what_is_wrong() {
    type Change = fn(&mut Stimulus);
    let groups = |groups| Access::Groups { groups };
    let bad_ends = StimulusError::Percent("each LBA group's start, end and probability");
    let cases: Vec<(Change, StimulusError)> = vec![
        (|s| s.read_percent = -0.1, StimulusError::Percent("read_percent")),
        (|s| s.read_percent = 100.1, StimulusError::Percent("read_percent")),
        (|s| s.read_percent = f64::NAN, StimulusError::Percent("read_percent")),
        (|s| s.entropy_percent = 101, StimulusError::Percent("entropy_percent")),
        (|s| s.active_range.start_percent = -1.0, StimulusError::Percent("active_range.start_percent")),
        (|s| s.active_range.end_percent = 101.0, StimulusError::Percent("active_range.end_percent")),
        (|s| s.thread_count = 0, StimulusError::Zero("thread_count")),
        (|s| s.queue_depth = 0, StimulusError::Zero("queue_depth")),
        (|s| s.block_sizes.clear(), StimulusError::Zero("the sum of the block sizes' weights")),
        (|s| s.block_sizes[0].weight = 0, StimulusError::Zero("the sum of the block sizes' weights")),
        (|s| s.block_sizes[0].bytes = 0, StimulusError::BlockSize(0)),
        (|s| s.block_sizes[0].bytes = 4095, StimulusError::BlockSize(4095)),
        (|s| s.alignment_bytes = Some(0), StimulusError::Alignment(0)),
        (|s| s.alignment_bytes = Some(1000), StimulusError::Alignment(1000)),
    ];
    for (change, error) in cases {
        let mut stimulus = random(4096, 50.0);
        change(&mut stimulus);
        assert_eq!(stimulus.validate(), Err(error));
        assert!(RequestStream::new(1, 0).set(&stimulus, Bytes(GIB)).is_err(), "also where it is used");
    }
    for bad in [group(-1.0, 50.0, 100.0), group(0.0, 101.0, 100.0), group(0.0, 50.0, -1.0), group(50.0, 50.0, 100.0)] {
        assert_eq!(stimulus(groups(vec![bad]), 4096, 0.0).validate().unwrap_err(), bad_ends);
    }
    for (sum, parts) in [(0.0, vec![]), (90.0, vec![group(0.0, 5.0, 40.0), group(5.0, 10.0, 50.0)])] {
        let error = stimulus(groups(parts), 4096, 0.0).validate().unwrap_err();
        assert_eq!(error, StimulusError::GroupProbability(sum));
    }
    assert_eq!(stimulus(groups(vec![group(0.0, 100.0, 100.0)]), 4096, 0.0).validate(), Ok(()));
}

#[test]
fn a_range_too_small_for_a_block_is_refused() {
    let refused = |stimulus: &Stimulus, capacity: u64| {
        let result = RequestStream::new(1, 0).set(stimulus, Bytes(capacity));
        assert!(matches!(result, Err(StimulusError::RangeTooSmall { .. })), "{result:?}");
    };
    refused(&random(8192, 0.0), 8191);
    refused(&random(4096, 0.0), 0);
    refused(&sequential(8192, 0.0), 4096);
    refused(&at(sequential(4096, 0.0), 4, 1), 3 * 4096);
    refused(&within(random(4096, 0.0), 50.0, 50.0), GIB);
    refused(&within(random(4096, 0.0), 60.0, 40.0), GIB);
    refused(&within(sequential(4096, 0.0), 60.0, 40.0), GIB);
    // Aligned to itself, the block has no place in a range that begins past 0 and is hardly longer.
    refused(&within(random(MIB, 0.0), 10.0, 90.0), 2 * MIB);
    let thin = Access::Groups { groups: vec![group(0.0, 0.1, 50.0), group(0.1, 100.0, 50.0)] };
    refused(&stimulus(thin, MIB, 0.0), 100 * MIB);
    assert_eq!(positions(&mut stream(1, 0, &random(8192, 0.0), 8192), 10, 8192), [0; 10], "one place is enough");
}

#[test]
fn stimulus_from_json_is_strict() {
    let good = r#"{"access": {"kind": "random"}, "block_sizes": [{"bytes": 4096, "weight": 1}], "read_percent": 65,
        "active_range": {"start_percent": 0, "end_percent": 100}, "thread_count": 4, "queue_depth": 32}"#;
    assert_eq!(Stimulus::from_json(good), Ok(at(random(4096, 65.0), 4, 32)), "entropy is full, alignment is natural");
    for bad in [
        good.replace("queue_depth", "queue_deepness"),
        good.replace("\"random\"", "\"randomly\""),
        good.replace("4,", "-4,"),
        good.replace("32}", "32, \"extra\": 1}"),
        good.replace(", \"weight\": 1", ""),
        String::new(),
    ] {
        assert_ne!(bad, good);
        assert!(matches!(Stimulus::from_json(&bad), Err(StimulusError::Format(_))), "{bad}");
    }
}
