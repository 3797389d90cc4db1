// SPDX-License-Identifier: MIT
//! The allocator: passes every call on to the allocator inside it, and reports the event.
//!
//! The usual path subtracts the size from a word of the thread, finds that no sample is due, guards the word while the
//! allocator inside runs (a malloc below it may be hooked too: each event counts once), and writes it back. A block that
//! is freed asks a filter whether it may be a sample. See <deltaprof/hooks.h>, whose inline functions these are.
//!
//! A sample's stack begins at the caller of the allocator. The functions here, and the one that the compiler inserts, are
//! left out by their number. So they must not be inlined.
use crate::ffi::{self, Library, Sample, Site, Thread};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{read_volatile, write_volatile};
use std::sync::atomic::{compiler_fence, Ordering};

/// A global allocator that reports its events to deltaprof: `Alloc(std::alloc::System)`.
pub struct Alloc<Inner>(pub Inner);

/// The C heap: blocks of malloc and of this allocator have different addresses.
const HEAP: u32 = 0;

/// A sampled path, the method of `Alloc`, and without optimization `__rg_alloc`.
const PASSING: u32 = 2 + (env!("DELTAPROF_PLAIN_CALLS").len() == "yes".len()) as u32;

/// None: a sample is due. Otherwise the thread is now guarded; write the value back with `restore`.
#[inline(always)]
fn subtract(thread: *mut Thread, n: usize) -> Option<i64> {
    let want = n as u64; // never 0: the contract of GlobalAlloc
    unsafe {
        let left = read_volatile(&(*thread).countdown) as u64;
        if left <= want {
            return None;
        }
        write_volatile(&mut (*thread).guard, ffi::stack_pointer());
        compiler_fence(Ordering::Release); // a signal handler that finds 0 finds the guard
        write_volatile(&mut (*thread).countdown, 0);
        Some((left - want) as i64)
    }
}

#[inline(always)]
fn restore(thread: *mut Thread, rest: i64) {
    unsafe { write_volatile(&mut (*thread).countdown, rest) }
}

/// False: certainly no sample.
#[inline(always)]
fn may_be_live(ptr: *const u8) -> bool {
    let (key, filter) = (ptr as u64, ffi::filter());
    unsafe {
        let mask = filter.mask.load(Ordering::Acquire);
        let bytes = filter.bytes.load(Ordering::Relaxed);
        let start = (((key >> 24).wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32).wrapping_mul(4096);
        let index = (start.wrapping_add(key >> 4) & mask) as usize;
        (*bytes.add(index)).load(Ordering::Relaxed) != 0
    }
}

/// Keeps the caller's frame: with this call behind it, the caller's last call is no tail call.
#[inline(always)]
fn stay<T>(value: T) -> T {
    unsafe { std::arch::asm!("", options(nomem, nostack, preserves_flags)) };
    value
}

/// The end of a sampled event: the only place where the library may create its threads, and only in a process with one
/// thread.
#[inline(always)]
fn edge(library: &Library) {
    unsafe {
        let thread = ffi::thread();
        let is_guarded = read_volatile(&(*thread).countdown) == 0 && read_volatile(&(*thread).guard) != 0;
        if library.deltaprof_poll_wanted.load(Ordering::Relaxed) != 0 && !is_guarded {
            (library.deltaprof_poll)();
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn alloc_due<I: GlobalAlloc>(inner: &I, layout: Layout, is_zeroed: bool) -> *mut u8 {
    let (library, mut sample) = (ffi::library(), Sample::new());
    (library.deltaprof_sample_begin)(&mut sample, HEAP, layout.size());
    let ptr = if is_zeroed { inner.alloc_zeroed(layout) } else { inner.alloc(layout) };
    (library.deltaprof_sample_skip_frames)(&mut sample, PASSING);
    let site = Site::here();
    (library.deltaprof_sample_end)(&mut sample, ptr, &site);
    edge(library);
    stay(ptr)
}

#[cold]
#[inline(never)]
unsafe fn realloc_due<I: GlobalAlloc>(inner: &I, old: *mut u8, layout: Layout, n: usize) -> *mut u8 {
    let (library, mut sample) = (ffi::library(), Sample::new());
    (library.deltaprof_realloc_begin)(&mut sample, HEAP, old, n);
    let ptr = inner.realloc(old, layout, n);
    (library.deltaprof_sample_skip_frames)(&mut sample, PASSING);
    let site = Site::here();
    (library.deltaprof_realloc_end)(&mut sample, !ptr.is_null(), ptr, &site);
    edge(library);
    stay(ptr)
}

#[cold]
#[inline(never)]
unsafe fn dealloc_sampled(ptr: *mut u8) {
    (ffi::library().deltaprof_free_sampled)(HEAP, ptr);
}

unsafe impl<I: GlobalAlloc> GlobalAlloc for Alloc<I> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let thread = ffi::thread();
        match subtract(thread, layout.size()) {
            Some(rest) => {
                let ptr = self.0.alloc(layout);
                restore(thread, rest);
                ptr
            }
            None => stay(alloc_due(&self.0, layout, false)),
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let thread = ffi::thread();
        match subtract(thread, layout.size()) {
            Some(rest) => {
                let ptr = self.0.alloc_zeroed(layout);
                restore(thread, rest);
                ptr
            }
            None => stay(alloc_due(&self.0, layout, true)),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if may_be_live(ptr) {
            dealloc_sampled(ptr);
        }
        self.0.dealloc(ptr, layout);
    }

    #[inline(never)]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, n: usize) -> *mut u8 {
        if may_be_live(old) {
            return stay(realloc_due(&self.0, old, layout, n));
        }
        let thread = ffi::thread();
        match subtract(thread, n) {
            Some(rest) => {
                let ptr = self.0.realloc(old, layout, n);
                restore(thread, rest);
                ptr
            }
            None => stay(realloc_due(&self.0, old, layout, n)),
        }
    }
}
