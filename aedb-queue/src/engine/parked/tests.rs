//! The waiting verbs on their own, without an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::engine::Txn;
use crate::engine::job::Step;
use crate::error::Result;

struct Waits {
    gives_up: Option<Timestamp>,
    abandoned: Arc<AtomicBool>,
}

impl Job for Waits {
    fn rewind(&mut self) {}
    fn withdraw(&mut self) {}
    fn refuse(&mut self, _: crate::error::Error) {}
    fn caller(&self) -> Option<&str> {
        None
    }
    fn run(&mut self, _: &mut Txn<'_>, _: bool) -> Step {
        Step::Failed
    }

    fn finish(self: Box<Self>, _: Result<()>) {}

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn gives_up(&self) -> Option<Timestamp> {
        self.gives_up
    }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn park(parked: &mut Parked, topic: &str, gives_up: u64) -> Arc<AtomicBool> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let job = Waits { gives_up: Some(at(gives_up)), abandoned: Arc::clone(&abandoned) };
    parked.park(None, Box::new(job), topic.into(), None);
    abandoned
}

fn places(parked: &mut Parked) -> Vec<u64> {
    parked.take_owed().into_iter().map(|(place, _)| place).collect()
}

fn touch(parked: &mut Parked, topic: &str) -> Vec<u64> {
    parked.owe(&BTreeSet::from([topic.into()]));
    places(parked)
}

#[test]
fn only_those_of_a_touched_topic_run_and_they_run_in_their_order() {
    let mut parked = Parked::default();
    for topic in ["a", "b", "a"] {
        park(&mut parked, topic, 100);
    }
    assert_eq!((touch(&mut parked, "none"), touch(&mut parked, "a")), (vec![], vec![1, 3]));
    assert_eq!((touch(&mut parked, "a"), touch(&mut parked, "b")), (vec![], vec![2]));
    assert!(parked.is_empty() && parked.next_wake().is_none());
}

#[test]
fn a_verb_that_waits_again_keeps_its_place() {
    let mut parked = Parked::default();
    park(&mut parked, "a", 100);
    park(&mut parked, "a", 100);
    parked.owe_due(at(0), true);
    let (place, job) = parked.take_owed().swap_remove(0);
    parked.park(Some(place), job, b"a".to_vec(), Some(at(7)));
    assert_eq!(parked.next_wake(), Some(at(7)));
    parked.owe_due(at(7), false);
    assert_eq!(places(&mut parked), [1]);
}

#[test]
fn those_whose_time_has_come_run_and_the_next_wake_is_that_of_the_others() {
    let mut parked = Parked::default();
    for gives_up in [30, 10, 20] {
        park(&mut parked, "a", gives_up);
    }
    parked.owe_due(at(20), false);
    assert_eq!(places(&mut parked), [2, 3]);
    assert_eq!(parked.next_wake(), Some(at(30)));
}

#[test]
fn a_general_look_takes_a_bounded_number_and_reaches_all_in_rotation() {
    let mut parked = Parked::default();
    for _ in 0..LOOKS + 10 {
        park(&mut parked, "a", 100);
    }
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        parked.owe_due(at(0), true);
        let looked = parked.take_owed();
        assert_eq!(looked.len(), LOOKS);
        for (place, job) in looked {
            seen.insert(place);
            parked.park(Some(place), job, b"a".to_vec(), None);
        }
    }
    assert_eq!(seen.len(), LOOKS + 10);
}

#[test]
fn abandoned_verbs_never_run_and_do_not_pile_up() {
    let mut parked = Parked::default();
    for _ in 0..10_000 {
        park(&mut parked, "a", 100).store(true, Ordering::Relaxed);
    }
    assert!(parked.waiting.len() <= TIDY, "{}", parked.waiting.len());
    assert!(touch(&mut parked, "a").is_empty() && parked.is_empty());
}
