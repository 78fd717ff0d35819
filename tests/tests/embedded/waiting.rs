//! Claims that wait on the engine's own thread: who is served first, and what a dropped one leaves.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Duration;

use aedb_queue::{Clock, ClockListener, Db, ManualClock, NewTask, Timestamp};
use aedb_tests::{Claiming, Shop, claims, poll_once, secs, served, task};
use futures::executor::block_on;

#[test]
fn waiting_claims_are_served_first_come_first_served_and_by_name() {
    let shop = Shop::new();
    let mut first = shop.waits(claims("a"));
    let mut second = shop.waits(claims("b"));
    let mut named = shop.waits(claims("c").names(["special"]));
    shop.enqueue(task(1));
    assert_eq!((served(&mut first), served(&mut second), served(&mut named)), (Some(1), None, None));
    block_on(shop.queue.enqueue_batch(vec![task(2), NewTask::new("special", &1).unwrap()])).unwrap();
    assert_eq!((served(&mut second), served(&mut named)), (Some(1), Some(1)));
}

#[test]
fn c54_a_waiting_claim_that_is_dropped_strands_no_task() {
    let shop = Shop::new();
    for _ in 0..20 {
        drop(shop.waits(claims("gone").max(10)));
    }
    let ids: Vec<_> = (0..10).map(|n| shop.enqueue(task(n))).collect();
    let claimed = shop.claim(99);
    assert_eq!(claimed.iter().map(|claim| claim.id).collect::<Vec<_>>(), ids);
    assert!(claimed.iter().all(|claim| claim.counters.deliveries == 1));
}

#[test]
fn c54_a_claim_that_is_dropped_when_it_was_just_served_gives_its_tasks_back_uncharged() {
    let shop = Shop::new();
    for round in 1..=20_u32 {
        let claim = shop.waits(claims("gone").max(10));
        if round == 1 {
            block_on(shop.queue.enqueue_batch((0..10).map(task).collect())).unwrap();
        } else {
            block_on(shop.queue.resume()).unwrap();
        }
        drop(claim);
        block_on(shop.queue.pause()).unwrap();
    }
    block_on(shop.queue.resume()).unwrap();
    let claimed = shop.claim(99);
    assert_eq!(claimed.len(), 10);
    assert!(claimed.iter().all(|claim| claim.counters.attempts == 1 && claim.counters.lost_leases == 0));
}

#[test]
fn c54_claims_dropped_at_any_moment_by_threads_strand_no_task() {
    let clock = ManualClock::default();
    let shop = Shop::on(Db::builder().clock(clock.clone()).memory().unwrap(), clock);
    block_on(shop.queue.enqueue_batch((0..150).map(task).collect())).unwrap();
    let fifty_claims = |n: usize| {
        let (owner, mut delivered) = (format!("w{n}"), 0);
        for _ in 0..50 {
            let mut claim: Claiming<'_> = Box::pin(shop.queue.claim(claims(&owner).max(3).wait(secs(5))));
            // A writer that is faster than the first look has delivered: those tasks are the caller's.
            if let Poll::Ready(claimed) = poll_once(&mut claim) {
                delivered += claimed.unwrap().len();
            }
        }
        delivered
    };
    let delivered: usize = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|n| scope.spawn(move || fifty_claims(n)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // The last ones may still be on their way back: a claim that waits gets each of them when it is there, however busy the
    // machine is.
    let (tell, told) = channel();
    let queue = shop.queue.clone();
    std::thread::spawn(move || {
        while let Ok(claimed) = block_on(queue.claim(claims("last").max(150).wait(secs(5)))) {
            if tell.send(claimed.len()).is_err() {
                return;
            }
        }
    });
    let mut left = 150 - delivered;
    while left > 0 {
        left -= told.recv_timeout(secs(60)).unwrap_or_else(|_| panic!("{left} tasks are stranded"));
    }
}

/// A clock that tells how long the writer wants to sleep, and lets it sleep until it is rung.
#[derive(Debug)]
struct Telling(ManualClock, Mutex<Sender<Duration>>);

impl Telling {
    fn new(clock: &ManualClock) -> (Self, Receiver<Duration>) {
        let (tell, told) = channel();
        (Self(clock.clone(), Mutex::new(tell)), told)
    }
}

impl Clock for Telling {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_for(&self, wait: Duration) -> Option<Duration> {
        let _ = self.1.lock().unwrap().send(wait);
        None
    }

    fn on_move(&self, listener: ClockListener) {
        self.0.on_move(listener);
    }
}

#[test]
fn c27_a_claim_that_waits_on_a_paused_queue_with_due_tasks_does_not_spin() {
    let clock = ManualClock::default();
    let (telling, told) = Telling::new(&clock);
    let shop = Shop::on(Db::builder().clock(telling).memory().unwrap(), clock);
    shop.enqueue(task(1).delay(secs(1)));
    block_on(shop.queue.pause()).unwrap();
    shop.pass(secs(2));
    for request in [claims("w"), claims("w").max(0)] {
        let claim = shop.waits(request);
        assert!(told.recv().unwrap() > Duration::ZERO, "the writer looks again at once, for ever");
        drop(claim);
    }
}

#[test]
fn c27_a_claim_that_waits_for_a_later_task_sleeps_until_then() {
    let clock = ManualClock::default();
    let (telling, told) = Telling::new(&clock);
    let shop = Shop::on(Db::builder().clock(telling).memory().unwrap(), clock);
    shop.enqueue(task(1).delay(Duration::from_millis(300)));
    let _claim = shop.waits(claims("w"));
    assert_eq!(told.recv().unwrap(), Duration::from_millis(300));
}

#[test]
fn c41_a_claim_that_waits_for_a_task_of_the_next_century_looks_in_bounded_steps_and_gets_it_not_a_year_early() {
    const YEAR: Duration = secs(365 * 24 * 3600);
    let clock = ManualClock::default();
    let (telling, told) = Telling::new(&clock);
    let shop = Shop::on(Db::builder().clock(telling).memory().unwrap(), clock);
    let never = shop.enqueue(task(1).delay(Duration::MAX).priority(9));
    let century = shop.enqueue(task(2).delay(100 * YEAR));
    let mut claim: Claiming<'_> = Box::pin(shop.queue.claim(claims("w").max(9).wait(Duration::MAX)));
    assert!(poll_once(&mut claim).is_pending());
    let step = told.recv().unwrap();
    assert!(step > Duration::ZERO && step <= secs(1), "{step:?}");
    shop.pass(99 * YEAR);
    assert!(shop.claim(9).is_empty());
    assert!(poll_once(&mut claim).is_pending());
    shop.pass(YEAR);
    assert_eq!(block_on(claim).unwrap().iter().map(|task| task.id).collect::<Vec<_>>(), [century]);
    assert!(block_on(shop.queue.cancel(never)).unwrap());
}
