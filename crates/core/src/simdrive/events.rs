//! The simulator's calendar: events by time, equal times in the order they were entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The die's operation ends.
    Die(u32),
    /// The write command's data has arrived from the host.
    Arrived(u32),
    /// The host learns that the command in this slot is done.
    Complete(u32),
}

const KIND_SHIFT: u32 = 30;

impl Event {
    fn pack(self) -> u32 {
        let (kind, index) = match self {
            Self::Die(die) => (0, die),
            Self::Arrived(slot) => (1, slot),
            Self::Complete(slot) => (2, slot),
        };
        assert!(index < 1 << KIND_SHIFT, "slots and dies are numbered with 30 bits");
        kind << KIND_SHIFT | index
    }

    fn unpack(word: u32) -> Self {
        let index = word & ((1 << KIND_SHIFT) - 1);
        match word >> KIND_SHIFT {
            0 => Self::Die(index),
            1 => Self::Arrived(index),
            _ => Self::Complete(index),
        }
    }
}

/// Time in the high 64 bits, then 32 bits of sequence number, then the event: one comparison orders all three.
#[derive(Debug, Default)]
pub struct Calendar {
    heap: BinaryHeap<Reverse<u128>>,
    sequence: u32,
}

impl Calendar {
    #[inline]
    pub fn enter(&mut self, at: u64, event: Event) {
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(self.sequence) << 32 | u128::from(event.pack())));
        // Wrapping could only reorder equal times that are 2^32 events apart, which are never in the heap together.
        self.sequence = self.sequence.wrapping_add(1);
    }

    #[inline]
    pub fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(key)| (key >> 64) as u64)
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse(key)| ((key >> 64) as u64, Event::unpack(key as u32)))
    }
}
