//! The seam's own promises, without any queue: a verb that fails leaves nothing, and its neighbours of one commit stay.

use std::sync::{Arc, Mutex, mpsc};

use futures::executor::block_on;

use super::{Engine, Options, Place, Txn, View, open, read, submit, submit_detached};
use crate::clock::SystemClock;
use crate::error::{Error, ErrorKind, Result};

fn memory(inline: bool) -> Arc<dyn Engine> {
    let options =
        Options { cache_bytes: 1 << 20, clock: Arc::new(SystemClock), inline, first_opened: b"first".to_vec() };
    open(Place::Memory, options).unwrap()
}

fn values(engine: &dyn Engine, keys: &[&str]) -> Vec<Option<String>> {
    let get = |view: &dyn View, key: &str| Ok(view.get(key.as_bytes())?.map(|value| String::from_utf8(value).unwrap()));
    read(engine, |view, _| keys.iter().map(|key| get(view, key)).collect()).unwrap()
}

fn put(txn: &mut Txn<'_>, key: &str, value: &str) {
    txn.put(key.as_bytes().to_vec(), value.as_bytes().to_vec());
}

/// Writes twice, deletes what a neighbour wrote, then fails.
fn fails(txn: &mut Txn<'_>) -> Result<()> {
    put(txn, "failed", "1");
    put(txn, "before", "overwritten");
    txn.delete(b"before".to_vec());
    Err(Error::invalid("on purpose"))
}

#[test]
fn a_verb_that_fails_or_panics_leaves_nothing_and_its_neighbours_of_one_commit_stay() {
    let engine = memory(false);
    // The writer is held in a commit of its own, so that what comes meanwhile is one commit.
    let ((held, is_held), (release, released)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let released = Arc::new(Mutex::new(released));
    submit_detached(engine.as_ref(), None, move |_| {
        held.send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        Ok(())
    });
    is_held.recv().unwrap();
    let before = submit(engine.as_ref(), None, |txn| {
        put(txn, "before", "1");
        Ok(())
    });
    let failing = submit(engine.as_ref(), None, fails);
    let panicking = submit(engine.as_ref(), None, |txn| -> Result<()> {
        put(txn, "panicked", "1");
        panic!("on purpose")
    });
    let after = submit(engine.as_ref(), None, |txn| {
        // It sees its neighbour, and nothing of those that failed.
        let seen = [txn.get(b"before")?, txn.get(b"failed")?, txn.get(b"panicked")?];
        put(txn, "after", &seen.iter().flatten().count().to_string());
        Ok(())
    });
    let (before, failing, panicking, after) = block_on(async {
        let mut all = Box::pin(async { futures::join!(before, failing, panicking, after) });
        // Polled once, all four are in the writer's inbox.
        assert!(futures::poll!(all.as_mut()).is_pending());
        release.send(()).unwrap();
        all.await
    });
    assert!(before.is_ok() && after.is_ok());
    assert_eq!(failing.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(panicking.is_err());
    let expected = [Some("1"), None, None, Some("1")].map(|value| value.map(str::to_owned));
    assert_eq!(values(engine.as_ref(), &["before", "failed", "panicked", "after"]), expected);
}

#[test]
fn a_verb_that_fails_alone_writes_nothing() {
    for inline in [true, false] {
        let engine = memory(inline);
        block_on(submit(engine.as_ref(), None, |txn| {
            put(txn, "before", "1");
            Ok(())
        }))
        .unwrap();
        assert!(block_on(submit(engine.as_ref(), None, fails)).is_err());
        assert_eq!(values(engine.as_ref(), &["before", "failed"]), [Some("1".to_owned()), None]);
    }
}
