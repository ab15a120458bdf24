//! Reads: from the dies that hold the units, each once for all it holds, over the link to the host.

use super::drive::SimDrive;
use super::events::Event;
use super::flash::Job;

impl SimDrive {
    #[inline(never)]
    pub(super) fn admit_read(&mut self, slot: u32) {
        let command = self.commands[slot as usize];
        self.ftl.settle();
        if self.extras.watches {
            self.watch_read(slot);
        }
        let open_pages = self.ftl.open_pages();
        if command.units == 1
            && let Some((page, _, mode)) = self.ftl.place_of(command.first_unit)
            && !open_pages.contains(&page)
        {
            let (die, die_ns) = (self.flash.die_of(page), self.flash.sense_ns(mode, 1));
            self.commands[slot as usize].pending = 1;
            self.read_die(die, die_ns, Job::HostRead { slot, units: 1 });
            return;
        }
        let mut last_sense = None;
        for unit in command.first_unit..command.first_unit + u64::from(command.units) {
            let Some((page, sense, mode)) = self.ftl.place_of(unit) else { continue };
            if open_pages.contains(&page) {
                continue; // Still in the buffer.
            }
            let die = self.flash.die_of(page);
            let need = &mut self.die_need[die as usize];
            if *need == (0, 0) {
                self.dies_needed.push(die);
            }
            need.0 += self.flash.sense_ns(mode, u32::from(last_sense != Some(sense)));
            need.1 += 1;
            last_sense = Some(sense);
        }
        if self.dies_needed.is_empty() {
            let ready = self.flash.control(self.read_link.controller_ns, self.now);
            let at = self.send_on_link(slot, command.bytes, ready);
            self.calendar.enter(at, Event::ReadDone(slot));
            return;
        }
        self.commands[slot as usize].pending = self.dies_needed.len() as u32;
        for i in 0..self.dies_needed.len() {
            let die = self.dies_needed[i];
            let (die_ns, units) = std::mem::take(&mut self.die_need[die as usize]);
            self.read_die(die, die_ns, Job::HostRead { slot, units });
        }
        self.dies_needed.clear();
    }

    #[inline(always)]
    fn read_die(&mut self, die: u32, die_ns: u64, job: Job) {
        let done = self.flash.read(die, die_ns, job, self.now);
        if done.is_some() && self.parameters.suspend {
            self.calendar.forget_die(die); // What it interrupts ends later.
        }
        self.enter_die(die, done);
    }

    /// `bytes` of a read are ready at `ready`: send them; returns when they, and the fixed delay, are over.
    #[inline(always)]
    pub(super) fn send_on_link(&mut self, slot: u32, bytes: u64, ready: u64) -> u64 {
        let command = &mut self.commands[slot as usize];
        let overhead = if command.overhead_paid { 0 } else { self.read_link.overhead(command.bytes) };
        command.overhead_paid = true;
        command.left -= bytes;
        let busy = overhead + self.read_link.transfer(bytes);
        self.link_free[0] = self.link_free[0].max(ready) + busy;
        self.link_free[0] + self.read_link.delay_ns
    }
}
