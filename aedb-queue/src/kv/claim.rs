//! Claim: the highest priorities among all due tasks, under a new token each.
//!
//! Before it looks, a claim moves what is due: leases that ran out and scheduled tasks whose instant has come, up to
//! [`sweep::CLAIM_STEPS`] of each.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use super::grant::{self, Target};
use super::keys::{self, QueueKeys, ScopeKeys};
use super::legacy;
use super::record::{Slot, Stored, body};
use super::scope::ScopeTxn;
use super::sweep;
use crate::engine::{Engine, Turn, Txn, View, submit_detached, submit_waiting};
use crate::error::Result;
use crate::model::task::{FencingToken, StateKind, TaskId, TaskState};
use crate::model::transition::{self, Verdict};
use crate::store::{Access, ClaimRequest, ClaimedTask, Place};
use crate::time::Timestamp;

/// Index keys that one look into a name's line fetches.
const CHUNK: usize = 64;

/// Submits a claim. If the caller goes away before it gets the tasks, they are given back at once.
pub(crate) async fn submit(
    engine: &Arc<dyn Engine>,
    now: Timestamp,
    at: &Place,
    callers_required: bool,
    queue: &str,
    request: ClaimRequest,
) -> Result<Vec<ClaimedTask>> {
    let gives_up = now.saturating_add(request.wait);
    let (at, queue, weak) = (at.clone(), Arc::<str>::from(queue), Arc::downgrade(engine));
    let keys = ScopeKeys::new(&at.project, &at.scope).queue(&queue);
    let target = Target::queue(&queue);
    let handed =
        submit_waiting(engine.as_ref(), at.caller.clone(), gives_up, Handed::undo, move |txn: &mut Txn<'_>| {
            grant::allow(txn, &at, callers_required, &target, Access::Write)?;
            let mut scope = ScopeTxn::new(txn, at.clone(), callers_required);
            let tasks = claim(&mut scope, &keys, &queue, &request)?;
            // Nothing becomes due for a claim that moves nothing: it would look again and again.
            let idle = request.max == 0 || scope.head(&keys)?.paused.is_some();
            let until = if tasks.is_empty() && !idle { sweep::next_due(scope.txn, &keys)? } else { None };
            scope.flush();
            let handed = Handed { tasks, at: at.clone(), keys: keys.clone(), engine: Weak::clone(&weak) };
            Ok(if handed.tasks.is_empty() {
                Turn::Wait { topic: keys.topic().to_vec(), until, so_far: handed }
            } else {
                Turn::Ready(handed)
            })
        })
        .await?;
    Ok(handed.take())
}

/// Claimed tasks on their way to whoever asked for them.
struct Handed {
    tasks: Vec<ClaimedTask>,
    at: Place,
    keys: QueueKeys,
    engine: Weak<dyn Engine>,
}

impl Handed {
    /// The claim was not committed: there is nothing to give back.
    fn undo(&mut self) {
        self.tasks.clear();
    }

    fn take(mut self) -> Vec<ClaimedTask> {
        std::mem::take(&mut self.tasks)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let claims: Vec<(TaskId, FencingToken)> = self.tasks.iter().map(|task| (task.id, task.token)).collect();
        if claims.is_empty() {
            return;
        }
        let Some(engine) = self.engine.upgrade() else { return };
        let (at, keys) = (self.at.clone(), self.keys.clone());
        submit_detached(engine.as_ref(), at.caller.clone(), move |txn| {
            let mut scope = ScopeTxn::new(txn, at, false);
            for (id, token) in claims {
                if let Some(mut stored) = scope.load(&keys, id)?
                    && transition::settle(&mut stored.task, token, &Verdict::Release, scope.now).is_ok()
                {
                    scope.save(&keys, &stored)?;
                }
            }
            scope.flush();
            Ok(())
        });
    }
}

/// Claims up to `max` tasks.
pub(crate) fn claim(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    name: &Arc<str>,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedTask>> {
    if scope.head(queue)?.paused.is_some() || request.max == 0 {
        return Ok(Vec::new());
    }
    let steps = sweep::CLAIM_STEPS.min(scope.txn.most_changes() / 16);
    if !legacy::adopt(scope, queue, steps)? {
        return Ok(Vec::new());
    }
    sweep::reclaim(scope, queue, steps)?;
    sweep::promote(scope, queue, steps)?;
    let mut claimed = Vec::with_capacity(request.max.min(1024));
    // More than one round only if some picked records were damaged or spent; each round removes those.
    while claimed.len() < request.max {
        let picked = pick(scope.txn, queue, request, request.max - claimed.len())?;
        if picked.is_empty() {
            break;
        }
        for index in picked {
            if let Some(task) = take(scope, queue, name, request, &index)? {
                claimed.push(task);
            }
        }
    }
    Ok(claimed)
}

/// Claims the task of one ready entry, or sets aside what is wrong with it.
fn take(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    queue_name: &Arc<str>,
    request: &ClaimRequest,
    index: &[u8],
) -> Result<Option<ClaimedTask>> {
    let Some(id) = keys::id_of(index) else { return Ok(None) };
    let floor = scope.token_floor()?;
    let name = name_of(queue, index);
    let Some(mut stored) = scope.load_by(queue, index, StateKind::Ready, &name)? else { return Ok(None) };
    let values = body(scope.txn, queue, id, &stored.task.payload, Slot::Payload)
        .and_then(|payload| Ok((payload, body(scope.txn, queue, id, &stored.task.progress, Slot::Progress)?)));
    let (payload, progress) = match values {
        Ok((Some(payload), progress)) => (payload, progress),
        Err(error) if error.kind() != crate::ErrorKind::Corrupt => return Err(error),
        Ok((None, _)) | Err(_) => {
            scope.set_aside(queue, index, StateKind::Ready, id, &name)?;
            return Ok(None);
        }
    };
    let claimed = transition::claim(&mut stored.task, &request.owner, request.lease.length(), floor, scope.now);
    scope.save_unasked(queue, &stored)?;
    Ok(claimed.then(|| hand_over(stored, queue_name, payload, progress)))
}

fn hand_over(stored: Stored, queue: &Arc<str>, payload: crate::Json, progress: Option<crate::Json>) -> ClaimedTask {
    let task = stored.task;
    let deadline = if let TaskState::InFlight { deadline, .. } = task.state { deadline } else { task.updated };
    ClaimedTask {
        id: task.id,
        queue: Arc::clone(queue),
        name: task.name,
        payload,
        progress,
        counters: task.counters,
        token: task.token,
        deadline,
        priority: task.priority,
        enqueued: task.enqueued,
        metadata: task.metadata,
        max_attempts: task.policy.max_attempts,
        max_lost_leases: task.policy.max_lost_leases,
    }
}

/// The task name in a ready entry's key.
fn name_of<'a>(queue: &QueueKeys, index: &'a [u8]) -> Cow<'a, str> {
    let name = index.get(queue.kind(b'r').len() + 1..index.len().saturating_sub(16)).unwrap_or_default();
    String::from_utf8_lossy(name)
}

/// The ready entries to claim, best first.
fn pick(view: &dyn View, queue: &QueueKeys, request: &ClaimRequest, max: usize) -> Result<Vec<Vec<u8>>> {
    let mut lines = match &request.names {
        Some(names) => names.iter().map(|name| Line::new(queue.ready_name(name))).collect(),
        None => lines(view, queue)?,
    };
    if let [line] = lines.as_mut_slice() {
        line.fill(view, max)?;
        return Ok(std::mem::take(&mut line.ahead).into());
    }
    let mut picked = Vec::new();
    while picked.len() < max {
        let mut best: Option<(Vec<u8>, &mut Line)> = None;
        for line in &mut lines {
            if let Some(rank) = line.rank(view)?
                && best.as_ref().is_none_or(|(least, _)| rank < *least)
            {
                best = Some((rank, line));
            }
        }
        match best.and_then(|(_, line)| line.ahead.pop_front()) {
            Some(index) => picked.push(index),
            None => break,
        }
    }
    Ok(picked)
}

/// The lines of all names that have something ready: one look each.
fn lines(view: &dyn View, queue: &QueueKeys) -> Result<Vec<Line>> {
    let all = queue.kind(b'r');
    let (mut from, until) = (all.clone(), keys::after(&all));
    let mut lines = Vec::new();
    loop {
        let mut first = None;
        view.scan(&from, &until, &mut |key, _| {
            first = key.get(..key.len().saturating_sub(16)).map(<[u8]>::to_vec);
            ControlFlow::Break(())
        })?;
        let Some(prefix) = first else { return Ok(lines) };
        from = keys::after(&prefix);
        lines.push(Line::new(prefix));
    }
}

/// The ready tasks of one name, in claim order.
struct Line {
    from: Vec<u8>,
    until: Vec<u8>,
    ahead: VecDeque<Vec<u8>>,
}

impl Line {
    fn new(prefix: Vec<u8>) -> Self {
        Self { until: keys::after(&prefix), from: prefix, ahead: VecDeque::new() }
    }

    /// What the first task of the line sorts by: priority, then id.
    fn rank(&mut self, view: &dyn View) -> Result<Option<Vec<u8>>> {
        if self.ahead.is_empty() && !self.from.is_empty() {
            self.fill(view, CHUNK)?;
        }
        Ok(self.ahead.front().and_then(|key| key.get(key.len().saturating_sub(16)..)).map(<[u8]>::to_vec))
    }

    fn fill(&mut self, view: &dyn View, max: usize) -> Result<()> {
        let ahead = &mut self.ahead;
        view.scan(&self.from, &self.until, &mut |key, _| {
            ahead.push_back(key.to_vec());
            if ahead.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.from = match ahead.back() {
            Some(last) if ahead.len() >= max => [last.as_slice(), &[0]].concat(),
            _ => Vec::new(),
        };
        Ok(())
    }
}
