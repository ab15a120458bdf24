//! What holds at every instant, seen from the device: a device that watches its queue, and completes what it likes.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use flashgauge_core::engine::{Completion, Device, Limits, Session, monotonic};
use flashgauge_core::error::DeviceError;
use flashgauge_core::units::{Bytes, Nanos};
use flashgauge_core::workload::{Access, Request, Stop};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::support::*;

const RANGE: Bytes = Bytes(64 << 20);

/// What the device of one thread has seen, and what it may see.
#[derive(Default)]
struct Watch {
    submitted: AtomicU64,
    completed: AtomicU64,
    bytes: AtomicU64,
    waits: AtomicU64,
    /// Outstanding I/Os, whenever the engine waits.
    least: AtomicU64,
    most: AtomicU64,
    /// I/Os that the thread is to issue in all; when fewer are left, so many are outstanding. 0: no end.
    share: AtomicU64,
}

impl Watch {
    fn expect(&self, least: u64, most: u64) {
        self.least.store(least, SeqCst);
        self.most.store(most, SeqCst);
    }
}

/// Completes some of what is outstanding, in any order, never nothing.
struct Watched {
    watch: Arc<Watch>,
    outstanding: Vec<u32>,
    rng: Xoshiro256PlusPlus,
}

impl Device for Watched {
    fn now(&mut self) -> Nanos {
        monotonic()
    }

    fn submit(&mut self, slot: u32, request: &Request) -> Result<(), DeviceError> {
        assert!(!self.outstanding.contains(&slot), "slot {slot} is outstanding");
        self.outstanding.push(slot);
        self.watch.submitted.fetch_add(1, SeqCst);
        self.watch.bytes.fetch_add(request.bytes.0, SeqCst);
        assert!(self.outstanding.len() as u64 <= self.watch.most.load(SeqCst), "deeper than asked");
        Ok(())
    }

    fn wait(&mut self, _until: Nanos, done: &mut Vec<Completion>) -> Result<(), DeviceError> {
        let watch = &self.watch;
        let (submitted, completed) = (watch.submitted.load(SeqCst), watch.completed.load(SeqCst));
        assert_eq!(submitted, completed + self.outstanding.len() as u64, "submitted = completed + in flight");
        let left = watch.share.load(SeqCst).checked_sub(completed).filter(|_| watch.share.load(SeqCst) > 0);
        let least = watch.least.load(SeqCst).min(left.unwrap_or(u64::MAX));
        assert!(self.outstanding.len() as u64 >= least, "{} outstanding, {least} asked", self.outstanding.len());
        watch.waits.fetch_add(1, SeqCst);
        if self.outstanding.is_empty() {
            thread::sleep(Duration::from_micros(100));
            return Ok(());
        }
        let at = monotonic();
        for _ in 0..=self.rng.next_u64() % self.outstanding.len() as u64 {
            let chosen = self.rng.next_u64() as usize % self.outstanding.len();
            done.push(Completion { slot: self.outstanding.swap_remove(chosen), at, result: Ok(()) });
        }
        watch.completed.fetch_add(done.len() as u64, SeqCst);
        Ok(())
    }

    fn set_entropy(&mut self, _percent: u8) {}
}

fn watched(threads: u32, depth: u32) -> (Session, Vec<Arc<Watch>>) {
    let watches: Vec<Arc<Watch>> = (0..threads).map(|_| Arc::default()).collect();
    let limits = Limits { threads, queue_depth: depth, block: Bytes(MIB) };
    let own = watches.clone();
    let make = move |thread: u32| {
        let rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(thread));
        Ok(Watched { watch: Arc::clone(&own[thread as usize]), outstanding: vec![], rng })
    };
    (Session::on(RANGE, 1, limits, make).unwrap(), watches)
}

fn access() -> impl Strategy<Value = Access> {
    let mixed = (0..=100).prop_map(|percent| Access::Mixed { sequential_percent: f64::from(percent) });
    prop_oneof![Just(Access::Random), Just(Access::Sequential { restart: true }), mixed]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    /// The queue is exactly as deep as asked until there is less than that left to do.
    #[test]
    fn exact_in_queue_depth_and_ios(
        access in access(), threads in 1u32..=12, depth in 1u32..=33, ios in 1u64..3000, read in 0..=100
    ) {
        let (mut session, watches) = watched(threads, depth);
        let total = u64::from(threads);
        for (thread, watch) in (0..total).zip(&watches) {
            watch.share.store(ios / total + u64::from(thread < ios % total), SeqCst);
            watch.expect(u64::from(depth), u64::from(depth));
        }
        let result = step(&mut session, &at(stimulus(access, 4096, f64::from(read)), threads, depth), Stop::Ios { ios });
        prop_assert_eq!((result.submitted_ios, result.recorder.ios(), result.bridge_ios), (ios, ios, 0));
        for watch in &watches {
            let share = watch.share.load(SeqCst);
            prop_assert_eq!((watch.submitted.load(SeqCst), watch.completed.load(SeqCst)), (share, share));
        }
    }

    #[test]
    fn exact_in_bytes(access in access(), threads in 1u32..=5, depth in 1u32..=9, sectors in 1u64..100_000) {
        let (mut session, watches) = watched(threads, depth);
        watches.iter().for_each(|watch| watch.expect(0, u64::from(depth)));
        let bytes = sectors * 512;
        let result = step(&mut session, &at(stimulus(access, 12 * KIB, 0.0), threads, depth), Stop::Bytes { bytes });
        prop_assert_eq!(result.recorder.write.bytes, bytes);
        prop_assert_eq!(watches.iter().map(|watch| watch.bytes.load(SeqCst)).sum::<u64>(), bytes);
        prop_assert_eq!(result.written_bytes, bytes);
    }

    /// From step to step a thread that stays has never fewer outstanding than the shallower of the two asks for.
    #[test]
    fn no_change_of_step_drains_a_queue(changes in prop::collection::vec((1u32..=6, 1u32..=16, 1u64..=64), 2..8)) {
        let (mut session, watches) = watched(6, 16);
        let mut before = vec![0; 6];
        for (threads, depth, kib) in changes {
            let after: Vec<u64> = (0..6).map(|thread| if thread < threads { u64::from(depth) } else { 0 }).collect();
            for ((watch, &old), &new) in watches.iter().zip(&before).zip(&after) {
                watch.expect(old.min(new), old.max(new));
            }
            let stimulus = at(random(kib * KIB, 50.0), threads, depth);
            let result = step(&mut session, &stimulus, Stop::Time { ns: 2 * MILLISECOND });
            prop_assert!(result.submitted_ios > 0);
            // Now the old I/Os are gone, and the new ones are kept up while nothing is measured.
            for (watch, &depth) in watches.iter().zip(&after) {
                watch.expect(depth, depth);
            }
            thread::sleep(Duration::from_micros(500));
            before = after;
        }
        watches.iter().for_each(|watch| watch.expect(0, 16));
        session.close();
        let all = |of: fn(&Watch) -> &AtomicU64| watches.iter().map(|watch| of(watch).load(SeqCst)).sum::<u64>();
        prop_assert_eq!(all(|watch| &watch.submitted), all(|watch| &watch.completed), "drained at the end");
    }
}

#[test]
fn many_more_threads_than_cores_are_exact_in_queue_depth() {
    let (mut session, watches) = watched(32, 32);
    for _ in 0..3 {
        watches.iter().for_each(|watch| watch.expect(0, 32));
        step(&mut session, &at(random(4096, 100.0), 32, 32), Stop::Time { ns: 20 * MILLISECOND });
        watches.iter().for_each(|watch| watch.expect(32, 32));
        let seen: Vec<u64> = watches.iter().map(|watch| watch.waits.load(SeqCst)).collect();
        while watches.iter().zip(&seen).any(|(watch, &seen)| watch.waits.load(SeqCst) < seen + 10) {
            thread::sleep(Duration::from_millis(1));
        }
        watches.iter().for_each(|watch| watch.expect(0, 32));
        session.idle(0).unwrap();
    }
}
