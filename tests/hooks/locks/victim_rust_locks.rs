// SPDX-License-Identifier: MIT
//! Uses every way in which threads wait for each other in Rust's std, and prints how many turns there were.
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::thread;
use std::time::Duration;

mod rust_turns;
use rust_turns::{contend, has_taken, takes, until_asleep, until_wanted, us};

const WORKER: usize = 3;
const PARKED: usize = 4;
const WAITS: usize = 5;

static INIT: Once = Once::new();

#[inline(never)]
fn holds_long(m: &Mutex<u64>) {
    let mut turns = m.lock().unwrap();
    until_wanted(*turns);
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn holds_short(m: &Mutex<u64>, i: usize) -> u64 {
    takes(i);
    let turns = m.lock().unwrap();
    has_taken(i);
    *turns
}

#[inline(never)]
fn writes(l: &RwLock<u64>) {
    let mut turns = l.write().unwrap();
    until_wanted(*turns);
    us(1000);
    *turns += 1;
}

#[inline(never)]
fn reads(l: &RwLock<u64>, i: usize) -> u64 {
    takes(i);
    let turns = l.read().unwrap();
    has_taken(i);
    us(100);
    *turns
}

#[inline(never)]
fn wants_it_made(i: usize) {
    takes(i);
    INIT.call_once(|| {
        until_asleep(2, &[0, 1, 2]);
        us(50000);
    });
    has_taken(i);
}

#[inline(never)]
fn is_idle(work: &mpsc::Receiver<u64>) -> u64 {
    takes(WORKER);
    work.iter().sum()
}

#[inline(never)]
fn is_parked() {
    takes(PARKED);
    thread::park();
}

#[inline(never)]
fn waits_for(event: &(Mutex<bool>, Condvar)) {
    takes(WAITS);
    let mut happened = event.0.lock().unwrap();
    while !*happened {
        happened = event.1.wait(happened).unwrap();
    }
}

#[inline(never)]
fn gives_up(event: &(Mutex<bool>, Condvar)) {
    let mut happened = event.0.lock().unwrap();
    for _ in 0..20 {
        // a thread that is kept from running may be late for some of them
        happened = event.1.wait_timeout(happened, Duration::from_millis(10)).unwrap().0;
    }
}

fn main() {
    let m = Arc::new(Mutex::new(0));
    let l = Arc::new(RwLock::new(0));
    let event = Arc::new((Mutex::new(false), Condvar::new()));
    let all = Arc::new(Barrier::new(3));
    let (work, worker) = mpsc::channel();
    let mut threads = vec![];
    for i in 0..3usize {
        let (m, l, event, all) = (m.clone(), l.clone(), event.clone(), all.clone());
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
            all.wait();
            wants_it_made(i);
            if i == 0 {
                gives_up(&event);
            }
        }));
    }
    let waited = event.clone();
    threads.push(thread::spawn(move || waits_for(&waited)));
    threads.push(thread::spawn(move || assert_eq!(is_idle(&worker), 45)));
    let parked = thread::spawn(is_parked);
    until_asleep(3, &[WORKER, PARKED, WAITS]);
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
