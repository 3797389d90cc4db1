// SPDX-License-Identifier: MIT
//! Uses the ways in which threads wait for each other in parking_lot, and prints how many turns there were.
use parking_lot::{Condvar, Mutex, Once, RwLock};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

mod rust_turns;
use rust_turns::{contend, has_taken, takes, until_asleep, until_wanted, us};

const WORKER: usize = 3;
const MAKERS: usize = 4; // two of them
const TRIER: usize = 6;
static TRIED: AtomicBool = AtomicBool::new(false);

static INIT: Once = Once::new();

#[inline(never)]
fn holds_long(m: &Mutex<u64>) {
    let mut turns = m.lock();
    until_wanted(*turns);
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn holds_short(m: &Mutex<u64>, i: usize) -> u64 {
    takes(i);
    let turns = m.lock();
    has_taken(i);
    *turns
}

#[inline(never)]
fn writes(l: &RwLock<u64>) {
    let mut turns = l.write();
    until_wanted(*turns);
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn reads(l: &RwLock<u64>, i: usize) -> u64 {
    takes(i);
    let turns = l.read();
    has_taken(i);
    us(100);
    *turns
}

#[inline(never)]
fn wants_it_made(i: usize) {
    takes(i);
    INIT.call_once(|| {
        until_asleep(1, &[MAKERS, MAKERS + 1]);
        us(50000);
    });
    has_taken(i);
}

#[inline(never)]
fn is_idle(work: &(Mutex<Vec<u64>>, Condvar)) -> u64 {
    takes(WORKER);
    let mut queue = work.0.lock();
    while queue.is_empty() {
        work.1.wait(&mut queue);
    }
    queue.pop().unwrap()
}

#[inline(never)]
fn gives_up(event: &(Mutex<Vec<u64>>, Condvar)) {
    let mut queue = event.0.lock();
    for _ in 0..20 {
        // a thread that is kept from running may be late for some of them
        assert!(event.1.wait_for(&mut queue, Duration::from_millis(20)).timed_out());
    }
}

#[inline(never)]
fn tries_for_a_while(m: &Mutex<u64>) -> bool {
    takes(TRIER);
    while !TRIED.load(SeqCst) {
        if m.try_lock_for(Duration::from_millis(200)).is_some() {
            return true;
        }
    }
    false
}

fn main() {
    let m = Arc::new(Mutex::new(0));
    let l = Arc::new(RwLock::new(0));
    let held = Arc::new(Mutex::new(0));
    let work = Arc::new((Mutex::new(vec![]), Condvar::new()));
    let never = Arc::new((Mutex::new(vec![]), Condvar::new()));
    let all = Arc::new(Barrier::new(3));
    let mut threads = vec![];
    for i in 0..3usize {
        let (m, l, never, all) = (m.clone(), l.clone(), never.clone(), all.clone());
        threads.push(thread::spawn(move || {
            let mutex = (
                || holds_long(&m),
                || {
                    holds_short(&m, i);
                },
            );
            let rwlock = (
                || writes(&l),
                || {
                    reads(&l, i);
                },
            );
            contend(i as u64, &all, mutex, rwlock);
            if i == 0 {
                gives_up(&never);
            }
        }));
    }
    for i in MAKERS..MAKERS + 2 {
        threads.push(thread::spawn(move || wants_it_made(i)));
    }
    let worker = work.clone();
    threads.push(thread::spawn(move || assert_eq!((0..10).map(|_| is_idle(&worker)).sum::<u64>(), 45)));
    until_asleep(1, &[WORKER]);
    for i in 0..10 {
        us(20000);
        work.0.lock().push(i);
        work.1.notify_one();
    }
    let guard = held.lock();
    let refused = held.clone();
    let trier = thread::spawn(move || tries_for_a_while(&refused));
    for _ in 0..5 {
        until_asleep(1, &[TRIER]);
        us(20000);
    }
    TRIED.store(true, SeqCst);
    assert!(!trier.join().unwrap());
    drop(guard);
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{} {}", m.lock(), l.read());
}
