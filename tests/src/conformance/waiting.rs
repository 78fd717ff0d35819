//! Claims that wait: they are served, they give up, and dropping one strands no task.

use crate::conformance::{Rule, rules};
use crate::{Shop, claims, secs, served, task};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_waiting_claim_is_served_by_an_enqueue,
    a_waiting_claim_is_served_when_a_task_becomes_due_and_when_a_lease_runs_out,
    a_waiting_claim_is_served_by_a_release_a_retry_a_follow_up_and_a_resume,
    a_waiting_claim_gives_up_with_nothing_when_its_time_is_over,
];

fn a_waiting_claim_is_served_by_an_enqueue() {
    let shop = Shop::new();
    let mut claim = shop.waits(claims("w"));
    shop.enqueue(task(1));
    assert_eq!(served(&mut claim), Some(1));
}

fn a_waiting_claim_is_served_when_a_task_becomes_due_and_when_a_lease_runs_out() {
    let shop = Shop::new();
    shop.enqueue(task(1).delay(secs(10)));
    let mut claim = shop.waits(claims("a"));
    shop.pass(secs(9));
    assert_eq!(served(&mut claim), None);
    shop.pass(secs(1));
    assert_eq!(served(&mut claim), Some(1));
    let mut claim = shop.waits(claims("b"));
    shop.outlive_leases();
    assert_eq!(served(&mut claim), Some(1));
}

fn a_waiting_claim_is_served_by_a_release_a_retry_a_follow_up_and_a_resume() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let held = shop.claim_one();
    let mut claim = shop.waits(claims("w"));
    assert!(block_on(shop.queue.release(&held)).unwrap().is_applied());
    assert_eq!(served(&mut claim), Some(1));

    assert!(block_on(shop.queue.cancel(id)).unwrap());
    let mut claim = shop.waits(claims("w"));
    assert!(block_on(shop.queue.retry(id)).unwrap());
    assert_eq!(served(&mut claim), Some(1));

    let other = shop.db.queue("other").unwrap();
    let mut claim = shop.waits(claims("w"));
    let effects = aedb_queue::Effects::new().enqueue("q", task(2));
    block_on(other.enqueue_with(task(3), effects)).unwrap();
    assert_eq!(served(&mut claim), Some(1));

    block_on(shop.queue.pause()).unwrap();
    let mut claim = shop.waits(claims("w"));
    shop.enqueue(task(4));
    assert_eq!(served(&mut claim), None);
    block_on(shop.queue.resume()).unwrap();
    assert_eq!(served(&mut claim), Some(1));
}

fn a_waiting_claim_gives_up_with_nothing_when_its_time_is_over() {
    let shop = Shop::new();
    let mut claim = shop.waits(claims("w"));
    shop.pass(secs(60));
    assert_eq!(served(&mut claim), Some(0));
}
