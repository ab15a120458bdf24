//! Large writes at speed. A saturated drive takes a page of a waiting write each time a die has programmed one: the
//! same few steps, thousands of times for a large sequential write. Here they are in one loop; the answers are the
//! same as those of the general way, event by event.

use super::drive::SimDrive;
use super::flash::Job;

/// With fewer pages to come than this, the general way is as fast.
pub(super) const LEAST_PAGES: u32 = 4;

impl SimDrive {
    #[inline]
    pub(super) fn is_large(&self, units: u32) -> bool {
        units > self.most_small
    }

    /// Handle the next events while they are nothing but programs of host data that end, and make room for the next
    /// page of the first waiting write.
    #[inline(never)]
    pub(super) fn stream(&mut self, until: u64) {
        #[cfg(test)]
        if self.plainly {
            return;
        }
        if self.extras.faults.as_ref().is_some_and(|faults| faults.may_fail_programs()) {
            return;
        }
        if let Some(&slot) = self.buffer_waiting.front()
            && self.buffer_free == 0
            && self.page_waiters.is_empty()
            && !self.waits_for_flash()
        {
            self.stream_command(slot, until);
        }
    }

    fn stream_command(&mut self, slot: u32, until: u64) {
        let (n, mode) = self.ftl.host_page();
        let command = &self.commands[slot as usize];
        // The command's last units, and partial ones, go the general way.
        let pages = (command.left.saturating_sub(1) / u64::from(n)) as u32;
        let unit = command.first_unit + u64::from(command.units) - command.left;
        if pages < LEAST_PAGES || (command.partial_first && unit == command.first_unit) {
            return;
        }
        let (plain, first_page) = self.ftl.plain_pages(unit);
        let pages = pages.min(plain);
        if pages < LEAST_PAGES {
            return;
        }
        self.calendar.expect_order();
        let horizon = self.calendar.horizon(until);
        let (mut taken, mut to) = (0, self.flash.die_of(first_page));
        while taken < pages {
            let Some((at, die)) = self.calendar.pop_die(&horizon, |die| self.flash.programs_host_data(die, n)) else {
                break;
            };
            self.now = at;
            let (_, next) = self.flash.finish(die, at);
            if self.extras.watches {
                self.watch_programmed(die);
                self.watch_stream(to, slot, unit + u64::from(taken * n));
            }
            self.calendar.enter_sorted(die, next);
            let page = first_page + taken;
            let erase = self.ftl.erase_due(page);
            let done = self.flash.program(to, Job::HostProgram { page, units: n }, mode, erase, at);
            self.calendar.enter_sorted(to, done);
            taken += 1;
            to = if to + 1 == self.parameters.dies { 0 } else { to + 1 };
        }
        self.ftl.write_pages(unit, taken);
        self.commands[slot as usize].left -= u64::from(taken * n);
    }
}
