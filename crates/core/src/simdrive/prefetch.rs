//! Asking the processor to fetch a table entry early. The mapping tables of a large drive are far bigger than the
//! caches, and a lookup of a random unit would otherwise cost most of the time of a simulated I/O.
//!
//! The second file with unsafe code, beside `engine::uring`: the standard library has no safe prefetch.
#![allow(unsafe_code)]

/// Fetch the cache line of `slice[index]`, if it exists and the processor can.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = slice.get(index) {
        // SAFETY: the address is that of a live reference, and a prefetch reads nothing into the program.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(entry).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
