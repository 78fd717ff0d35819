//! The outbox: nothing lost, in order for each key, and nobody held up by somebody else's trouble.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Backoff, Db, Effects, ErrorKind, KeyRange, LeaseLength, ManualClock};
use aedb_worker::outbox::{Dispatcher, DispatcherBuilder, Event, Outbox, event};
use aedb_worker::testing::{Call, Fault, Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError};
use tokio::sync::Notify;

use crate::{on, task, until};

/// What arrived, by key, in order.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<BTreeMap<String, Vec<u64>>>>);

impl Received {
    fn take(&self, event: &Event) {
        let number = event.payload.to().unwrap();
        self.0.lock().unwrap().entry(event.key.clone()).or_default().push(number);
    }

    fn of(&self, key: &str) -> Vec<u64> {
        self.0.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// Records events 0 to `count` of each key, interleaved.
async fn record(db: &Db, keys: &[&str], count: u64) {
    let kv = db.default_scope().kv();
    for number in 0..count {
        let mut effects = Effects::new();
        for key in keys {
            effects = effects.and(event("orders", key, &number).unwrap());
        }
        kv.commit(effects).await.unwrap();
    }
}

fn dispatcher(db: &Db) -> DispatcherBuilder {
    Dispatcher::builder(db).topic("orders").backoff(Backoff::none()).lease(Duration::from_secs(1))
}

fn into(received: &Received) -> impl Fn(Event) -> std::future::Ready<Result<(), TaskError>> + Send + Sync + use<> {
    let received = received.clone();
    move |event| {
        received.take(&event);
        std::future::ready(Ok(()))
    }
}

fn outbox(db: &Db) -> Outbox {
    Outbox::new(&db.default_scope(), "orders").unwrap()
}

#[tokio::test]
async fn every_event_arrives_once_and_in_order_of_its_key() {
    let db = crate::store::fresh(Db::builder());
    let long = "x".repeat(255);
    let keys: Vec<String> = (0..100).map(|n| format!("key {n}")).chain(["ключ \"1\"".into(), long]).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    record(&db, &names, 100).await;
    let received = Received::default();
    let delivered = dispatcher(&db).publisher(into(&received)).batch(7).build().unwrap().drain().await.unwrap();
    assert_eq!((delivered, received.count()), (10_200, 10_200));
    for key in names {
        assert_eq!(received.of(key), (0..100).collect::<Vec<_>>(), "{key}");
    }
    assert_eq!(outbox(&db).waiting(10).await.unwrap(), 0);
}

#[tokio::test]
async fn an_event_exists_if_and_only_if_its_change_does() {
    let db = crate::store::fresh(Db::builder());
    let kv = db.default_scope().kv();
    let place =
        || Effects::new().assert_absent("order:1").put("order:1", "placed").and(event("orders", "1", &0).unwrap());
    kv.commit(place()).await.unwrap();
    assert_eq!(kv.commit(place()).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(outbox(&db).waiting(10).await.unwrap(), 1);
    // The same from a handler: its failure takes the event with it.
    let queue = db.queue("q").unwrap();
    queue.enqueue(task("n").max_attempts(3)).await.unwrap();
    let handler = |_: u32, cx: TaskContext| async move {
        cx.effects().and(event("orders", "2", &cx.attempt())?);
        if cx.attempt() == 1 { Err(TaskError::new("once")) } else { Ok(Outcome::done(())) }
    };
    on(&db).handler("n", handler).build().unwrap().drain().await.unwrap();
    let received = Received::default();
    dispatcher(&db).publisher(into(&received)).build().unwrap().drain().await.unwrap();
    assert_eq!((received.of("1"), received.of("2")), (vec![0], vec![2]));
}

#[tokio::test]
async fn a_poison_event_parks_its_own_key_until_somebody_retries_or_skips_it() {
    let db = crate::store::fresh(Db::builder());
    record(&db, &["good", "bad", "fatal"], 5).await;
    let (received, healed) = (Received::default(), Arc::new(AtomicBool::new(false)));
    let publisher = |received: &Received| {
        let (received, healed) = (received.clone(), Arc::clone(&healed));
        move |event: Event| {
            let number: u64 = event.payload.to().unwrap();
            let fails = !healed.load(Ordering::SeqCst) && number == 2 && event.key != "good";
            let sent = match event.key.as_str() {
                "fatal" if fails => Err(TaskError::new("no such receiver").fatal()),
                "bad" if fails => Err(TaskError::new("away \u{1b}[31m")),
                _ => {
                    received.take(&event);
                    Ok(())
                }
            };
            std::future::ready(sent)
        }
    };
    let build = || dispatcher(&db).max_attempts(3).publisher(publisher(&received)).build().unwrap();
    assert_eq!(build().drain().await.unwrap(), 9);
    assert_eq!((received.of("good").len(), received.of("bad"), received.of("fatal")), (5, vec![0, 1], vec![0, 1]));
    let mut parked = outbox(&db).parked().await.unwrap();
    parked.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(parked.iter().map(|p| (p.key.as_str(), p.attempts)).collect::<Vec<_>>(), [("bad", 3), ("fatal", 1)]);
    assert_eq!(parked[1].error, "no such receiver");
    assert_eq!(build().drain().await.unwrap(), 0, "what is parked stays so");
    healed.store(true, Ordering::SeqCst);
    assert!(outbox(&db).retry("bad").await.unwrap() && outbox(&db).skip("fatal").await.unwrap());
    assert!(!outbox(&db).retry("good").await.unwrap() && !outbox(&db).skip("never").await.unwrap());
    assert_eq!(build().drain().await.unwrap(), 5);
    assert_eq!((received.of("bad"), received.of("fatal")), (vec![0, 1, 2, 3, 4], vec![0, 1, 3, 4]));
    assert!(outbox(&db).parked().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_publisher_that_hangs_or_panics_holds_up_only_its_key() {
    let db = crate::store::fresh(Db::builder());
    // All in one lane, so that they share everything that a lane has.
    let keys: Vec<String> =
        (0..2_000).map(|n| n.to_string()).filter(|key| lane(key) == lane("hangs")).take(20).collect();
    let mut names: Vec<&str> = keys.iter().map(String::as_str).collect();
    names.push("hangs");
    record(&db, &names, 3).await;
    let received = Received::default();
    let (taking, calls) = (received.clone(), Arc::new(AtomicU32::new(0)));
    let counting = Arc::clone(&calls);
    let publish = move |event: Event| {
        let (taking, counting) = (taking.clone(), Arc::clone(&counting));
        async move {
            if event.key == "hangs" {
                if counting.fetch_add(1, Ordering::SeqCst) == 0 {
                    panic!("once");
                }
                std::future::pending::<()>().await;
            }
            taking.take(&event);
            Ok(())
        }
    };
    let hanging = dispatcher(&db).publisher(publish).timeout(Duration::from_secs(3_600)).build().unwrap();
    let (handle, running) = (hanging.handle(), tokio::spawn(hanging.run()));
    until(|| async { received.count() == 60 && calls.load(Ordering::SeqCst) == 2 }).await;
    // More events for the others flow while it still hangs.
    record(&db, &names[..20], 3).await;
    until(|| async { received.count() == 120 }).await;
    handle.shutdown();
    assert_eq!(running.await.unwrap().unwrap(), 120);
    assert_eq!(outbox(&db).waiting(10).await.unwrap(), 3);
    let timed = dispatcher(&db).publisher(|_| std::future::pending()).timeout(Duration::from_millis(5)).max_attempts(2);
    timed.build().unwrap().drain().await.unwrap();
    let parked = outbox(&db).parked().await.unwrap();
    assert_eq!((parked.len(), parked[0].error.as_str()), (1, "the publisher did not answer within 5ms"));
}

/// As the outbox does: part of its layout.
fn lane(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)) % 32
}

#[tokio::test]
async fn a_dispatcher_that_slept_through_its_lease_records_nothing_and_the_next_one_skips_nothing() {
    let clock = ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()));
    record(&db, &["a"], 3).await;
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starting, open) = (Arc::clone(&started), Arc::clone(&gate));
    let slow = move |_: Event| {
        let (starting, open) = (Arc::clone(&starting), Arc::clone(&open));
        async move {
            starting.notify_one();
            open.notified().await;
            Ok(())
        }
    };
    // Its own monotonic clock sees an hour's lease; the database's clock says that it is long over.
    let zombie = dispatcher(&db).lease(Duration::from_secs(3_600)).publisher(slow).build().unwrap();
    let (handle, running) = (zombie.handle(), tokio::spawn(zombie.run()));
    started.notified().await;
    clock.advance(Duration::from_secs(3_601));
    let received = Received::default();
    let next = dispatcher(&db).lease(Duration::from_secs(60)).publisher(into(&received)).build().unwrap();
    let (next_handle, next_running) = (next.handle(), tokio::spawn(next.run()));
    until(|| async { received.count() == 3 }).await;
    record(&db, &["a"], 5).await;
    for _ in 0..5 {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    until(|| async { received.count() == 8 }).await;
    handle.shutdown();
    assert_eq!(running.await.unwrap().unwrap(), 0, "the zombie has recorded nothing");
    next_handle.shutdown();
    assert_eq!(next_running.await.unwrap().unwrap(), 8);
    assert_eq!(received.of("a"), [0, 1, 2, 0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn the_lanes_of_a_dead_dispatcher_are_taken_over_when_its_leases_end_and_the_living_share_them() {
    let db = crate::store::fresh(Db::builder());
    let keys: Vec<String> = (0..64).map(|n| n.to_string()).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    record(&db, &names, 2).await;
    let scope = db.default_scope();
    for lane in 0..32 {
        let lease = scope.lease(&format!("outbox:orders:{lane}")).unwrap();
        lease.acquire("dead", LeaseLength::secs(1)).await.unwrap();
    }
    let received = [Received::default(), Received::default()];
    let build = |received: &Received| dispatcher(&db).publisher(into(received)).build().unwrap();
    let dispatchers = [build(&received[0]), build(&received[1])];
    let handles: Vec<_> = dispatchers.iter().map(Dispatcher::handle).collect();
    let running: Vec<_> = dispatchers.into_iter().map(|dispatcher| tokio::spawn(dispatcher.run())).collect();
    until(|| async { received[0].count() + received[1].count() == 128 }).await;
    // Once the leases have settled, both have work.
    let held = |owner: usize| {
        let (scope, received) = (scope.clone(), &received);
        async move {
            let _ = received;
            let page = scope.leases("outbox:orders:", None, 100).await.unwrap();
            let mut owners: Vec<_> = page.leases.iter().filter_map(|lease| lease.owner.clone()).collect();
            owners.sort();
            let first = owners.first().cloned();
            owners.iter().filter(|name| (Some(*name) == first.as_ref()) == (owner == 0)).count()
        }
    };
    until(|| async { held(0).await == 16 && held(1).await == 16 }).await;
    handles.iter().for_each(aedb_worker::WorkerHandle::shutdown);
    for dispatcher in running {
        dispatcher.await.unwrap().unwrap();
    }
    let free = scope.leases("outbox", None, 100).await.unwrap().leases;
    assert!(free.iter().all(|lease| lease.owner.is_none()), "everything was given back");
}

#[tokio::test]
async fn a_dispatcher_that_runs_is_told_to_drain() {
    let db = crate::store::fresh(Db::builder());
    let received = Received::default();
    let dispatcher = dispatcher(&db).publisher(into(&received)).build().unwrap();
    let (handle, running) = (dispatcher.handle(), tokio::spawn(dispatcher.run()));
    record(&db, &["a", "b"], 50).await;
    handle.drain();
    assert_eq!((running.await.unwrap().unwrap(), received.count()), (100, 100));
}

#[tokio::test]
async fn delivered_events_are_remembered_for_as_long_as_asked() {
    let clock = ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()));
    record(&db, &["a", "b"], 700).await;
    let received = Received::default();
    let build = || {
        let dispatcher = dispatcher(&db).publisher(into(&received)).keep_delivered(Duration::from_secs(60));
        dispatcher.build().unwrap()
    };
    build().drain().await.unwrap();
    let kv = db.default_scope().kv();
    let kept = || kv.scan(KeyRange::prefix(b"\x00outbox:d".to_vec()));
    assert_eq!(kept().await.unwrap().len(), 1_000, "a page of them");
    clock.advance(Duration::from_secs(61));
    build().drain().await.unwrap();
    assert!(kept().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_dispatcher_that_cannot_be_built_names_every_mistake() {
    let db = crate::store::fresh(Db::builder());
    let error = Dispatcher::builder(&db).topic("").batch(0).lease(Duration::ZERO).max_attempts(0).build().unwrap_err();
    for mistake in ["a topic has 1 to 255 bytes", "no publisher", "batch 0", "the lease, 0ns", "max_attempts 0"] {
        assert!(error.to_string().contains(mistake), "{mistake} is missing in: {error}");
    }
    assert!(event("orders", "", &1).is_err() && event("\n", "a", &1).is_err());
}

#[tokio::test]
async fn a_drain_does_not_end_with_the_leases_that_it_lost_on_the_way() {
    let db = crate::store::fresh(Db::builder());
    record(&db, &["a"], 30).await;
    let (faults, received) = (Faults::new(), Received::default());
    // The first leases live no longer than their second, in which there is time for some sixteen events.
    let end = tokio::time::Instant::now() + Duration::from_millis(1_500);
    faults
        .plan(move |call: Call| (call.verb == Verb::Renew && tokio::time::Instant::now() < end).then_some(Fault::Fail));
    let slowly = {
        let received = received.clone();
        move |event: Event| {
            let received = received.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(60)).await;
                received.take(&event);
                Ok(())
            }
        }
    };
    dispatcher(&faults.on(&db)).publisher(slowly).batch(1).build().unwrap().drain().await.unwrap();
    assert_eq!(outbox(&db).waiting(10).await.unwrap(), 0);
    assert!(received.count() >= 30);
}

#[tokio::test]
async fn a_dispatcher_outlives_a_store_that_is_away_whatever_it_asks() {
    for verb in [Verb::Acquire, Verb::Renew, Verb::Read, Verb::Commit, Verb::GuardedCommit] {
        let db = crate::store::fresh(Db::builder());
        record(&db, &["a", "b"], 5).await;
        let (faults, calls) = (Faults::new(), AtomicU32::new(0));
        faults.plan(move |call: Call| {
            (call.verb == verb && calls.fetch_add(1, Ordering::SeqCst) < 3).then_some(Fault::Fail)
        });
        let received = Received::default();
        dispatcher(&faults.on(&db)).publisher(into(&received)).build().unwrap().drain().await.unwrap();
        assert_eq!(outbox(&db).waiting(10).await.unwrap(), 0, "{verb:?}");
        assert!(received.count() >= 10, "{verb:?}");
    }
}
