// SPDX-License-Identifier: MIT
//! Uses every way in which threads wait for each other in Rust's std, and prints how many turns there were.
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::thread;
use std::time::Duration;

mod rust_turns;
use rust_turns::{contend, us};

static INIT: Once = Once::new();

#[inline(never)]
fn holds_long(m: &Mutex<u64>) {
    let mut turns = m.lock().unwrap();
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn holds_short(m: &Mutex<u64>) -> u64 {
    *m.lock().unwrap()
}

#[inline(never)]
fn writes(l: &RwLock<u64>) {
    let mut turns = l.write().unwrap();
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn reads(l: &RwLock<u64>) -> u64 {
    let turns = l.read().unwrap();
    us(100);
    *turns
}

#[inline(never)]
fn wants_it_made() {
    INIT.call_once(|| us(50000));
}

#[inline(never)]
fn is_idle(work: &mpsc::Receiver<u64>) -> u64 {
    work.iter().sum()
}

#[inline(never)]
fn is_parked() {
    us(1);
    thread::park();
}

#[inline(never)]
fn waits_for(event: &(Mutex<bool>, Condvar)) {
    let mut happened = event.0.lock().unwrap();
    while !*happened {
        happened = event.1.wait(happened).unwrap();
    }
}

#[inline(never)]
fn gives_up(event: &(Mutex<bool>, Condvar)) {
    let happened = event.0.lock().unwrap();
    drop(event.1.wait_timeout(happened, Duration::from_millis(10)).unwrap());
}

fn main() {
    let m = Arc::new(Mutex::new(0));
    let l = Arc::new(RwLock::new(0));
    let event = Arc::new((Mutex::new(false), Condvar::new()));
    let all = Arc::new(Barrier::new(3));
    let (work, worker) = mpsc::channel();
    let mut threads = vec![];
    for i in 0..3 {
        let (m, l, event, all) = (m.clone(), l.clone(), event.clone(), all.clone());
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
            all.wait();
            wants_it_made();
            if i == 0 {
                gives_up(&event);
            }
        }));
    }
    let waited = event.clone();
    threads.push(thread::spawn(move || waits_for(&waited)));
    threads.push(thread::spawn(move || assert_eq!(is_idle(&worker), 45)));
    let parked = thread::spawn(is_parked);
    for i in 0..10 {
        us(10000);
        work.send(i).unwrap();
    }
    drop(work);
    us(200000);
    parked.thread().unpark();
    parked.join().unwrap();
    *event.0.lock().unwrap() = true;
    event.1.notify_all();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{} {}", m.lock().unwrap(), l.read().unwrap());
}
