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

/// Time in the high 64 bits, then 32 bits of sequence number, then a die or a slot: one comparison orders all three.
type Key = u128;

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
    /// Arrivals, reads done, writes done.
    queues: [VecDeque<Key>; 3],
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
            queues: Default::default(),
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

    #[inline]
    fn set_leaf(&mut self, die: u32, key: Key) {
        let mut node = self.dies.len() / 2 + die as usize;
        self.dies[node] = key;
        while node > 1 {
            node /= 2;
            self.dies[node] = self.dies[2 * node].min(self.dies[2 * node + 1]);
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
        let (queue, index) = match event {
            Event::Arrived(slot) => (0, slot),
            Event::ReadDone(slot) => (1, slot),
            Event::WriteDone(slot) => (2, slot),
            Event::Die(_) => unreachable!("a die's event is set, not entered"),
        };
        let key = self.key(at, index);
        let queue = &mut self.queues[queue];
        assert!(queue.back().is_none_or(|last| last >> 64 <= key >> 64), "arrivals and completions come in order");
        queue.push_back(key);
    }

    #[inline]
    fn first_die(&self) -> Key {
        if self.is_sorted { self.sorted.front().copied().unwrap_or(NEVER) } else { self.dies[1] }
    }

    /// What a die's event must be below to be the next one, at `until` or before.
    #[inline]
    pub fn horizon(&self, until: u64) -> Horizon {
        let after = Key::from(until) << 64 | Key::from(u64::MAX);
        Horizon(self.queues.iter().filter_map(|queue| queue.front().copied()).fold(after, Key::min))
    }

    /// No event is at `until` or before.
    pub fn nothing_until(&self, until: u64) -> bool {
        let first = self.queues.iter().filter_map(|queue| queue.front().copied()).fold(self.first_die(), Key::min);
        first == NEVER || (first >> 64) as u64 > until
    }

    /// The earliest event if it is a die's, this side of the horizon, and the die is one that `wanted` says.
    #[inline]
    pub fn pop_die(&mut self, horizon: &Horizon, wanted: impl FnOnce(u32) -> bool) -> Option<(u64, u32)> {
        let first = self.first_die();
        if first >= horizon.0 || !wanted(first as u32) {
            return None;
        }
        self.sorted.pop_front();
        Some(((first >> 64) as u64, first as u32))
    }

    /// The earliest event and its time, if it is at `until` or before. A die's event is replaced by `set_die`.
    #[inline(always)]
    pub fn pop_until(&mut self, until: u64) -> Option<(u64, Event)> {
        let die = self.first_die();
        let [arrived, read, write] = [0, 1, 2].map(|queue| self.queues[queue].front().copied().unwrap_or(NEVER));
        let first = die.min(arrived).min(read).min(write);
        let at = (first >> 64) as u64;
        if first == NEVER || at > until {
            return None;
        }
        let index = first as u32;
        let event = if first == die {
            self.sorted.pop_front();
            Event::Die(index)
        } else if first == read {
            self.queues[1].pop_front();
            Event::ReadDone(index)
        } else if first == arrived {
            self.queues[0].pop_front();
            Event::Arrived(index)
        } else {
            self.queues[2].pop_front();
            Event::WriteDone(index)
        };
        Some((at, event))
    }
}
