//! Which tasks follow which: declared by handlers, checked by `build()`, drawn for people.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::handler::{Handler, Registry};

/// A follow-up that a handler declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub(crate) name: String,
    pub(crate) queue: String,
    pub(crate) input: &'static str,
}

impl Edge {
    /// An edge to the task of a handler.
    pub fn to<H: Handler + Default>() -> Self {
        let handler = H::default();
        let (name, queue) = (handler.name().to_owned(), handler.defaults().queue_name().to_owned());
        Self { name, queue, input: type_name::<H::Input>() }
    }
}

/// The tasks of a worker and their follow-ups. Shown, it is text, one task a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph(BTreeMap<String, Vec<String>>);

impl Graph {
    pub(crate) fn of(registry: &Registry) -> Self {
        let edges = |follow_ups: &[Edge]| follow_ups.iter().map(|edge| edge.name.clone()).collect();
        Self(
            registry
                .iter()
                .filter(|(_, found)| !found.is_alias)
                .map(|(name, found)| (name.to_string(), edges(&found.follow_ups)))
                .collect(),
        )
    }

    /// In Graphviz's language.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph tasks {\n");
        for (task, follow_ups) in &self.0 {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "    {};", quoted(task));
            for next in follow_ups {
                let _ = writeln!(text, "    {} -> {};", quoted(task), quoted(next));
            }
        }
        text.push_str("}\n");
        text
    }

    /// In Mermaid's language.
    pub fn mermaid(&self) -> String {
        let nodes: Vec<_> = self.names();
        let number = |name: &str| nodes.iter().position(|node| *node == name).unwrap_or(0);
        let mut text = String::from("flowchart LR\n");
        for (n, node) in nodes.iter().enumerate() {
            let _ = writeln!(text, "    t{n}[\"{}\"]", node.replace('"', "#quot;"));
        }
        for (task, follow_ups) in &self.0 {
            for next in follow_ups {
                let _ = writeln!(text, "    t{} --> t{}", number(task), number(next));
            }
        }
        text
    }

    /// All tasks, with follow-ups that another worker runs.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.keys().chain(self.0.values().flatten()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (task, follow_ups) in &self.0 {
            match follow_ups.join(", ") {
                none if none.is_empty() => writeln!(f, "{task}")?,
                follow_ups => writeln!(f, "{task} -> {follow_ups}")?,
            }
        }
        Ok(())
    }
}

/// What is wrong with the follow-ups of a worker that serves these queues.
pub(crate) fn mistakes(registry: &Registry, serves: impl Fn(&str) -> bool) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (task, found) in registry.iter().filter(|(_, found)| !found.is_alias) {
        for edge in &found.follow_ups {
            match registry.get(edge.name.as_str()) {
                Some(next) if next.input != edge.input => mistakes.push(format!(
                    "{task} is followed by {}, which takes {} and is given {}",
                    edge.name, next.input, edge.input
                )),
                Some(_) => {}
                // Another worker may run it, but not one of this very queue that nobody told of it.
                None if serves(&edge.queue) => mistakes.push(format!(
                    "{task} is followed by {} in the queue {}, which this worker serves without a handler for it",
                    edge.name, edge.queue
                )),
                None => {}
            }
        }
    }
    mistakes
}
