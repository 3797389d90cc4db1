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

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod linked {
            use super::*;
            extern "C" {
                $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
                pub static deltaprof_poll_wanted: AtomicU8;
                pub static deltaprof_filter: Filter;
            }
        }

        /// The functions and words of one copy of the library.
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
            pub deltaprof_poll_wanted: &'static AtomicU8,
        }

        static LINKED: Library = Library {
            $($name: linked::$name,)*
            deltaprof_poll_wanted: unsafe { &linked::deltaprof_poll_wanted },
        };

        /// The copy that was preloaded, if it has everything.
        #[cfg(feature = "static")]
        unsafe fn preloaded() -> Option<Library> {
            Some(Library {
                $($name: std::mem::transmute(look_up(concat!(stringify!($name), "\0"))?.as_ptr()),)*
                deltaprof_poll_wanted: &*(look_up("deltaprof_poll_wanted\0")?.as_ptr() as *const AtomicU8),
            })
        }
    };
}

functions! {
    deltaprof_version() -> *const c_char;
    deltaprof_start(conf: *const c_char) -> c_int;
    deltaprof_stop() -> c_int;
    deltaprof_set(conf: *const c_char) -> c_int;
    deltaprof_emit() -> c_int;
    deltaprof_delta_new(kind: c_int) -> *mut c_void;
    deltaprof_delta_free(delta: *mut c_void);
    deltaprof_delta_write(delta: *mut c_void, write: WriteFn, ctx: *mut c_void) -> c_int;
    deltaprof_label_push(key: *const c_char, value: *const c_char);
    deltaprof_label_pop();
    deltaprof_trace_set(trace_id: *const u8, span_id: *const u8);

    deltaprof_announce_hooks(sees: u32);
    deltaprof_poll();
    deltaprof_sample_begin(sample: *mut Sample, heap: u32, n_bytes: usize);
    deltaprof_sample_skip_frames(sample: *mut Sample, n_frames: u32);
    deltaprof_sample_end(sample: *mut Sample, ptr: *const u8, site: *const Site);
    deltaprof_free_sampled(heap: u32, ptr: *const u8);
    deltaprof_realloc_begin(sample: *mut Sample, heap: u32, old: *const u8, n_bytes: usize);
    deltaprof_realloc_end(sample: *mut Sample, done: bool, ptr: *const u8, site: *const Site);
}

#[cfg(not(feature = "static"))]
mod choice {
    use super::*;

    #[inline(always)]
    pub fn library() -> &'static Library {
        &LINKED
    }

    #[inline(always)]
    pub fn filter() -> &'static Filter {
        unsafe { &linked::deltaprof_filter }
    }

    #[inline(always)]
    pub fn thread() -> *mut Thread {
        linked_thread()
    }

    /// False: another version of the library is preloaded.
    #[inline(always)]
    pub fn choose() -> bool {
        true
    }
}

/// Where the library is linked statically, a preloaded one would be a second profiler: each block would count twice.
/// Then the program uses the preloaded one, as if it was linked dynamically, from the first call of the crate's
/// functions on. Before that call the linked copy records nothing. An event that is under way in another thread
/// meanwhile ends in the copy in which it began.
#[cfg(feature = "static")]
mod choice {
    use super::*;
    use std::ffi::CStr;
    use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
    use std::sync::Once;

    static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());
    static FILTER: AtomicPtr<Filter> = AtomicPtr::new(unsafe { &linked::deltaprof_filter as *const Filter as *mut Filter });
    /// From the linked copy's words of a thread to those of the copy in use: both lie in the block that each thread has
    /// from its start, so it is the same in all threads.
    static DISTANCE: AtomicIsize = AtomicIsize::new(0);
    static IS_OTHER_VERSION: AtomicBool = AtomicBool::new(false);

    #[inline(always)]
    pub fn library() -> &'static Library {
        unsafe { LIBRARY.load(Ordering::Acquire).as_ref() }.unwrap_or(&LINKED)
    }

    #[inline(always)]
    pub fn filter() -> &'static Filter {
        unsafe { &*FILTER.load(Ordering::Relaxed) }
    }

    #[inline(always)]
    pub fn thread() -> *mut Thread {
        (linked_thread() as *mut u8).wrapping_offset(DISTANCE.load(Ordering::Relaxed)) as *mut Thread
    }

    unsafe fn look() -> Option<()> {
        let start = look_up("deltaprof_start_preloaded\0")?;
        if start.as_ptr() == linked_start_preloaded() {
            return None; // this copy, exported
        }
        let (other, linked) = (preloaded()?, CStr::from_ptr((LINKED.deltaprof_version)()));
        if CStr::from_ptr((other.deltaprof_version)()) != linked {
            IS_OTHER_VERSION.store(true, Ordering::Relaxed);
            return None;
        }
        let filter = look_up("deltaprof_filter\0")?;
        let thread = look_up("deltaprof_thread\0")?.as_ptr() as isize;
        DISTANCE.store(thread - linked_thread() as isize, Ordering::Relaxed);
        FILTER.store(filter.as_ptr() as *mut Filter, Ordering::Relaxed);
        LIBRARY.store(Box::into_raw(Box::new(other)), Ordering::Release);
        Some(())
    }

    pub fn choose() -> bool {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| unsafe {
            look();
        });
        !IS_OTHER_VERSION.load(Ordering::Relaxed)
    }
}

pub use choice::{choose, filter, library, thread};

#[cfg(feature = "static")]
extern "C" {
    fn dlsym(scope: *mut c_void, name: *const c_char) -> *mut c_void;
    fn deltaprof_start_preloaded(conf: *const c_char) -> c_int;
}

#[cfg(feature = "static")]
fn linked_start_preloaded() -> *mut c_void {
    deltaprof_start_preloaded as unsafe extern "C" fn(*const c_char) -> c_int as *mut c_void
}

/// What the name, which ends with NUL, stands for among the libraries of the process.
#[cfg(feature = "static")]
unsafe fn look_up(name: &'static str) -> Option<std::ptr::NonNull<c_void>> {
    std::ptr::NonNull::new(dlsym(std::ptr::null_mut(), name.as_ptr() as *const c_char))
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

/// The words of the calling thread in the linked copy. Rust has no stable way to name a thread's variable of another library, so this is
/// the access that a C compiler makes for the model initial-exec; a linker turns it into a constant where it can.
#[inline(always)]
fn linked_thread() -> *mut Thread {
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
