//! The contract as rules over any store: each rule opens an empty database, does something to it, and panics if the answer is not
//! what the contract says.
//!
//! Whoever writes a store says how to open one ([`Opens`]) and hands it to [`run`], in a test with `harness = false`: every rule is a test,
//! named by store, file and rule. None is left out in silence: a store that cannot be opened here has its rules listed as
//! ignored, with the reason.

mod amend;
mod append;
pub mod callers;
mod claimed;
mod deaths;
mod decisions;
mod delivery;
mod fencing;
mod inspect;
mod interleavings;
mod keys_and_windows;
mod lease_notes;
mod leases;
mod limits;
mod reclaim;
mod retention;
mod retry;
mod settling;
mod waiting;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use crate::stores::{self, Opens};

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What must hold.
    pub name: &'static str,
    /// Panics if it does not.
    pub check: fn(),
}

/// Rules by the names of their functions.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        &[$(Rule { name: stringify!($rule), check: $rule }),*]
    };
}
use rules;

/// Every rule, by the file that it is in.
pub const RULES: &[(&str, &[Rule])] = &[
    ("amend", amend::RULES),
    ("append", append::RULES),
    ("callers", callers::RULES),
    ("claimed", claimed::RULES),
    ("deaths", deaths::RULES),
    ("decisions", decisions::RULES),
    ("delivery", delivery::RULES),
    ("fencing", fencing::RULES),
    ("inspect", inspect::RULES),
    ("interleavings", interleavings::RULES),
    ("keys_and_windows", keys_and_windows::RULES),
    ("lease_notes", lease_notes::RULES),
    ("leases", leases::RULES),
    ("limits", limits::RULES),
    ("reclaim", reclaim::RULES),
    ("retention", retention::RULES),
    ("retry", retry::RULES),
    ("settling", settling::RULES),
    ("waiting", waiting::RULES),
    ("workers", workers::RULES),
];

/// Checks every rule on each store, as the command line asks (`--list`, a part of a name, `--ignored`, ...).
pub fn run(stores: &[Arc<dyn Opens>]) -> ExitCode {
    let trials = stores.iter().flat_map(|store| {
        let away = store.is_away();
        if let Some(reason) = &away {
            println!("{} is not here, so its rules are ignored: {reason}", store.name());
        }
        let rules = RULES.iter().flat_map(|(file, rules)| rules.iter().map(move |rule| (*file, *rule)));
        rules.map(move |(file, rule)| {
            let (rule_name, store) = (format!("{file}::{}", rule.name), Arc::clone(store));
            let (name, excuse) = (format!("{}::{rule_name}", store.name()), store.excuse(&rule_name));
            if let Some(excuse) = excuse {
                println!("{name} is ignored: {excuse}");
            }
            Trial::test(name, move || {
                stores::on(&store, rule.check);
                Ok(())
            })
            .with_ignored_flag(away.is_some() || excuse.is_some())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
