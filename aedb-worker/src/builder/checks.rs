//! What `build()` checks: every mistake is named at once.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::limits;

use super::WorkerBuilder;
use crate::defaults::Defaults;
use crate::graph;
use crate::handler::Registry;

/// The most attempts at once: more cannot be claimed or kept alive in one call.
const MOST: usize = 10_000;

impl WorkerBuilder {
    pub(super) fn registry(&mut self) -> Registry {
        let mut registry = Registry::new();
        for (name, registered) in std::mem::take(&mut self.handlers) {
            self.mistakes.extend(mistake_in_name("handler name", &name, limits::NAME_BYTES));
            let Defaults { timeout, lease, .. } = registered.defaults;
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                self.mistakes.push(format!("the timeout of {name} is zero"));
            }
            if let Some(lease) = lease {
                self.mistakes.extend(mistake_in_lease(&format!("the lease of {name}"), lease));
            }
            let missing = if registered.is_alias { Vec::new() } else { (registered.missing)(&self.states) };
            for state in missing {
                self.mistakes.push(format!("{name} needs a state of type {state}: add .state(value)"));
            }
            if registry.insert(Arc::clone(&name), registered).is_some() {
                self.mistakes.push(format!("two handlers for {name}"));
            }
        }
        let serves = |queue: &str| self.queues.iter().any(|(name, _)| name == queue);
        self.mistakes.extend(graph::mistakes(&registry, serves));
        if registry.is_empty() {
            self.mistakes.push("no handlers: add .handler(\"name\", function) or .task(handler)".to_owned());
        }
        registry
    }

    pub(super) fn check_numbers(&mut self) {
        if self.concurrency == 0 || self.concurrency.saturating_add(self.prefetch) > MOST {
            let (concurrency, prefetch) = (self.concurrency, self.prefetch);
            let sentence = "must be at least 1, and with the prefetch at most 10,000";
            self.mistakes.push(format!("concurrency {concurrency} with prefetch {prefetch}: it {sentence}"));
        }
        self.mistakes.extend(mistake_in_lease("the lease", self.lease));
        let polls = Duration::from_millis(10)..=Duration::from_mins(1);
        if !polls.contains(&self.poll) {
            self.mistakes.push(format!("a poll interval of {:?} is outside of 10 ms to 1 min", self.poll));
        }
    }
}

pub(crate) fn mistake_in_lease(what: &str, lease: Duration) -> Option<String> {
    let (least, most) = (limits::LEASE_MIN, limits::LEASE_MAX);
    (!(least..=most).contains(&lease)).then(|| format!("{what}, {lease:?}, is outside of {least:?} to {most:?}"))
}

/// What the queue would refuse about a name, found before the worker runs.
pub(super) fn mistake_in_name(what: &str, name: &str, most: usize) -> Option<String> {
    let fits = (1..=most).contains(&name.len()) && !name.chars().any(char::is_control);
    (!fits).then(|| format!("{what} {name:?} must have 1 to {most} bytes without control characters"))
}
