//! Everybody else: who enqueues, cancels, steers, keeps a lease, sets the clock, and disturbs the workers.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{
    Amendment, Backoff, Db, Effects, Filter, HeldLease, LeaseLength, LeaseOutcome, NewTask, Queue, RenewOutcome, Result,
};
use aedb_tests::Dice;
use tokio::time::sleep;

use super::process::{Process, Weather};
use super::world::World;

async fn pause(dice: &mut Dice, most: u64) {
    sleep(Duration::from_millis(1 + dice.roll(most))).await;
}

/// The task of a number.
fn task(number: u64) -> Result<NewTask> {
    let task = NewTask::new("work", &number)?.idempotency_key(number.to_string()).priority(number % 3);
    let task = task.delay(Duration::from_millis(if number.is_multiple_of(5) { number * 13 % 900 } else { 0 }));
    let lost = if number.is_multiple_of(7) { 2 } else { 10_000 };
    Ok(task.max_attempts(3).max_lost_leases(lost).backoff(Backoff::fixed(Duration::from_millis(number % 400))))
}

/// Enqueues numbers until each is acknowledged; the key makes each one task. Where somebody else has left off it goes on.
pub(crate) async fn producer(world: Arc<World>, db: Db, mut dice: Dice) {
    let queue = db.queue("q").unwrap();
    while let Some(number) = world.next_number() {
        let many = if dice.roll(6) == 0 { 1 + dice.roll(4) } else { 1 };
        let numbers: Vec<_> =
            (0..many).map_while(|more| if more == 0 { Some(number) } else { world.next_number() }).collect();
        while enqueue(&queue, &world, &numbers).await.is_err() {
            pause(&mut dice, 100).await;
        }
        world.acknowledged(&numbers);
        if dice.roll(8) == 0 {
            // Somebody who did not hear the answer asks again.
            let _ = enqueue(&queue, &world, &numbers).await;
        }
        pause(&mut dice, 150).await;
    }
}

async fn enqueue(queue: &Queue, world: &World, numbers: &[u64]) -> Result<()> {
    if let [number] = numbers {
        let placed = Effects::new().put(format!("placed/{number}"), "");
        return queue.enqueue_with(task(*number)?, placed).await.map(drop);
    }
    let tasks: Vec<_> = numbers.iter().map(|number| task(*number)).collect::<Result<_>>()?;
    queue.enqueue_batch(tasks).await?;
    world.happened("a batch was enqueued");
    Ok(())
}

/// Cancels, raises, retries, pauses.
pub(crate) async fn operator(world: Arc<World>, db: Db, mut dice: Dice) {
    let queue = db.queue("q").unwrap();
    loop {
        pause(&mut dice, 900).await;
        let some = world.truth().some_task(dice.below(1_000));
        let Some(task) = some.filter(|(_, queue)| &**queue == "q").map(|(id, _)| id) else { continue };
        // What fails is left; a person would look and try again.
        let _ = match dice.roll(8) {
            0 => queue.cancel(task).await.map(drop),
            1 | 2 => queue.retry_all(Filter::dead()).await.map(drop),
            3 => queue.amend(task, Amendment::new().priority(dice.roll(9))).await.map(drop),
            4 => {
                let paused = queue.pause().await;
                if paused.is_ok() {
                    world.happened("a queue was paused");
                }
                pause(&mut dice, 1_500).await;
                while queue.resume().await.is_err() {
                    pause(&mut dice, 50).await;
                }
                paused
            }
            5 => queue.explain(task).await.map(drop),
            _ => queue.stats().await.map(drop),
        };
    }
}

/// Keeps a lease, writes under it, and now and then sleeps through its end.
pub(crate) async fn keeper(name: String, db: Db, mut dice: Dice) {
    let scope = db.default_scope();
    let lease = scope.lease("keeper").unwrap();
    let mut held: Option<HeldLease> = None;
    loop {
        let most = if dice.roll(4) == 0 { 3_000 } else { 300 };
        pause(&mut dice, most).await;
        let Some(holds) = &held else {
            if let Ok(LeaseOutcome::Acquired(new)) = lease.acquire(&name, LeaseLength::secs(1)).await {
                held = Some(new);
            }
            continue;
        };
        let kept = match dice.roll(5) {
            0 => lease.release(holds).await.map(|()| false),
            1 => lease.renew(holds, LeaseLength::secs(1)).await.map(|renewed| renewed != RenewOutcome::Lost),
            _ => {
                let effects = Effects::new().put(format!("kept/{}", holds.token), name.as_str());
                lease.guarded_commit(holds, effects).await.map(|answer| answer.is_applied())
            }
        };
        // One that has lost its lease tries once more all the same, as a program does that has not noticed.
        if !kept.unwrap_or(true) && dice.roll(2) == 0 {
            held = None;
        }
    }
}

/// Sets the database's clock.
pub(crate) async fn clock_setter(world: Arc<World>, mut dice: Dice) {
    loop {
        pause(&mut dice, 12_000).await;
        let most = if dice.roll(3) == 0 { 600_000 } else { 3_000 };
        let by = i64::try_from(1_000 * (1 + dice.roll(most))).unwrap();
        let back = dice.roll(3) == 0;
        world.truth().clock_was_set(back);
        world.clock.set_by(if back { -by } else { by });
    }
}

/// Stops workers past their leases, kills them, and starts others.
pub(crate) async fn disturber(world: Arc<World>, db: Db, mut workers: Vec<Process>, mut dice: Dice) {
    loop {
        pause(&mut dice, 2_500).await;
        if workers.is_empty() {
            return;
        }
        let at = dice.below(workers.len());
        match dice.roll(5) {
            3 => {
                world.truth().note(format!("cut off: {}", workers[at].name));
                workers[at].cut_off(true);
                pause(&mut dice, 6_000).await;
                workers[at].cut_off(false);
                world.happened("a worker was cut off from the store");
            }
            0 => {
                world.truth().stopped(&workers[at].name);
                workers[at].stop();
                pause(&mut dice, 6_000).await;
                workers[at].go_on();
                world.happened("a stopped worker went on after its lease");
            }
            1 => {
                world.truth().stopped(&workers[at].name);
                workers.swap_remove(at).kill();
                world.happened("a worker was killed");
                workers.push(Process::start(&world, &db, &mut dice, Weather::default()));
            }
            2 => {
                workers.swap_remove(at).shut_down().await;
                world.happened("a worker was shut down and another started");
                let weather = Weather::of(&mut dice);
                workers.push(Process::start(&world, &db, &mut dice, weather));
            }
            _ => {}
        }
    }
}
