// SPDX-License-Identifier: MIT
//! Three threads that contend in two stages: for a mutex, then for a lock of readers and writers. The first thread holds
//! the lock for long; the others try until it is done. Also for waiting until threads sleep: a busy machine may keep them
//! from that for any time.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Barrier;
use std::time::Duration;
use std::{fs, thread};

const TURNS: u64 = 150;
const NONE: AtomicU64 = AtomicU64::new(0);
static STAGES: AtomicU64 = AtomicU64::new(0); // done by the first thread
static TAKERS: [AtomicU64; 8] = [NONE; 8]; // the ids of threads that are about to wait

pub fn us(n: u64) {
    thread::sleep(Duration::from_micros(n));
}

/// The calling thread, to which this number belongs, is about to wait; or it has waited.
pub fn takes(number: usize) {
    let path = fs::read_link("/proc/thread-self").unwrap();
    TAKERS[number].store(path.file_name().unwrap().to_str().unwrap().parse().unwrap(), SeqCst);
}
pub fn has_taken(number: usize) {
    TAKERS[number].store(0, SeqCst);
}

fn sleeps(id: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", id)).unwrap_or_default();
    stat.rsplit(')').next().unwrap().starts_with(" S")
}

/// Until so many of these threads are about to wait, and sleep.
pub fn until_asleep(n: usize, numbers: &[usize]) {
    let asleep = |number: &&usize| match TAKERS[**number].load(SeqCst) {
        0 => false,
        id => sleeps(id),
    };
    while numbers.iter().filter(asleep).count() < n {
        us(100);
    }
}

/// While the first of the three holds a lock, in its first turns: until another one waits for it.
pub fn until_wanted(turns: u64) {
    if turns < 3 {
        until_asleep(1, &[1, 2]);
    }
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
