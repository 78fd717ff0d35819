//! Files: who may open one, what is refused and left as it was, several handles on one, and backups.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use aedb_queue::{
    ClaimedTask, Completion, Db, Effects, ErrorKind, FencedCommit, LeaseLength, LeaseOutcome, ManualClock, NewTask,
};
use aedb_tests::{Shop, assert_clean, claims, secs, task};
use futures::executor::block_on;
use redb::TableDefinition;

/// The user id of nobody on the usual systems.
const NOBODY: u32 = 65_534;

fn refused(path: &Path) -> ErrorKind {
    let error = Db::open(path).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "it names the file: {error}");
    error.kind()
}

#[test]
fn two_handles_of_one_file_never_claim_the_same_task() {
    let folder = tempfile::tempdir().unwrap();
    let handles = [(); 2].map(|()| Db::open(folder.path().join("q.aedb")).unwrap().queue("q").unwrap());
    block_on(handles[0].enqueue_batch((0..400).map(task).collect())).unwrap();
    let served: Mutex<Vec<ClaimedTask>> = Mutex::default();
    thread::scope(|scope| {
        for n in 0..4 {
            let (queue, served) = (&handles[n % 2], &served);
            scope.spawn(move || {
                loop {
                    let claimed = block_on(queue.claim(claims(&format!("w{n}")).max(7))).unwrap();
                    if claimed.is_empty() {
                        return;
                    }
                    for claim in &claimed {
                        assert!(block_on(queue.complete(claim, Completion::new())).unwrap().is_applied());
                    }
                    served.lock().unwrap().extend(claimed);
                }
            });
        }
    });
    let served = served.into_inner().unwrap();
    assert_eq!((served.len(), served.iter().map(|claim| claim.id).collect::<BTreeSet<_>>().len()), (400, 400));
    handles.iter().for_each(assert_clean);
}

#[test]
fn what_one_handle_commits_the_other_sees_and_fences() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let open = || {
        let db = Db::builder().clock(clock.clone()).inline().open(folder.path().join("q.aedb")).unwrap();
        Shop::on(db, clock.clone())
    };
    let (here, there) = (open(), open());
    here.enqueue(task(1));
    let old = there.claim_one();
    clock.advance(secs(30));
    let new = here.claim_one();
    assert!(matches!(there.complete(&old), FencedCommit::LeaseLost(_)));
    assert!(there.complete(&new).is_applied(), "a claim is a token, not a handle");
}

#[test]
fn a_claim_that_waits_at_one_handle_is_served_by_an_enqueue_at_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = [(); 2].map(|()| Db::open(folder.path().join("q.aedb")).unwrap().queue("q").unwrap());
    let served = thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(here.claim(claims("w").wait(secs(60)))).unwrap());
        block_on(there.enqueue(task(1))).unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(served.len(), 1);
}

#[test]
fn a_file_can_be_opened_read_and_closed_again_and_again_while_another_handle_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.aedb");
    let writer = Db::open(&path).unwrap().queue("q").unwrap();
    thread::scope(|scope| {
        let writing = scope.spawn(|| (0..300).for_each(|n| assert!(block_on(writer.enqueue(task(n))).is_ok())));
        while !writing.is_finished() {
            let visitor = Db::open(&path).unwrap().queue("q").unwrap();
            assert_clean(&visitor);
            block_on(visitor.enqueue(task(1).delay(secs(3600)))).unwrap();
        }
    });
    assert_eq!(block_on(writer.stats()).unwrap().ready, 300);
    assert_clean(&writer);
}

#[test]
fn an_exclusive_handle_and_any_other_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.aedb");
    let shared = Db::open(&path).unwrap();
    assert_eq!(Db::builder().exclusive().open(&path).unwrap_err().kind(), ErrorKind::Unavailable);
    drop(shared);
    let alone = Db::builder().exclusive().open(&path).unwrap();
    assert_eq!(refused(&path), ErrorKind::Unavailable);
    assert_eq!(Db::builder().exclusive().open(&path).unwrap_err().kind(), ErrorKind::Unavailable);
    drop(alone);
    Db::open(&path).unwrap();
}

#[test]
fn files_of_other_programs_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "not a database ".repeat(1_000)).unwrap();
    let other = folder.path().join("other.redb");
    let database = redb::Database::create(&other).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap().insert(1, 2).unwrap();
    txn.commit().unwrap();
    drop(database);
    for path in [text, other] {
        let before = fs::read(&path).unwrap();
        assert_eq!(refused(&path), ErrorKind::Invalid, "{path:?}");
        if path.ends_with("notes.txt") {
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }
    let database = redb::Database::open(folder.path().join("other.redb")).unwrap();
    let tables = redb::ReadableDatabase::begin_read(&database).unwrap().list_tables().unwrap().count();
    assert_eq!(tables, 1);
}

#[test]
fn a_newer_format_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.aedb");
    drop(Db::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(TableDefinition::<&str, u64>::new("aedb-queue-meta")).unwrap().insert("format", 99).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = Db::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("99"), "{error}");
}

#[test]
fn a_file_that_is_missing_or_has_no_folder_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.aedb");
    assert_eq!(Db::builder().existing().open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!path.exists());
    assert_eq!(refused(&folder.path().join("missing/q.aedb")), ErrorKind::NotFound);
}

/// Root writes where nobody may, so a copy of this program does the opening, as an ordinary user.
#[test]
fn a_file_that_cannot_be_written_is_refused() {
    const PATH: &str = "AEDB_READ_ONLY";
    const SAID: &str = "refused, as it should be";
    if let Ok(path) = std::env::var(PATH) {
        assert_eq!(refused(Path::new(&path)), ErrorKind::Unavailable);
        return println!("{SAID}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, program) = (folder.path().join("q.aedb"), folder.path().join("program"));
    drop(Db::open(&path).unwrap());
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for (file, mode) in [(folder.path(), 0o755), (&path, 0o444), (&program, 0o755)] {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new(&program);
    command.args(["--exact", "opening::a_file_that_cannot_be_written_is_refused", "--nocapture"]).env(PATH, &path);
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(SAID), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_folder_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refused(folder.path()), ErrorKind::Unavailable);
}

fn busy() -> (Shop, ClaimedTask, aedb_queue::HeldLease) {
    busy_on(Shop::new())
}

/// A queue with one running, one waiting and one delayed task, and a lease that is held.
fn busy_on(shop: Shop) -> (Shop, ClaimedTask, aedb_queue::HeldLease) {
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    shop.enqueue(task(2));
    shop.enqueue(task(3).delay(secs(3600)));
    block_on(shop.db.default_scope().kv().commit(Effects::new().put("k", "v"))).unwrap();
    let lease = shop.db.lease("l").unwrap();
    let LeaseOutcome::Acquired(held) = block_on(lease.acquire("a", LeaseLength::secs(30))).unwrap() else { panic!() };
    (shop, claim, held)
}

#[test]
fn a_backup_opens_with_all_that_was_there_and_delivers_nothing_early() {
    let (shop, claim, _) = busy();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.aedb");
    let mut seen = Vec::new();
    shop.db.backup(&path, |progress| seen.push(progress)).unwrap();
    assert!(seen.last().is_some_and(|last| last.done == last.total && last.total > 0));
    let open = || Shop::on(Db::builder().clock(shop.clock.clone()).inline().open(&path).unwrap(), shop.clock.clone());
    let copy = open();
    assert_eq!(block_on(copy.queue.stats()).unwrap(), block_on(shop.queue.stats()).unwrap());
    assert_eq!(copy.key("k").as_deref(), Some("v"));
    let waiting = copy.claim(9);
    assert_eq!(waiting.iter().map(|claim| claim.payload.as_str()).collect::<Vec<_>>(), ["2"]);
    copy.outlive_leases();
    let after = copy.claim(9);
    assert!(after.iter().any(|again| again.id == claim.id) && after.len() == 2, "the delayed one is not due");
    drop(copy);
    shop.pass(secs(3600));
    assert_eq!(open().claim(9).len(), 3);
}

#[test]
fn tokens_of_a_backup_are_above_all_that_the_original_ever_handed_out() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let shared = Db::builder().clock(clock.clone()).open(folder.path().join("q.aedb")).unwrap();
    let (shop, _, held) = busy_on(Shop::on(shared, clock));
    let path = folder.path().join("copy.aedb");
    shop.db.backup(&path, |_| {}).unwrap();
    // The original lives on: its workers get tokens that the copy has never seen.
    let mut last = None;
    for _ in 0..5 {
        shop.outlive_leases();
        last = shop.claim(9).pop();
    }
    let last = last.unwrap();
    let copy = Shop::on(Db::builder().clock(shop.clock.clone()).inline().open(&path).unwrap(), shop.clock.clone());
    for claim in copy.claim(9) {
        assert!(claim.token > last.token);
    }
    assert!(matches!(copy.complete(&last), FencedCommit::LeaseLost(_)));
    let lease = copy.db.lease("l").unwrap();
    let LeaseOutcome::Acquired(new) = block_on(lease.acquire("b", LeaseLength::secs(30))).unwrap() else { panic!() };
    assert!(new.token > held.token && new.token > last.token);
}

#[test]
fn a_backup_never_overwrites_and_leaves_nothing_when_it_fails() {
    let (shop, ..) = busy();
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::write(&there, "mine").unwrap();
    assert_eq!(shop.db.backup(&there, |_| {}).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(fs::read(&there).unwrap(), b"mine");
    let nowhere = folder.path().join("missing/copy.aedb");
    assert_eq!(shop.db.backup(&nowhere, |_| {}).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_backup_touches_no_file_but_its_own() {
    let (shop, ..) = busy();
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("copy.partial");
    fs::write(&mine, "mine").unwrap();
    for name in ["copy.monday", "copy.tuesday", "copy"] {
        shop.db.backup(folder.path().join(name), |_| {}).unwrap();
        assert_eq!(fs::read(&mine).unwrap(), b"mine");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_file_that_is_compacted_gets_smaller_and_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("q.aedb"), ManualClock::default());
    let shop = Shop::on(Db::builder().clock(clock.clone()).open(&path).unwrap(), clock);
    let kept = shop.enqueue(task(7));
    let large = NewTask::new("n", &"x".repeat(2_000)).unwrap().keep_done(secs(0)).priority(1);
    block_on(shop.queue.enqueue_batch(vec![large; 3_000])).unwrap();
    shop.claim(3_000).iter().for_each(|claim| assert!(block_on(shop.queue.cancel(claim.id)).unwrap()));
    let (size, before) = (|| fs::metadata(&path).unwrap().len(), block_on(shop.queue.stats()).unwrap());
    let (large, mut seen) = (size(), Vec::new());
    assert!(shop.db.compact(|progress| seen.push(progress)).unwrap() && size() < large / 2);
    assert!(seen.len() >= 2 && seen.last().is_some_and(|last| last.done == last.total));
    assert_eq!(block_on(shop.queue.stats()).unwrap(), before);
    assert_eq!(shop.claim_one().id, kept);
}
