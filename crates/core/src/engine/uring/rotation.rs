//! Which of a thread's write buffers a slot writes from.
//!
//! A queue as shallow as one I/O would otherwise write from one buffer for ever, and the same data again and again.
//! So buffers are handed out: for a small write the one that came back last, which is in the CPU's cache; for a large
//! one the one that came back first, so that they take turns. A buffer that was never used is taken only while those that
//! take turns hold less than asked for: it must be filled and locked first.

#![deny(unsafe_code)]

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub struct Rotation {
    /// Used before and free, in the order in which they came back.
    free: VecDeque<u32>,
    /// Buffers from here on were never used.
    unused: u32,
    buffers: u32,
    /// Each slot's buffer while its write is outstanding.
    of_slot: Vec<u32>,
}

impl Rotation {
    /// As many buffers as slots.
    pub fn new(slots: usize) -> Self {
        let free = VecDeque::with_capacity(slots);
        Self { free, unused: 0, buffers: slots as u32, of_slot: vec![NONE; slots] }
    }

    /// The buffer for a small write.
    #[inline]
    pub fn take_last(&mut self, slot: usize) -> usize {
        let buffer = self.free.pop_back();
        self.give(slot, buffer)
    }

    /// The buffer for a large write: of the first `turns`, or of as many as are outstanding, the one that came back
    /// first. The others are left alone, since large writes would need more memory in each.
    #[inline]
    pub fn take_first(&mut self, slot: usize, turns: usize) -> usize {
        let outstanding = self.unused - self.free.len() as u32;
        let turns = (outstanding + 1).max(turns as u32).min(self.buffers);
        let few = self.unused < turns;
        let place = if few { None } else { self.free.iter().position(|&buffer| buffer < turns) };
        let buffer = place.and_then(|place| self.free.remove(place));
        self.give(slot, buffer)
    }

    /// That buffer, or one never used.
    fn give(&mut self, slot: usize, buffer: Option<u32>) -> usize {
        assert!(self.of_slot[slot] == NONE, "slot {slot} has a buffer");
        let buffer = buffer.unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        assert!(buffer < self.buffers, "a buffer for each slot");
        self.of_slot[slot] = buffer;
        buffer as usize
    }

    /// The slot's I/O has returned; a read has none.
    #[inline]
    pub fn release(&mut self, slot: usize) {
        let buffer = std::mem::replace(&mut self.of_slot[slot], NONE);
        if buffer != NONE {
            self.free.push_back(buffer);
        }
    }

    /// Whether no outstanding write uses the buffer.
    pub fn is_free(&self, buffer: usize) -> bool {
        !self.of_slot.contains(&(buffer as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_take_turns_and_small_ones_stay() {
        let mut rotation = Rotation::new(4);
        let mut large = |slot| {
            let buffer = rotation.take_first(slot, 3);
            rotation.release(slot);
            buffer
        };
        assert_eq!((0..7).map(|_| large(2)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
        rotation.take_first(0, 4);
        rotation.take_first(1, 1);
        (0..2).for_each(|slot| rotation.release(slot));
        let two: Vec<_> = (0..5).map(|_| (rotation.take_first(0, 2), rotation.release(0)).0).collect();
        assert!(two.iter().all(|&buffer| buffer < 2) && two[0] != two[1], "no more than asked for: {two:?}");
        let last = two[4];
        for _ in 0..5 {
            assert_eq!(rotation.take_last(1), last, "the one that came back last");
            rotation.release(1);
        }
    }

    #[test]
    fn no_two_outstanding_writes_share_a_buffer() {
        let mut rotation = Rotation::new(5);
        let mut held = [None; 5];
        // Any order will do: this one comes back to each slot, at all depths from 1 to 5.
        for number in 0..1000usize {
            let slot = number * number % 7 % 5;
            if held[slot].take().is_some() {
                rotation.release(slot);
                continue;
            }
            let buffer = if number % 3 == 0 { rotation.take_last(slot) } else { rotation.take_first(slot, number % 6) };
            assert!(!held.contains(&Some(buffer)) && !rotation.is_free(buffer));
            held[slot] = Some(buffer);
        }
    }
}
