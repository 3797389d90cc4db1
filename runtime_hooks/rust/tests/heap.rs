// SPDX-License-Identifier: MIT
//! The allocator's events are in the deltas, and the functions of the crate return what their comments say.
use std::io::{self, Write};
use std::sync::{Mutex, Once};

#[global_allocator]
static A: deltaprof::Alloc<std::alloc::System> = deltaprof::Alloc(std::alloc::System);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

static ONCE: Once = Once::new();

/// Bad keys start nothing; then a good one does, once.
fn start() {
    ONCE.call_once(|| {
        assert_eq!(deltaprof::start(Some("heap_rate=many")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(deltaprof::start(Some("heap\0rate")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        deltaprof::start(Some("heap_rate=1,out=none")).unwrap();
        assert!(deltaprof::start(None).is_err());
    });
}

#[test]
fn the_versions_agree() {
    assert_eq!(deltaprof::version(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_delta_is_written_and_a_refused_one_comes_again() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::Other, "full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let _one = ONE_AT_A_TIME.lock();
    start();
    let mut delta = deltaprof::Delta::new(deltaprof::Kind::Heap).unwrap();
    let kept = vec![1u8; 100_000];
    assert_eq!(delta.write(&mut Full).unwrap_err().to_string(), "full");
    let mut bytes = Vec::new();
    delta.write(&mut bytes).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    drop(kept);
}

#[test]
fn a_panic_in_a_writer_is_an_error() {
    struct Panics;
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("as it was asked to")
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let _one = ONE_AT_A_TIME.lock();
    start();
    let mut delta = deltaprof::Delta::new(deltaprof::Kind::Heap).unwrap();
    let _kept = Box::new([1u8; 1000]);
    assert!(delta.write(&mut Panics).is_err());
}

#[test]
fn labels_nest_and_end() {
    start();
    let outer = deltaprof::label("endpoint", "/a").unwrap();
    drop(deltaprof::label("endpoint", "/b").unwrap());
    drop(outer);
    assert!(deltaprof::label("end\0point", "/a").is_err());
}
