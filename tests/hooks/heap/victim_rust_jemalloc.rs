// SPDX-License-Identifier: MIT
//! A server's memory in Rust, with jemalloc linked into the program: sessions, an index, pages of a cache and queues, of
//! sizes as servers have them. Frees two of three sessions. Prints jemalloc's stats.allocated, then waits for the end of
//! its input.
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::raw::{c_char, c_int, c_void}; // also in older compilers
use std::io::Read;

extern "C" {
    fn mallocx(n: usize, flags: c_int) -> *mut c_void;
    fn rallocx(ptr: *mut c_void, n: usize, flags: c_int) -> *mut c_void;
    fn sdallocx(ptr: *mut c_void, n: usize, flags: c_int);
    fn nallocx(n: usize, flags: c_int) -> usize;
    fn mallctl(name: *const c_char, old: *mut c_void, n_old: *mut usize, new: *mut c_void, n_new: usize) -> c_int;
}

struct Jemalloc;

fn flags(layout: &Layout) -> c_int {
    if layout.align() > 16 { layout.align().trailing_zeros() as c_int } else { 0 }
}

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        mallocx(layout.size(), flags(&layout)) as *mut u8
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        sdallocx(ptr as *mut c_void, layout.size(), flags(&layout))
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, n: usize) -> *mut u8 {
        rallocx(ptr as *mut c_void, n, flags(&layout)) as *mut u8
    }
}

#[global_allocator]
static A: Jemalloc = Jemalloc;

struct Session {
    user: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn random(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) as usize
}

#[inline(never)]
fn open_session(n: usize, seed: &mut u64) -> Session {
    let headers = (0..random(seed) % 12)
        .map(|i| (format!("x-header-{i}"), "v".repeat(random(seed) % 90)))
        .collect();
    Session { user: format!("user-{n}@example.org"), headers, body: vec![1; 1 << (random(seed) % 12)] }
}

#[inline(never)]
fn fill_cache(seed: &mut u64) -> Vec<Vec<u8>> {
    (0..60).map(|_| vec![1; 5000 + random(seed) % 300_000]).collect()
}

fn allocated() -> usize {
    let (mut epoch, mut n, mut size) = (1u64, 0usize, 8usize);
    unsafe {
        let old = &mut epoch as *mut u64 as *mut c_void;
        mallctl("epoch\0".as_ptr() as *const c_char, old, &mut size, old, 8);
        mallctl("thread.tcache.flush\0".as_ptr() as *const c_char, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut(), 0);
        mallctl("epoch\0".as_ptr() as *const c_char, old, &mut size, old, 8);
        mallctl("stats.allocated\0".as_ptr() as *const c_char, &mut n as *mut usize as *mut c_void, &mut size, std::ptr::null_mut(), 0);
    }
    n
}

fn main() {
    let mut seed = 88172645463325252;
    let mut sessions: HashMap<usize, Session> = (0..30_000).map(|n| (n, open_session(n, &mut seed))).collect();
    let index: BTreeMap<String, usize> = sessions.iter().map(|(n, s)| (s.user.clone(), *n)).collect();
    let cache = fill_cache(&mut seed);
    let queue: VecDeque<Box<[u8]>> = (0..20_000).map(|_| vec![1; 24 + random(&mut seed) % 200].into_boxed_slice()).collect();
    sessions.retain(|n, _| n % 3 == 0);
    for _ in 0..30 { // the profiler's thread, which divides the resident memory, starts at an allocation after 100 ms
        std::thread::sleep(std::time::Duration::from_millis(10));
        let block = vec![1u8; 1 << 16];
        unsafe { std::ptr::read_volatile(block.as_ptr()) };
    }
    println!("{} {}", allocated(), unsafe { nallocx(100, 0) });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let used: usize = sessions.values().map(|s| s.headers.len() + s.body.len()).sum();
    eprintln!("{}", used + index.len() + cache.len() + queue.len());
}
