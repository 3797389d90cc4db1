// SPDX-License-Identifier: MIT
//! A global allocator for continuous profiling by deltaprof: which functions allocate, and which memory is in use.
//!
//! ```ignore
//! #[global_allocator]
//! static A: deltaprof::Alloc<std::alloc::System> = deltaprof::Alloc(std::alloc::System);
//! ```
//!
//! It can wrap any [`GlobalAlloc`](std::alloc::GlobalAlloc), such as jemalloc and mimalloc. Then call [`start`], or set
//! DELTAPROF_CONF and call `start(None)`. Profiles are gzipped pprof: files in `out`, the endpoint `listen`, or a
//! [`Delta`] that the program writes where it likes.

mod alloc;
mod ffi;

pub use alloc::Alloc;

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::raw::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The version of the library that is loaded.
pub fn version() -> &'static str {
    unsafe { CStr::from_ptr((library().deltaprof_version)()) }.to_str().unwrap_or("")
}

/// The copy of the library that the process uses.
fn library() -> &'static ffi::Library {
    ffi::choose();
    ffi::library()
}

fn result(err: c_int) -> io::Result<()> {
    if err < 0 {
        return Err(io::Error::from_raw_os_error(-err));
    }
    Ok(())
}

fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Starts profiling. `conf` is "key=value,key=value", as `deltaprof run --help` lists them; DELTAPROF_CONF in the
/// environment overrides it. An error names a bad key in the log; nothing is started then. A second start is an error.
pub fn start(conf: Option<&str>) -> io::Result<()> {
    let conf = conf.map(text).transpose()?;
    if !ffi::choose() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another version of deltaprof is preloaded"));
    }
    unsafe { (ffi::library().deltaprof_announce_hooks)(1) }; // of malloc
    result(unsafe { (ffi::library().deltaprof_start)(conf.as_ref().map_or(std::ptr::null(), |c| c.as_ptr())) })
}

/// Stops sampling. Frees of known blocks are still counted; a later start continues.
pub fn stop() -> io::Result<()> {
    result(unsafe { (library().deltaprof_stop)() })
}

/// Changes heap_rate, interval and other keys while the profiler runs.
pub fn set(conf: &str) -> io::Result<()> {
    let conf = text(conf)?;
    result(unsafe { (library().deltaprof_set)(conf.as_ptr()) })
}

/// Writes profiles to the files of `out` now.
pub fn emit() -> io::Result<()> {
    result(unsafe { (library().deltaprof_emit)() })
}

/// The kind of events in a [`Delta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Heap = 0,
    Mutex = 1,
    Block = 2,
    Cpu = 3,
    Chain = 4,
    Wall = 5,
}

/// A consumer of one kind of profile, with its own baseline: each write has the events since the last one that succeeded.
pub struct Delta(*mut c_void);

// Any thread may use it, one at a time.
unsafe impl Send for Delta {}

struct Sink<'a> {
    to: &'a mut dyn Write,
    error: Option<io::Error>,
}

unsafe extern "C" fn take(ctx: *mut c_void, bytes: *const c_void, n_bytes: usize) -> c_int {
    let sink = &mut *(ctx as *mut Sink);
    let bytes = std::slice::from_raw_parts(bytes as *const u8, n_bytes);
    match catch_unwind(AssertUnwindSafe(|| sink.to.write_all(bytes))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            sink.error = Some(error);
            -ffi::EIO
        }
        Err(_) => -ffi::EIO,
    }
}

impl Delta {
    /// The first write covers everything since the start. An error: no memory within `memory`.
    pub fn new(kind: Kind) -> io::Result<Delta> {
        let delta = unsafe { (library().deltaprof_delta_new)(kind as c_int) };
        if delta.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Delta(delta))
    }

    /// Writes a gzipped pprof of the changes. After an error the next write covers this time as well.
    pub fn write(&mut self, to: &mut dyn Write) -> io::Result<()> {
        let mut sink = Sink { to, error: None };
        let err = unsafe { (library().deltaprof_delta_write)(self.0, take, &mut sink as *mut Sink as *mut c_void) };
        match sink.error {
            Some(error) => Err(error),
            None => result(err),
        }
    }
}

impl Drop for Delta {
    fn drop(&mut self) {
        unsafe { (library().deltaprof_delta_free)(self.0) }
    }
}

/// A pair that all samples of this thread carry, until it is dropped.
pub struct Label(PhantomData<*const ()>); // not Send: the pair belongs to the thread

/// Labels the allocations and waits of this thread with `key=value`. Labels nest; drop the inner one first.
pub fn label(key: &str, value: &str) -> io::Result<Label> {
    let (key, value) = (text(key)?, text(value)?);
    unsafe { (library().deltaprof_label_push)(key.as_ptr(), value.as_ptr()) };
    Ok(Label(PhantomData))
}

impl Drop for Label {
    fn drop(&mut self) {
        unsafe { (library().deltaprof_label_pop)() }
    }
}

type Ids = ([u8; 16], [u8; 8]);

thread_local! {
    static TRACE: Cell<Option<Ids>> = Cell::new(None);
}

fn set_trace(ids: Option<Ids>) {
    match &ids {
        Some((trace_id, span_id)) => unsafe { (library().deltaprof_trace_set)(trace_id.as_ptr(), span_id.as_ptr()) },
        None => unsafe { (library().deltaprof_trace_set)(std::ptr::null(), std::ptr::null()) },
    }
}

/// A trace context that this thread has until it is dropped; then it has the one before.
pub struct Trace {
    before: Option<Ids>,
    thread: PhantomData<*const ()>, // not Send: it belongs to the thread
}

/// Gives this thread a trace context, as in W3C's traceparent. With the key `events`, its events have the labels trace_id
/// and span_id. A task that moves between threads sets it for each poll: the guard must not live across an await.
pub fn trace(trace_id: [u8; 16], span_id: [u8; 8]) -> Trace {
    let ids = Some((trace_id, span_id));
    set_trace(ids);
    Trace { before: TRACE.with(|now| now.replace(ids)), thread: PhantomData }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let before = self.before;
        set_trace(before);
        let _ = TRACE.try_with(|now| now.set(before)); // an Err: the thread ends
    }
}
