//! A worker from outside: pause, health, presence, waiting for its results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aedb_queue::{Db, StateKind, WaitOutcome};
use aedb_worker::{Dead, Decided, Layer, Next, Outcome, TaskContext, TaskError, Worker, WorkerState, async_trait};

use crate::{on, one_task, task, until};

#[tokio::test]
async fn a_paused_worker_claims_nothing_and_is_not_ready_until_it_is_resumed() {
    let (db, queue, id) = one_task().await;
    let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).build().unwrap();
    let handle = worker.handle();
    assert_eq!((handle.health().state, handle.health().ready), (WorkerState::Idle, false));
    handle.pause();
    let running = tokio::spawn(worker.run());
    until(|| async { handle.health().state == WorkerState::Paused }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((queue.stats().await.unwrap().ready, handle.health().ready), (1, false));
    handle.resume();
    assert!(matches!(queue.wait_for(id, Duration::from_secs(10)).await.unwrap(), WaitOutcome::Finished(_)));
    assert!(handle.health().ready);
    // A claim that waits already is ended by a pause, too.
    handle.pause();
    until(|| async { handle.health().state == WorkerState::Paused }).await;
    queue.enqueue(task("n")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(queue.stats().await.unwrap().ready, 1);
    handle.shutdown();
    running.await.unwrap().unwrap();
    assert_eq!((handle.health().state, handle.health().ready), (WorkerState::Stopped, false));
}

#[tokio::test]
async fn a_worker_that_runs_is_told_to_drain_and_leaves_what_is_not_due() {
    let (db, queue, _) = one_task().await;
    let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).concurrency(1).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    until(|| async { queue.stats().await.unwrap().done == 1 }).await;
    queue.enqueue(task("n").delay(Duration::from_secs(3_600))).await.unwrap();
    queue.enqueue_batch(vec![task("n"); 20]).await.unwrap();
    // It may wait in a claim, or be busy: in both cases it hears of it.
    handle.drain();
    running.await.unwrap().unwrap();
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.done, stats.scheduled, stats.ready), (21, 1, 0));
}

#[tokio::test]
async fn live_workers_are_listed_and_a_task_that_nobody_knows_says_so() {
    let (db, queue, _) = one_task().await;
    let stranger = queue.enqueue(task("stranger")).await.unwrap().id;
    let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).owner("ada").build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let scope = db.default_scope();
    until(|| async { !scope.workers().await.unwrap().is_empty() }).await;
    let workers = scope.workers().await.unwrap();
    assert_eq!((&*workers[0].identity, workers[0].pid), ("ada", std::process::id()));
    assert_eq!((&workers[0].queues, &workers[0].names), (&vec!["q".to_owned()], &vec!["n".to_owned()]));
    let why = queue.explain(stranger).await.unwrap().to_string();
    assert!(why.contains("No live worker knows the name \"stranger\""), "{why}");
    handle.shutdown();
    running.await.unwrap().unwrap();
    assert!(scope.workers().await.unwrap().is_empty(), "a worker that stops takes its announcement back");
}

#[tokio::test]
async fn a_caller_waits_for_the_result_the_failure_or_the_news_that_the_record_is_gone() {
    let db = crate::store::fresh(Db::builder());
    let queue = db.queue("q").unwrap();
    let good = queue.enqueue(task("good")).await.unwrap().id;
    let bad = queue.enqueue(task("bad")).await.unwrap().id;
    let gone = queue.enqueue(task("good").keep_done(Duration::ZERO)).await.unwrap().id;
    let worker = on(&db)
        .handler("good", |input: u32, _| async move { Ok(Outcome::done(input + 1)) })
        .handler("bad", |_: u32, _| async { Err::<Outcome, _>(TaskError::new("boom")) })
        .build()
        .unwrap();
    let wait = |id| queue.wait_for(id, Duration::from_secs(20));
    let (ran, good, bad, gone) = tokio::join!(worker.drain(), wait(good), wait(bad), wait(gone));
    ran.unwrap();
    let good = good.unwrap().finished().unwrap();
    assert_eq!(good.result.unwrap().to::<u32>().unwrap(), 2);
    let bad = bad.unwrap().finished().unwrap();
    assert_eq!((bad.state.kind(), &*bad.failures[0].error), (StateKind::Dead, "boom"));
    assert!(matches!(gone.unwrap(), WaitOutcome::Gone));
}

#[tokio::test]
async fn a_worker_needs_handlers_with_names_of_their_own() {
    let done = |_: u32, _: TaskContext| async { Ok(Outcome::done(())) };
    let db = crate::store::fresh(Db::builder());
    let twice = Worker::builder(&db).queue("q").queue("q").weighted_queue("r", 0).handler("n", done).handler("n", done);
    let error = twice.state(1_u8).state(2_u8).prefetch(10_000).build().unwrap_err().to_string();
    for mistake in
        ["two handlers for n", "queue q is named twice", "weight 0", "two states of type u8", "prefetch 10000"]
    {
        assert!(error.contains(mistake), "{mistake} is missing in: {error}");
    }
}

#[derive(Clone, Default)]
struct Counts {
    around: Arc<AtomicU32>,
    dead: Arc<AtomicU32>,
}

#[async_trait]
impl Layer for Counts {
    async fn around(&self, cx: TaskContext, next: Next<'_>) -> Decided {
        self.around.fetch_add(1, Ordering::SeqCst);
        cx.effects().put(format!("before:{}", cx.attempt()), "yes");
        let decided = next.run(cx.clone()).await;
        decided.map_err(|error| TaskError::new(format!("wrapped: {error}")))
    }

    async fn on_dead(&self, dead: &Dead) {
        assert_eq!((&*dead.name, &*dead.error), ("n", "wrapped: boom"));
        self.dead.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn layers_wrap_each_attempt_and_hear_of_a_death_once() {
    let (db, queue, id) = one_task().await;
    let counts = Counts::default();
    let worker = on(&db).handler("n", |_: u32, _| async { Err::<Outcome, _>(TaskError::new("boom")) });
    worker.layer(counts.clone()).build().unwrap().drain().await.unwrap();
    until(|| async { counts.dead.load(Ordering::SeqCst) == 1 }).await;
    assert_eq!(counts.around.load(Ordering::SeqCst), 2);
    assert_eq!(&*queue.get(id).await.unwrap().unwrap().failures[1].error, "wrapped: boom");
    assert!(db.default_scope().kv().get("before:1").await.unwrap().is_none(), "a failure drops effects");
}

#[tokio::test]
async fn c24_a_task_that_dies_with_its_last_lease_is_heard_of_once() {
    let clock = aedb_queue::ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()));
    let queue = db.queue("q").unwrap();
    queue.enqueue(task("n").max_lost_leases(1)).await.unwrap();
    let request = aedb_queue::ClaimRequest::new("lost", aedb_queue::LeaseLength::secs(1));
    assert_eq!(queue.claim(request).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(2));
    struct Heard(Arc<AtomicU32>);
    #[async_trait]
    impl Layer for Heard {
        async fn on_dead(&self, _: &Dead) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let heard = Arc::new(AtomicU32::new(0));
    let worker = |heard: &Arc<AtomicU32>| {
        let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) });
        worker.layer(Heard(Arc::clone(heard))).poll_interval(Duration::from_millis(10)).build().unwrap()
    };
    let workers = [worker(&heard), worker(&heard)];
    let handles: Vec<_> = workers.iter().map(Worker::handle).collect();
    let running: Vec<_> = workers.into_iter().map(|worker| tokio::spawn(worker.run())).collect();
    until(|| async { heard.load(Ordering::SeqCst) > 0 }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    handles.iter().for_each(aedb_worker::WorkerHandle::shutdown);
    for worker in running {
        worker.await.unwrap().unwrap();
    }
    assert_eq!((heard.load(Ordering::SeqCst), queue.stats().await.unwrap().dead), (1, 1));
}
