// SPDX-License-Identifier: MIT
//! Three threads that contend in two stages: for a mutex, then for a lock of readers and writers. The first thread holds
//! the lock for long; the others try until it is done.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const TURNS: u64 = 150;
static STAGES: AtomicU64 = AtomicU64::new(0); // done by the first thread

pub fn us(n: u64) {
    thread::sleep(Duration::from_micros(n));
}

fn stage(i: u64, all: &Barrier, n_done: u64, long: impl Fn(), short: impl Fn()) {
    all.wait();
    for _ in 0..TURNS {
        if i == 0 {
            long();
        }
    }
    STAGES.fetch_add((i == 0) as u64, SeqCst);
    while STAGES.load(SeqCst) < n_done {
        short();
    }
}

/// What thread i of the three does. Each function takes the lock once.
pub fn contend(i: u64, all: &Barrier, mutex: (impl Fn(), impl Fn()), rwlock: (impl Fn(), impl Fn())) {
    let (holds_long, holds_short) = mutex;
    let (writes, reads) = rwlock;
    stage(i, all, 1, holds_long, || {
        holds_short();
        us(200);
    });
    stage(
        i,
        all,
        2,
        || {
            writes();
            us(50);
        },
        reads,
    );
}
