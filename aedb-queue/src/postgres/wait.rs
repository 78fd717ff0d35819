//! Wait for: looks that end when a task has finished or gone, and by their time at the latest.

use std::sync::Arc;
use std::time::Duration;

use super::PgStore;
use super::grant::Target;
use super::hints::Topic;
use super::inspect::Get;
use crate::error::Result;
use crate::model::task::TaskId;
use crate::store::{Place, WaitOutcome};

/// The time between looks at an end that another process may write, at first and at most.
const POLL: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

pub(super) async fn wait(
    store: &PgStore,
    at: &Place,
    queue: &str,
    id: TaskId,
    timeout: Duration,
) -> Result<WaitOutcome> {
    let (store, at, name) = (store.clone(), at.clone(), Arc::<str>::from(queue));
    let (caller, alarm) = (store.clone(), store.alarm(timeout));
    caller
        .detached(async move {
            let topic = Topic::finished(&at, &name);
            let verb = Get { at: at.clone(), queue: Arc::clone(&name), id };
            let [mut pause, longest] = POLL;
            loop {
                let hint = store.0.hints.of(topic);
                let Some(record) = store.attempts(&at, &Target::Queue(name.to_string()), &verb).await? else {
                    return Ok(WaitOutcome::Gone);
                };
                if record.state.finished().is_some() {
                    return Ok(WaitOutcome::Finished(Box::new(record)));
                }
                if alarm.is_over() {
                    return Ok(WaitOutcome::Pending(record.state.kind()));
                }
                alarm.wait(hint, pause).await;
                pause = (pause * 2).min(longest);
            }
        })
        .await
}
