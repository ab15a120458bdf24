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
    let Some(mut attributes) = attributes() else { return };
    // Who started the program under another policy wants that.
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    // How much the thread gets in all is not changed: a short slice comes sooner and is over sooner. Before Linux 6.12 it is
    // ignored.
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads so many bytes as `size` says, of a value that outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// How the calling thread is scheduled.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: the type is made of numbers, for which 0 is a value.
    let mut found: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes so many bytes as it is told there are.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) };
    (result == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_short_and_the_priority_as_before() {
        let seen = std::thread::spawn(|| {
            // SAFETY: takes numbers; every thread may lower its own priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
            run_promptly();
            attributes().unwrap()
        });
        let seen = seen.join().unwrap();
        assert_eq!((seen.sched_policy, seen.sched_nice), (libc::SCHED_OTHER as u32, 19));
        if seen.sched_runtime == 0 {
            eprintln!("skipped: this kernel has no slices to ask for");
        } else {
            assert_eq!(seen.sched_runtime, SLICE_NS);
        }
    }

    #[test]
    fn another_policy_is_left_alone() {
        let seen = std::thread::spawn(|| {
            let none = libc::sched_param { sched_priority: 0 };
            // SAFETY: the kernel reads a value that outlives the call; every thread may become a batch.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) }, 0);
            run_promptly();
            attributes().unwrap()
        });
        let seen = seen.join().unwrap();
        assert_eq!(seen.sched_policy, libc::SCHED_BATCH as u32);
        assert_ne!(seen.sched_runtime, SLICE_NS);
    }
}
