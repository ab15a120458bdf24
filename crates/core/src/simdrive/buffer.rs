//! The write buffer: from the link into it, from it page by page to the dies, and who waits for what.

use super::drive::{OVERWRITE_AHEAD, SimDrive};
use super::events::Event;
use super::flash::Job;
use super::slc::CellMode;

impl SimDrive {
    /// Take data of waiting writes into the buffer, in order, while there is room.
    pub(super) fn fill_buffer(&mut self) {
        if self.waits_for_flash() {
            // Whether more is on its way must be known.
            while let Some(slot) = self.calendar.pop_arrival() {
                self.arrived(slot);
            }
        } else if self.buffer_free <= 0 {
            return;
        }
        // While the buffer was full, arrivals only queued up: each comes when there is room for it.
        while let Some(slot) = self.next_waiting() {
            while self.commands[slot as usize].left > 0 {
                if self.buffer_free <= 0 {
                    self.buffer_waiting.push_front(slot);
                    return;
                }
                self.buffer_units(slot);
            }
            self.write_accepted(slot);
            if self.buffer_free <= 0 && !self.waits_for_flash() {
                return;
            }
        }
        if self.waits_for_flash() && self.writes_on_link == 0 {
            // Nothing is on its way that could fill the open page, and somebody waits for it.
            self.flush_open_page();
        }
    }

    /// The write that goes into the buffer next.
    #[inline]
    fn next_waiting(&mut self) -> Option<u32> {
        self.buffer_waiting.pop_front().or_else(|| {
            let arrived = self.calendar.pop_arrival();
            self.writes_on_link -= u32::from(arrived.is_some());
            arrived
        })
    }

    #[inline]
    pub(super) fn arrived(&mut self, slot: u32) {
        self.writes_on_link -= 1;
        self.buffer_waiting.push_back(slot);
    }

    /// The write's next units, as many as go into the buffer and the open page together.
    fn buffer_units(&mut self, slot: u32) {
        let waits = self.waits_for_flash();
        let command = &mut self.commands[slot as usize];
        if command.units == 1 && !command.partial_first && !waits && !self.extras.watches {
            // As below, where all that is about more units, or waiting, comes to nothing.
            let unit = command.first_unit;
            command.left = 0;
            self.buffer_free -= 1;
            return self.write_units(unit, 1);
        }
        let index = command.units - command.left as u32;
        let unit = command.first_unit + u64::from(index);
        let partial = (index == 0 && command.partial_first) || (command.left == 1 && command.partial_last);
        let whole = command.left - u64::from(command.partial_last);
        let count =
            if partial { 1 } else { whole.min(self.buffer_free as u64) as u32 }.min(self.ftl.room_in_page(unit));
        #[cfg(test)]
        let count = if self.plainly { 1 } else { count };
        command.left -= u64::from(count);
        self.buffer_free -= i64::from(count);
        if u64::from(command.units) > OVERWRITE_AHEAD {
            self.ftl.expect_overwrite(unit + OVERWRITE_AHEAD..unit + OVERWRITE_AHEAD + u64::from(count));
        }
        let waiters = &mut self.open_page_waiters[self.ftl.pool()];
        if waits && waiters.last() != Some(&slot) {
            command.pending += 1;
            waiters.push(slot);
        }
        if partial {
            self.modify(unit);
        }
        if self.extras.watches {
            self.watch_write(slot, unit, count, partial);
        }
        self.write_units(unit, count);
    }

    #[inline(always)]
    fn write_units(&mut self, unit: u64, count: u32) {
        self.ftl.write(unit, count, &mut self.work);
        if !self.work.is_empty() {
            self.start_work();
        }
    }

    /// The unit will be written in part: what it holds must be read, unless it is still in the buffer.
    #[inline(never)]
    fn modify(&mut self, unit: u64) {
        self.ftl.settle();
        if let Some((page, _, mode)) = self.ftl.place_of(unit)
            && !self.ftl.open_pages().contains(&page)
        {
            let die = self.flash.die_of(page);
            let done = self.flash.modify(die, mode, self.now);
            self.enter_die(die, done);
        }
    }

    /// All of the write's data is in the buffer.
    fn write_accepted(&mut self, slot: u32) {
        self.ftl.settle();
        self.large_writes -= u32::from(self.is_large(self.commands[slot as usize].units));
        self.flash.control(self.write_link.controller_ns, self.now);
        self.unmapped_writes += 1;
        if self.unmapped_writes == u64::from(self.parameters.write_commands_per_map_page) {
            self.unmapped_writes = 0;
            let die = self.map_die;
            self.map_die = (die + 1) % self.parameters.dies;
            let done = self.flash.program(die, Job::InnerProgram, CellMode::Native, false, self.now);
            self.enter_die(die, done);
        }
        if !self.waits_for_flash() {
            let at = self.now + self.write_link.delay_ns;
            self.calendar.enter(at, Event::WriteDone(slot));
        }
    }

    pub(super) fn flush_open_page(&mut self) {
        self.ftl.settle();
        for pool in 0..self.ftl.pools() {
            self.ftl.select_pool(pool);
            let padded = self.ftl.counters().padded_units;
            if self.ftl.pad(&mut self.work) {
                // Padding passes through the buffer like data, so that a programmed page always frees a page.
                self.buffer_free -= (self.ftl.counters().padded_units - padded) as i64;
                self.start_work();
            }
        }
    }

    pub(super) fn tell_waiters(&mut self, page: u32) {
        let Some(index) = self.page_waiters.iter().position(|(waited, _)| *waited == page) else { return };
        // In order: a small drive may have two programs of one page under way.
        let (_, slots) = self.page_waiters.remove(index);
        for slot in slots {
            let command = &mut self.commands[slot as usize];
            command.pending -= 1;
            if command.pending == 0 && command.left == 0 {
                let at = self.now + self.write_link.delay_ns;
                self.calendar.enter(at, Event::WriteDone(slot));
            }
        }
    }
}
