//! Queues that AEDB's own calls have filled are worked off by ours, with all that their tasks had.

#![cfg(feature = "aedb")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use aedb::{AedbInstance, EnqueueOptions};
use aedb_queue::{Db, DeadReason, FencingToken, NewTask, Queue, TaskId, TaskState};
use aedb_tests::instance::{self, config, runtime};
use aedb_tests::{assert_clean, claims, secs};
use futures::executor::block_on;

fn legacy() -> (Arc<AedbInstance>, Queue, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), config());
    let queue = instance::attach(Db::builder(), Arc::clone(&instance)).queue("mail").unwrap();
    assert!(block_on(queue.claim(claims("w"))).unwrap().is_empty());
    (instance, queue, folder)
}

fn enqueue(instance: &AedbInstance, payload: &str, change: impl FnOnce(&mut EnqueueOptions)) -> TaskId {
    let mut options = EnqueueOptions { payload_json: payload.to_owned(), ..EnqueueOptions::default() };
    change(&mut options);
    let done = runtime().block_on(instance.queue_enqueue("default", "default", "mail", options, Vec::new())).unwrap();
    TaskId::from_u64(done.task_id.parse().unwrap())
}

fn claim_theirs(instance: &AedbInstance, lease_micros: u64) -> Vec<aedb::ClaimedTask> {
    runtime().block_on(instance.queue_claim("default", "default", "mail", "old", lease_micros, 1)).unwrap()
}

#[test]
fn a_queue_that_aedb_filled_is_claimed_in_its_order_with_payloads_priorities_and_delays() {
    let (instance, queue, _folder) = legacy();
    let ids = [1, 2, 3].map(|n: u32| enqueue(&instance, &n.to_string(), |_| {}));
    let urgent = enqueue(&instance, "\"urgent\"", |options| options.priority = 7);
    let later = enqueue(&instance, "", |options| options.delay_micros = 3_600_000_000);
    let claimed = block_on(queue.claim(claims("w").max(10))).unwrap();
    assert_eq!(claimed.iter().map(|task| task.id).collect::<Vec<_>>(), [urgent, ids[0], ids[1], ids[2]]);
    assert_eq!((claimed[0].payload.as_str(), &*claimed[0].name), ("\"urgent\"", "mail"));
    let waits = block_on(queue.get(later)).unwrap().unwrap();
    assert!(matches!(waits.state, TaskState::Scheduled { .. }) && waits.payload.as_str() == "null");
    for claim in &claimed {
        assert!(block_on(queue.complete(claim, aedb_queue::Completion::new())).unwrap().is_applied());
    }
    // AEDB goes on enqueuing, and finds nothing of what was taken over.
    let next = enqueue(&instance, "4", |_| {});
    assert_eq!(block_on(queue.claim(claims("w"))).unwrap()[0].id, next);
    assert!(claim_theirs(&instance, 1).is_empty());
    assert_clean(&queue);
}

#[test]
fn counters_errors_progress_keys_and_tokens_are_kept_and_a_lease_of_aedbs_runs_out_first() {
    let (instance, queue, _folder) = legacy();
    let failed = enqueue(&instance, "1", |options| {
        (options.max_attempts, options.backoff_base_micros) = (2, 1);
        options.idempotency_key = Some("once".to_owned());
    });
    let claim = claim_theirs(&instance, 60_000_000).remove(0);
    let beat = instance.queue_heartbeat(
        "default",
        "default",
        "mail",
        &claim.task_id,
        claim.fencing_token,
        60_000_000,
        Some("{\"page\":3}".to_owned()),
    );
    runtime().block_on(beat).unwrap();
    let failing =
        instance.queue_fail("default", "default", "mail", &claim.task_id, claim.fencing_token, "no".to_owned());
    runtime().block_on(failing).unwrap();
    let dead = enqueue(&instance, "2", |options| (options.max_attempts, options.priority) = (1, 9));
    let doomed = claim_theirs(&instance, 60_000_000).remove(0);
    let failing =
        instance.queue_fail("default", "default", "mail", &doomed.task_id, doomed.fencing_token, "never".to_owned());
    runtime().block_on(failing).unwrap();
    let held = enqueue(&instance, "3", |options| options.priority = 9);
    assert_eq!(claim_theirs(&instance, 3_600_000_000)[0].task_id.parse::<u64>().unwrap(), held.as_u64());

    let claimed = block_on(queue.claim(claims("w").max(10).wait(secs(5)))).unwrap();
    assert_eq!(claimed.iter().map(|task| task.id).collect::<Vec<_>>(), [failed]);
    assert_eq!(claimed[0].progress.as_ref().unwrap().as_str(), "{\"page\":3}");
    assert_eq!(claimed[0].token, FencingToken::from_u64(claim.fencing_token + 1));
    let record = block_on(queue.get(failed)).unwrap().unwrap();
    assert_eq!((record.counters.failures, record.max_attempts, &*record.failures[0].error), (1, 2, "no"));
    let again = block_on(queue.enqueue(NewTask::new("mail", &1).unwrap().idempotency_key("once"))).unwrap();
    assert!(again.id == failed && again.deduplicated && !again.differs);
    let state = |id| block_on(queue.get(id)).unwrap().unwrap().state;
    assert!(matches!(state(dead), TaskState::Dead { reason: DeadReason::AttemptsSpent, .. }));
    assert!(matches!(state(held), TaskState::InFlight { owner, .. } if &*owner == "old"));
    assert_clean(&queue);
}

#[test]
fn more_tasks_of_aedbs_than_one_commit_takes_over_are_all_found_and_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), config());
    let limits = aedb_queue::AedbLimits { mutations: 320, ..instance::limits() };
    let _within = runtime().enter();
    let queue = Db::builder().aedb_limits(limits).aedb(Arc::clone(&instance)).unwrap().queue("mail").unwrap();
    drop(_within);
    assert!(block_on(queue.claim(claims("w"))).unwrap().is_empty());
    let ids: Vec<TaskId> = (0..70).map(|n: u32| enqueue(&instance, &n.to_string(), |_| {})).collect();
    let mut claimed = Vec::new();
    while claimed.len() < ids.len() {
        let more = block_on(queue.claim(claims("w").max(30).wait(secs(5)))).unwrap();
        assert!(!more.is_empty());
        claimed.extend(more.into_iter().map(|task| task.id));
    }
    assert_eq!(claimed, ids);
    assert_clean(&queue);
}
