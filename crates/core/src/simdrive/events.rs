//! The simulator's calendar: events by time, equal times in the order they were entered.
//!
//! The link delivers in order, and the delays behind it are constant, so that arrivals and completions are entered
//! by time already: queues are enough. A die has one event at most, in any order with the others: they stand in a
//! winner tree, whose update takes as many steps each time and no branch to guess (a binary heap's compares are
//! guessed wrongly half of the time, and cost twice as much here). While a large write streams to the dies, what
//! begins last ends last but for a few, and a sorted queue is faster still; the order is the same.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The die's operation ends.
    Die(u32),
    /// The write command's data has arrived from the host.
    Arrived(u32),
    /// The host learns that the read in this slot is done.
    ReadDone(u32),
    /// The host learns that the write in this slot is done.
    WriteDone(u32),
}

/// Time in the high 64 bits, then 32 bits of sequence number, then the kind of event and a die or a slot: one
/// comparison orders all.
type Key = u128;

/// Kind of event in a key: a die's is 0, the others' are one more than their queue's number.
const KIND_BIT: u32 = 30;

const NEVER: Key = Key::MAX;

/// Steps from the end of the sorted queue, since somebody asked for it, after which the tree takes over again.
const PATIENCE: usize = 256;

/// A time, and among equal times a place, in the calendar.
pub struct Horizon(Key);

#[derive(Debug)]
pub struct Calendar {
    /// Node i is the smaller of nodes 2 i and 2 i + 1; the leaves, from the middle on, are the dies.
    dies: Vec<Key>,
    /// The same in order of time, when it is in use; the tree is empty then.
    sorted: VecDeque<Key>,
    is_sorted: bool,
    patience: usize,
    /// Arrivals, reads done, writes done: the first of each, and those behind it.
    fronts: [Key; 3],
    queues: [VecDeque<Key>; 3],
    /// When the last of each is.
    last: [u64; 3],
    /// The event taken last.
    taken: Key,
    sequence: u32,
}

impl Calendar {
    pub fn new(dies: u32) -> Self {
        let leaves = (dies as usize).next_power_of_two().max(2);
        Self {
            dies: vec![NEVER; 2 * leaves],
            sorted: VecDeque::with_capacity(leaves),
            is_sorted: false,
            patience: 0,
            fronts: [NEVER; 3],
            queues: Default::default(),
            last: [0; 3],
            taken: 0,
            sequence: 0,
        }
    }

    #[inline]
    fn key(&mut self, at: u64, index: u32) -> Key {
        // Wrapping could only reorder equal times that are 2^32 events apart, which never wait together.
        self.sequence = self.sequence.wrapping_add(1);
        Key::from(at) << 64 | Key::from(self.sequence) << 32 | Key::from(index)
    }

    /// The die's operation ends at `at`; `None`: it has none.
    #[inline]
    pub fn set_die(&mut self, die: u32, at: Option<u64>) {
        let key = at.map_or(NEVER, |at| self.key(at, die));
        if self.is_sorted {
            self.insert(key);
        } else {
            self.set_leaf(die, key);
        }
    }

    /// The die's operation does not end when it was to.
    pub fn forget_die(&mut self, die: u32) {
        if self.is_sorted {
            self.sorted.retain(|key| *key as u32 != die);
        }
    }

    #[inline]
    fn set_leaf(&mut self, die: u32, key: Key) {
        let leaf = self.dies.len() / 2 + die as usize;
        self.dies[leaf] = key;
        let pairs = self.dies.as_chunks_mut::<2>().0;
        let mut node = leaf / 2;
        while node > 0 {
            // Through memory: carried along in registers, the compiler makes the least a branch.
            let [a, b] = pairs[node];
            pairs[node / 2][node % 2] = a.min(b);
            node /= 2;
        }
    }

    #[inline]
    fn insert(&mut self, key: Key) {
        if key == NEVER {
            return;
        }
        self.enter_key(key);
        if self.patience == 0 {
            self.is_sorted = false;
            while let Some(key) = self.sorted.pop_front() {
                self.set_leaf(key as u32, key);
            }
        }
    }

    #[inline]
    fn enter_key(&mut self, key: Key) {
        let mut place = self.sorted.len();
        self.sorted.push_back(key);
        while place > 0 && self.sorted[place - 1] > key {
            self.sorted.swap(place - 1, place);
            place -= 1;
            self.patience = self.patience.saturating_sub(1);
        }
    }

    /// Like `set_die`, after `expect_order`.
    #[inline]
    pub fn enter_sorted(&mut self, die: u32, at: Option<u64>) {
        if let Some(at) = at {
            let key = self.key(at, die);
            self.enter_key(key);
        }
    }

    /// Many events in order are to come: keep the dies' in a sorted queue for a while.
    #[inline]
    pub fn expect_order(&mut self) {
        self.patience = PATIENCE;
        if !self.is_sorted {
            self.is_sorted = true;
            let leaves = self.dies.len() / 2;
            self.sorted.extend(self.dies[leaves..].iter().filter(|key| **key != NEVER));
            self.sorted.make_contiguous().sort_unstable();
            self.dies.fill(NEVER);
        }
    }

    /// Enter an event of the link; not earlier than the last of its kind.
    #[inline]
    pub fn enter(&mut self, at: u64, event: Event) {
        let (queue, slot) = match event {
            Event::Arrived(slot) => (0, slot),
            Event::ReadDone(slot) => (1, slot),
            Event::WriteDone(slot) => (2, slot),
            Event::Die(_) => unreachable!("a die's event is set, not entered"),
        };
        assert!(self.last[queue] <= at, "arrivals and completions come in order");
        self.last[queue] = at;
        let key = self.key(at, (queue as u32 + 1) << KIND_BIT | slot);
        // The half that tells, in a register: a comparison of both waits until what was just written is in the cache.
        if (self.fronts[queue] >> 64) as u64 == u64::MAX {
            self.fronts[queue] = key;
        } else {
            self.queues[queue].push_back(key);
        }
    }

    #[inline]
    fn first_die(&self) -> Key {
        if self.is_sorted { self.sorted.front().copied().unwrap_or(NEVER) } else { self.dies[1] }
    }

    /// What a die's event must be below to be the next one but for arrivals, at `until` or before.
    #[inline]
    pub fn horizon(&self, until: u64) -> Horizon {
        let after = Key::from(until) << 64 | Key::from(u64::MAX);
        Horizon(after.min(self.fronts[1]).min(self.fronts[2]))
    }

    /// Everything happens so much later.
    pub fn postpone(&mut self, ns: u64) {
        for (last, front) in self.last.iter_mut().zip(self.fronts) {
            *last += if front == NEVER { 0 } else { ns };
        }
        let queued = self.fronts.iter_mut().chain(self.queues.iter_mut().flatten());
        let keys = self.dies.iter_mut().chain(&mut self.sorted).chain(queued);
        keys.filter(|key| **key != NEVER).for_each(|key| *key += Key::from(ns) << 64);
    }

    /// No event is at `until` or before.
    pub fn nothing_until(&self, until: u64) -> bool {
        let first = self.fronts.into_iter().fold(self.first_die(), Key::min);
        first == NEVER || (first >> 64) as u64 > until
    }

    /// The earliest event if it is a die's, this side of the horizon, and the die is one that `wanted` says.
    #[inline]
    pub fn pop_die(&mut self, horizon: &Horizon, wanted: impl FnOnce(u32) -> bool) -> Option<(u64, u32)> {
        let first = self.first_die();
        if first >= horizon.0 || !wanted(first as u32) {
            return None;
        }
        self.taken = first;
        self.pop_sorted();
        Some(((first >> 64) as u64, first as u32))
    }

    /// The earliest event and its time, if it is at `until` or before. A die's event is replaced by `set_die`. While
    /// arrivals are held, they wait for `pop_arrival`.
    #[inline(always)]
    pub fn pop_until(&mut self, until: u64, hold_arrivals: bool) -> Option<(u64, Event)> {
        let arrival = if hold_arrivals { NEVER } else { self.fronts[0] };
        let first = self.first_die().min(self.fronts[1]).min(self.fronts[2]).min(arrival);
        let at = (first >> 64) as u64;
        // Nothing happens at the end of time but what never does.
        if at > until || at == u64::MAX {
            return None;
        }
        self.taken = first;
        let (kind, index) = (first as u32 >> KIND_BIT, first as u32 & ((1 << KIND_BIT) - 1));
        if kind == 0 {
            self.pop_sorted();
            return Some((at, Event::Die(index)));
        }
        let queue = kind as usize - 1;
        self.turn(queue);
        let event = match queue {
            0 => Event::Arrived(index),
            1 => Event::ReadDone(index),
            _ => Event::WriteDone(index),
        };
        Some((at, event))
    }

    /// The slot of the earliest arrival, if it was held and comes before the event that was taken last.
    #[inline]
    pub fn pop_arrival(&mut self) -> Option<u32> {
        let first = self.fronts[0];
        if first >= self.taken {
            return None;
        }
        self.turn(0);
        Some(first as u32 & ((1 << KIND_BIT) - 1))
    }

    /// The first in the queue has been taken.
    #[inline]
    fn turn(&mut self, queue: usize) {
        self.fronts[queue] = self.queues[queue].pop_front().unwrap_or(NEVER);
    }

    /// The first of the dies' events has been taken. In the tree it stays, until the next one replaces it.
    #[inline]
    fn pop_sorted(&mut self) {
        if self.is_sorted {
            self.sorted.pop_front();
        }
    }
}
