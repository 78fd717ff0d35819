//! Connections that are cut: what was not applied is said to be so, what may have been is unknown, and asking tells.

use std::time::Duration;

use aedb_queue::{Completion, Db, Effects, ErrorKind, FencedCommit, LeaseLoss, Queue};
use aedb_tests::server::{Schema, address};
use aedb_tests::{Dice, task, tell};
use tokio::time::timeout;

use super::own::url;
use super::proxy::{Cut, Proxy};
use super::{claim, on_a_schema};

/// A network in front of the server of the tests.
async fn network() -> Proxy {
    let port = address().split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    Proxy::to(port).await
}

/// A queue that is reached over the network.
async fn over(proxy: &Proxy, schema: &Schema) -> Queue {
    let builder = Db::builder().schema(&schema.name).connections(2).patience(Duration::from_secs(2));
    builder.connect(&url(proxy.port)).await.unwrap().queue("q").unwrap()
}

#[test]
fn c05_an_enqueue_is_ok_only_if_it_is_committed_wherever_its_connection_is_cut() {
    on_a_schema(async |schema| {
        let (proxy, truth) = (network().await, schema.store.db().queue("q").unwrap());
        let kv = schema.store.db().default_scope().kv();
        let (queue, mut dice) = (over(&proxy, schema).await, Dice::new(5));
        queue.enqueue(task(0)).await.unwrap();
        let (mut ok, mut not_applied, mut unknown, mut unknown_but_there) = (0, 0, 0, 0);
        for trial in 0..400_u64 {
            let cut = Cut::ALL[dice.below(Cut::ALL.len())];
            let (key, effect) = (format!("k{trial}"), format!("e{trial}"));
            proxy.cut(cut);
            let task = task(trial).idempotency_key(key.as_str());
            let effects = if dice.roll(3) == 0 { Effects::new() } else { Effects::new().put(effect.as_str(), "yes") };
            let has_effects = !effects.is_empty();
            let answer = queue.enqueue_with(task.clone(), effects).await;
            let was_cut = !proxy.take_back();
            // Asking tells: the key has its task if and only if the commit was applied.
            let is_there = truth.enqueue(task).await.unwrap().deduplicated;
            if has_effects {
                assert_eq!(kv.get(effect.as_str()).await.unwrap().is_some(), is_there, "both or neither");
            }
            match answer.map_err(|error| error.kind()) {
                Ok(_) => {
                    assert!(is_there, "trial {trial}: Ok and nothing there, {cut:?}");
                    ok += 1;
                }
                Err(ErrorKind::Unavailable) => {
                    assert!(!is_there && was_cut, "trial {trial}: said to be not applied, {cut:?}");
                    not_applied += 1;
                }
                Err(ErrorKind::UnknownOutcome) => {
                    assert!(was_cut);
                    assert!(!matches!(cut, Cut::AfterCommit | Cut::AfterStatement if !has_effects) || is_there);
                    unknown += 1;
                    unknown_but_there += u32::from(is_there);
                }
                Err(kind) => panic!("{kind:?}"),
            }
        }
        assert!(ok > 20 && not_applied > 50 && unknown > unknown_but_there && unknown_but_there > 20);
        let told = format!("{ok} applied, {not_applied} not, {unknown} unknown, of which {unknown_but_there} applied");
        tell("enqueues whose connection was cut", &told);
    });
}

#[test]
fn a_completion_whose_answer_is_lost_is_unknown_and_completing_again_tells() {
    on_a_schema(async |schema| {
        let proxy = network().await;
        let queue = over(&proxy, schema).await;
        queue.enqueue_batch((0..20).map(task).collect()).await.unwrap();
        for (n, claimed) in claim(&queue, 20).await.iter().enumerate() {
            let cut = Cut::ALL[n % 5];
            let effects = || Effects::new().put(format!("done:{n}"), "yes");
            let done = || Completion::new().effects(if n < 10 { effects() } else { Effects::new() });
            proxy.cut(cut);
            let first = queue.complete(claimed, done()).await;
            let was_cut = !proxy.take_back();
            let again = timeout(Duration::from_secs(5), queue.complete(claimed, done())).await.unwrap().unwrap();
            let was_applied = again == FencedCommit::LeaseLost(LeaseLoss::AlreadySettled);
            assert!(was_applied || again.is_applied(), "{again:?}");
            match first {
                Ok(answer) => assert!(!was_cut && answer.is_applied() && was_applied),
                Err(error) if error.kind() == ErrorKind::UnknownOutcome => {
                    let reached = matches!(cut, Cut::AfterCommit) || cut == Cut::AfterStatement && n >= 10;
                    assert_eq!(was_applied, reached, "{cut:?}");
                }
                Err(error) => assert!(error.kind() == ErrorKind::Unavailable && !was_applied, "{cut:?}: {error}"),
            }
        }
        assert_eq!(queue.stats().await.unwrap().done, 20);
    });
}

#[test]
fn a_network_that_is_silent_ends_each_call_in_its_time_and_costs_no_connection_for_good() {
    on_a_schema(async |schema| {
        let proxy = network().await;
        let queue = over(&proxy, schema).await;
        queue.enqueue_batch((0..4).map(task).collect()).await.unwrap();
        let claims = claim(&queue, 2).await;
        for _ in 0..2 {
            proxy.be_silent(true);
            let done = claims.iter().map(|claimed| queue.complete(claimed, Completion::new()));
            let calls = timeout(Duration::from_secs(30), futures::future::join_all(done)).await.unwrap();
            assert!(calls.iter().all(|call| {
                call.as_ref()
                    .is_err_and(|error| matches!(error.kind(), ErrorKind::UnknownOutcome | ErrorKind::Unavailable))
            }));
            assert!(timeout(Duration::from_secs(30), queue.stats()).await.unwrap().is_err());
            proxy.be_silent(false);
            // All connections were in use while it was silent.
            for _ in 0..4 {
                timeout(Duration::from_secs(5), queue.stats()).await.unwrap().unwrap();
            }
        }
        for claimed in &claims {
            let told = queue.complete(claimed, Completion::new()).await.unwrap();
            assert!(matches!(told, FencedCommit::Applied | FencedCommit::LeaseLost(LeaseLoss::AlreadySettled)));
        }
    });
}

#[test]
fn c54_what_a_claim_took_whose_answer_was_lost_is_ready_again_at_once_and_charged_nothing() {
    on_a_schema(async |schema| {
        let proxy = network().await;
        let queue = over(&proxy, schema).await;
        queue.enqueue_batch((0..500).map(task).collect()).await.unwrap();
        claim(&queue, 1).await;
        proxy.cut(Cut::AfterStatement);
        let lost = queue.claim(super::request(300)).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::UnknownOutcome);
        let all_back = async {
            while queue.stats().await.unwrap().ready < 499 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(10), all_back).await.unwrap();
        let claims = claim(&queue, 1_000).await;
        assert_eq!((claims.len(), queue.stats().await.unwrap().in_flight), (499, 500));
        let again = claims.iter().filter(|claimed| claimed.counters.deliveries == 2);
        assert_eq!(again.clone().count(), 300);
        assert!(again.into_iter().all(|claimed| claimed.counters.attempts == 1 && claimed.counters.lost_leases == 0));
    });
}
