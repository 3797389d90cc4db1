// SPDX-License-Identifier: MIT
//! The declarations of <deltaprof/deltaprof.h> and <deltaprof/hooks.h>, and access to the calling thread's words.
use std::arch::asm;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicU8};

pub const EIO: c_int = 5;

pub type WriteFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

#[repr(C)]
pub struct Sample {
    opaque: [u64; 8],
}

#[repr(C)]
pub struct Site {
    pc: usize,
    sp: usize,
    fp: usize,
}

/// All zeros is a valid thread: its first event sets it up.
#[repr(C)]
pub struct Thread {
    pub countdown: i64,
    pub guard: usize,
}

#[repr(C)]
pub struct Filter {
    pub mask: AtomicU64,
    pub bytes: AtomicPtr<AtomicU8>,
}

extern "C" {
    pub fn deltaprof_version() -> *const c_char;
    pub fn deltaprof_start(conf: *const c_char) -> c_int;
    pub fn deltaprof_stop() -> c_int;
    pub fn deltaprof_set(conf: *const c_char) -> c_int;
    pub fn deltaprof_emit() -> c_int;
    pub fn deltaprof_delta_new(kind: c_int) -> *mut c_void;
    pub fn deltaprof_delta_free(delta: *mut c_void);
    pub fn deltaprof_delta_write(delta: *mut c_void, write: WriteFn, ctx: *mut c_void) -> c_int;
    pub fn deltaprof_label_push(key: *const c_char, value: *const c_char);
    pub fn deltaprof_label_pop();
    pub fn deltaprof_trace_set(trace_id: *const u8, span_id: *const u8);

    pub fn deltaprof_announce_hooks(sees: u32);
    pub fn deltaprof_poll();
    pub static deltaprof_poll_wanted: AtomicU8;
    pub static deltaprof_filter: Filter;
    pub fn deltaprof_sample_begin(sample: *mut Sample, heap: u32, n_bytes: usize);
    pub fn deltaprof_sample_skip_frames(sample: *mut Sample, n_frames: u32);
    pub fn deltaprof_sample_end(sample: *mut Sample, ptr: *const u8, site: *const Site);
    pub fn deltaprof_free_sampled(heap: u32, ptr: *const u8);
    pub fn deltaprof_realloc_begin(sample: *mut Sample, heap: u32, old: *const u8, n_bytes: usize);
    pub fn deltaprof_realloc_end(sample: *mut Sample, done: bool, ptr: *const u8, site: *const Site);
}

impl Sample {
    #[inline(always)]
    pub fn new() -> Sample {
        Sample { opaque: [0; 8] }
    }
}

impl Site {
    /// The state of the function that this is inlined into.
    #[inline(always)]
    pub fn here() -> Site {
        let (pc, sp, fp): (usize, usize, usize);
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp,
                 options(nomem, nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!("adr {}, . + 4", "mov {}, sp", "mov {}, x29", out(reg) pc, out(reg) sp, out(reg) fp,
                 options(nomem, nostack, preserves_flags));
        }
        Site { pc, sp, fp }
    }
}

/// The words of the calling thread. Rust has no stable way to name a thread's variable of another library, so this is
/// the access that a C compiler makes for the model initial-exec; a linker turns it into a constant where it can.
#[inline(always)]
pub fn thread() -> *mut Thread {
    let thread: *mut Thread;
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {0}, qword ptr fs:[0]", "add {0}, qword ptr [rip + deltaprof_thread@GOTTPOFF]", out(reg) thread,
             options(pure, readonly, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {0}, tpidr_el0", "adrp {1}, :gottprel:deltaprof_thread",
             "ldr {1}, [{1}, #:gottprel_lo12:deltaprof_thread]", "add {0}, {0}, {1}", out(reg) thread, out(reg) _,
             options(pure, readonly, nostack));
    }
    thread
}

#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp: usize;
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags));
    }
    sp
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("deltaprof knows x86_64 and aarch64");
#[cfg(not(target_os = "linux"))]
compile_error!("deltaprof is for Linux");
