//! The life of a task, from enqueue to the last acknowledgement, as the README tells it.

use std::time::Duration;

use aedb_queue::{
    ClaimRequest, Completion, Db, Effects, FencedCommit, LeaseLength, LeaseLoss, ManualClock, NewTask, StateKind,
    TaskState,
};
use futures::executor::block_on;

fn claim_as(owner: &str) -> ClaimRequest {
    ClaimRequest::new(owner.to_owned(), LeaseLength::secs(30)).max(100)
}

#[test]
fn a_task_is_done_once_with_its_effects_and_follow_ups() {
    for inline in [true, false] {
        let builder = if inline { Db::builder().inline() } else { Db::builder() };
        let db = builder.memory().unwrap();
        block_on(async {
            let queue = db.queue("mail").unwrap();
            let sent = queue
                .enqueue_with(NewTask::new("send", &1).unwrap(), Effects::new().put("order", "placed"))
                .await
                .unwrap();
            let claimed = queue.claim(claim_as("a")).await.unwrap();
            assert_eq!(claimed.len(), 1);
            let completion = Completion::new()
                .effects(Effects::new().put("order", "sent"))
                .follow_up("archive", NewTask::new("store", &2).unwrap());
            assert!(queue.complete(&claimed[0], completion.clone()).await.unwrap().is_applied());
            let again = queue.complete(&claimed[0], completion).await.unwrap();
            assert_eq!(again, FencedCommit::LeaseLost(LeaseLoss::AlreadySettled));
            let record = queue.get(sent.id).await.unwrap().unwrap();
            assert_eq!(record.state.kind(), StateKind::Done);
            assert_eq!(db.default_scope().kv().get("order").await.unwrap().as_deref(), Some(b"sent".as_slice()));
            assert_eq!(db.queue("archive").unwrap().stats().await.unwrap().ready, 1);
            assert!(queue.check().await.unwrap().is_clean());
        });
    }
}

#[test]
fn c08_a_worker_that_slept_through_its_lease_can_do_nothing() {
    let clock = ManualClock::default();
    let db = Db::builder().clock(clock.clone()).inline().memory().unwrap();
    block_on(async {
        let queue = db.queue("q").unwrap();
        queue.enqueue(NewTask::new("n", &()).unwrap()).await.unwrap();
        let a = queue.claim(claim_as("a")).await.unwrap().remove(0);
        clock.advance(Duration::from_secs(31));
        let b = queue.claim(claim_as("b")).await.unwrap().remove(0);
        assert!(b.token > a.token);
        let late =
            Completion::new().effects(Effects::new().put("k", "a")).follow_up("q2", NewTask::new("n", &()).unwrap());
        assert_eq!(queue.complete(&a, late).await.unwrap(), FencedCommit::LeaseLost(LeaseLoss::TakenOver));
        assert!(!queue.fail(&a, "late").await.unwrap().is_applied());
        assert!(queue.complete(&b, Completion::new()).await.unwrap().is_applied());
        assert_eq!(db.default_scope().kv().get("k").await.unwrap(), None);
        assert_eq!(db.queue("q2").unwrap().stats().await.unwrap().ready, 0);
    });
}

#[test]
fn a_waiting_claim_is_served_when_a_task_comes_and_when_one_becomes_due() {
    let db = Db::memory().unwrap();
    let queue = db.queue("q").unwrap();
    let waiting = {
        let queue = queue.clone();
        std::thread::spawn(move || block_on(queue.claim(claim_as("w").wait(Duration::from_secs(20)))))
    };
    let id = block_on(queue.enqueue(NewTask::new("n", &()).unwrap().delay(Duration::from_millis(50)))).unwrap().id;
    let claimed = waiting.join().unwrap().unwrap();
    assert_eq!(claimed.iter().map(|task| task.id).collect::<Vec<_>>(), [id]);
}

#[test]
fn a_file_holds_its_tasks_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let id = {
        let db = Db::open(&path).unwrap();
        block_on(db.queue("q").unwrap().enqueue(NewTask::new("n", &7).unwrap())).unwrap().id
    };
    let db = Db::open(&path).unwrap();
    let record = block_on(db.queue("q").unwrap().get(id)).unwrap().unwrap();
    assert!(matches!(record.state, TaskState::Ready { .. }));
    assert_eq!(record.payload.to::<u32>().unwrap(), 7);
}

#[test]
fn a_backup_opens_with_tokens_above_all_that_were_handed_out_and_delivers_nothing_early() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("app.db"), folder.path().join("copy.db"));
    let clock = ManualClock::default();
    let db = Db::builder().clock(clock.clone()).open(&original).unwrap();
    block_on(async {
        let queue = db.queue("q").unwrap();
        queue.enqueue_batch((0..3).map(|n| NewTask::new("n", &n).unwrap()).collect()).await.unwrap();
        queue.enqueue(NewTask::new("n", &"later").unwrap().delay(Duration::from_secs(3600))).await.unwrap();
        let held = queue.claim(claim_as("a").max(1)).await.unwrap().remove(0);
        let mut steps = 0;
        db.backup(&copy, |progress| steps += u64::from(progress.done <= progress.total)).unwrap();
        assert!(steps > 0);
        assert!(db.backup(&copy, |_| ()).is_err(), "a backup never overwrites");
        // After the backup the lease changes hands in the original: the same token would come again in a plain copy.
        clock.advance(Duration::from_secs(31));
        let taken = queue.claim(claim_as("b").max(1)).await.unwrap().remove(0);
        assert_eq!(taken.id, held.id);

        let restored = Db::builder().clock(clock.clone()).open(&copy).unwrap();
        let again = restored.queue("q").unwrap();
        let claimed = again.claim(claim_as("c")).await.unwrap();
        assert_eq!(claimed.len(), 3, "the delayed one stays");
        assert!(claimed.iter().all(|task| task.token > taken.token));
        assert!(!again.complete(&taken, Completion::new()).await.unwrap().is_applied());
        assert!(again.check().await.unwrap().is_clean());
    });
}

#[test]
fn a_waiting_claim_that_is_dropped_strands_nothing() {
    let db = Db::memory().unwrap();
    let queue = db.queue("q").unwrap();
    for _ in 0..200 {
        let waiting = queue.claim(claim_as("gone").wait(Duration::from_secs(60)));
        let mut waiting = Box::pin(waiting);
        assert!(futures::FutureExt::now_or_never(waiting.as_mut()).is_none());
        block_on(queue.enqueue(NewTask::new("n", &()).unwrap())).unwrap();
        drop(waiting);
        let claimed = block_on(queue.claim(claim_as("here").wait(Duration::from_secs(60)))).unwrap();
        assert_eq!(claimed.len(), 1);
        assert!(block_on(queue.complete(&claimed[0], Completion::new())).unwrap().is_applied());
    }
}
