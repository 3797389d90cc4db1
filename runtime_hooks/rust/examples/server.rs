// SPDX-License-Identifier: MIT
//! A program whose allocations are profiled. It keeps some boxes and drops the others, and writes two deltas:
//!
//!     cargo run --release --example server -- first.pb.gz second.pb.gz
use std::fs::File;

#[global_allocator]
static A: deltaprof::Alloc<std::alloc::System> = deltaprof::Alloc(std::alloc::System);

/// Keeps the optimizer from leaving an allocation out.
fn black_box<T>(value: T) -> T {
    unsafe { std::arch::asm!("/* {} */", in(reg) &value) };
    value
}

#[inline(never)]
fn keep(n: usize) -> Vec<Box<[u8; 1000]>> {
    let mut kept = Vec::with_capacity(n);
    for _ in 0..n {
        kept.push(black_box(Box::new([1; 1000])));
    }
    kept
}

#[inline(never)]
fn drop_at_once(n: usize) {
    for _ in 0..n {
        black_box(Box::new([1u8; 500]));
    }
}

#[inline(never)]
fn grow(n: usize) -> Vec<u8> {
    let mut grown = Vec::with_capacity(16);
    for _ in 0..n {
        grown.reserve_exact(grown.capacity() * 2); // a realloc
        grown.resize(grown.capacity(), 1);
    }
    grown
}

fn main() -> std::io::Result<()> {
    if let Err(error) = deltaprof::start(Some("out=none")) {
        eprintln!("deltaprof: {error}"); // under `deltaprof run` it runs already; a server goes on without it
    }
    let mut delta = deltaprof::Delta::new(deltaprof::Kind::Heap)?;
    let mut paths = std::env::args().skip(1);

    let kept = {
        let _request = deltaprof::label("endpoint", "/keep")?;
        let _trace = deltaprof::trace([0x4b; 16], [0x7a; 8]); // for the key `events`
        drop(deltaprof::trace([0x4b; 16], [0x7b; 8])); // a span inside, which has ended
        keep(200)
    };
    drop_at_once(300);
    let grown = black_box(grow(3));
    if let Some(path) = paths.next() {
        delta.write(&mut File::create(path)?)?;
    }

    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| drop_at_once(1000))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(kept);
    drop(grown);
    if let Some(path) = paths.next() {
        delta.write(&mut File::create(path)?)?;
    }
    println!("{}", deltaprof::version());
    Ok(())
}
