// SPDX-License-Identifier: MIT
//! Uses the ways in which threads wait for each other in parking_lot, and prints how many turns there were.
use parking_lot::{Condvar, Mutex, Once, RwLock};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

mod rust_turns;
use rust_turns::{contend, us};

static INIT: Once = Once::new();

#[inline(never)]
fn holds_long(m: &Mutex<u64>) {
    let mut turns = m.lock();
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn holds_short(m: &Mutex<u64>) -> u64 {
    *m.lock()
}

#[inline(never)]
fn writes(l: &RwLock<u64>) {
    let mut turns = l.write();
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn reads(l: &RwLock<u64>) -> u64 {
    let turns = l.read();
    us(100);
    *turns
}

#[inline(never)]
fn wants_it_made() {
    INIT.call_once(|| us(50000));
}

#[inline(never)]
fn is_idle(work: &(Mutex<Vec<u64>>, Condvar)) -> u64 {
    let mut queue = work.0.lock();
    while queue.is_empty() {
        work.1.wait(&mut queue);
    }
    queue.pop().unwrap()
}

#[inline(never)]
fn gives_up(event: &(Mutex<Vec<u64>>, Condvar)) {
    let mut queue = event.0.lock();
    assert!(event.1.wait_for(&mut queue, Duration::from_millis(20)).timed_out());
}

#[inline(never)]
fn tries_for_a_while(m: &Mutex<u64>) -> bool {
    m.try_lock_for(Duration::from_millis(200)).is_some()
}

fn main() {
    let m = Arc::new(Mutex::new(0));
    let l = Arc::new(RwLock::new(0));
    let held = Arc::new(Mutex::new(0));
    let work = Arc::new((Mutex::new(vec![]), Condvar::new()));
    let never = Arc::new((Mutex::new(vec![]), Condvar::new()));
    let all = Arc::new(Barrier::new(3));
    let mut threads = vec![];
    for i in 0..3 {
        let (m, l, never, all) = (m.clone(), l.clone(), never.clone(), all.clone());
        threads.push(thread::spawn(move || {
            let mutex = (
                || holds_long(&m),
                || {
                    holds_short(&m);
                },
            );
            let rwlock = (
                || writes(&l),
                || {
                    reads(&l);
                },
            );
            contend(i, &all, mutex, rwlock);
            if i == 0 {
                gives_up(&never);
            }
        }));
    }
    for _ in 0..2 {
        threads.push(thread::spawn(wants_it_made));
    }
    let worker = work.clone();
    threads.push(thread::spawn(move || assert_eq!((0..10).map(|_| is_idle(&worker)).sum::<u64>(), 45)));
    for i in 0..10 {
        us(20000);
        work.0.lock().push(i);
        work.1.notify_one();
    }
    let guard = held.lock();
    let refused = held.clone();
    assert!(!thread::spawn(move || tries_for_a_while(&refused)).join().unwrap());
    drop(guard);
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{} {}", m.lock(), l.read());
}
