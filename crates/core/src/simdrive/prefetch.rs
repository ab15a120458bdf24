//! Asking the processor to fetch a table entry early, and the kernel for huge pages. The mapping tables of a large
//! drive are far bigger than the caches, and a lookup of a random unit would otherwise cost most of the time of a
//! simulated I/O.
//!
//! The second file with unsafe code, beside `engine::uring`: the standard library has neither.
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

/// The same, but only as far as the second-level cache: more of these can be under way at a time.
#[inline(always)]
pub fn prefetch_nearby<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = slice.get(index) {
        // SAFETY: as in `prefetch`.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(std::ptr::from_ref(entry).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

/// Back the vector's memory, as far as it is reserved, with huge pages. Advice only: without them it is slower, nothing
/// else.
pub fn prefer_huge_pages<T>(vector: &Vec<T>) {
    const PAGE: usize = 4096;
    let start = (vector.as_ptr() as usize).next_multiple_of(PAGE);
    let end = vector.as_ptr() as usize + vector.capacity() * size_of::<T>();
    // SAFETY: the advice changes no contents, and the pages lie within one live allocation.
    unsafe {
        libc::madvise(start as *mut libc::c_void, end.saturating_sub(start) / PAGE * PAGE, libc::MADV_HUGEPAGE);
    }
}
