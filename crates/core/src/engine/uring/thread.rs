//! What an engine thread asks of the kernel's scheduler. Nothing of it needs a privilege, and nothing depends on it.

use std::mem;

/// The least that the scheduler lets a thread ask for (sched(7), Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// Make the calling thread run as soon as it may: its timers run out on time, and it is not kept waiting while another
/// thread uses up a slice of time that began before.
pub fn run_promptly() {
    // SAFETY: the call takes a number and changes nothing but the calling thread's timers: by default the kernel may add
    // 50 us, to wake less often. It cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    // SAFETY: takes and gives numbers; 0 is the calling thread. An error is no nice value, and is not looked for: at worst
    // the call below asks for a priority that it may not have, and fails.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: the type is made of numbers, for which 0 is a value.
    let mut asked: libc::sched_attr = unsafe { mem::zeroed() };
    asked.size = size_of::<libc::sched_attr>() as u32;
    asked.sched_policy = libc::SCHED_OTHER as u32;
    asked.sched_nice = nice;
    // How much the thread gets in all is not changed: a short slice comes sooner and is over sooner. Before Linux 6.12 it is
    // ignored.
    asked.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads so many bytes as `size` says, of a value that outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const asked, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_short_and_the_priority_as_before() {
        let seen = std::thread::spawn(|| {
            // SAFETY: takes numbers; every thread may lower its own priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 7) };
            run_promptly();
            // SAFETY: made of numbers, for which 0 is a value.
            let mut seen: libc::sched_attr = unsafe { mem::zeroed() };
            let size = size_of::<libc::sched_attr>();
            // SAFETY: the kernel writes so many bytes as it is told there are.
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut seen, size, 0) };
            seen
        });
        let seen = seen.join().unwrap();
        assert_eq!((seen.sched_policy, seen.sched_nice), (libc::SCHED_OTHER as u32, 7));
        if seen.sched_runtime == 0 {
            eprintln!("skipped: this kernel has no slices to ask for");
        } else {
            assert_eq!(seen.sched_runtime, SLICE_NS);
        }
    }
}
