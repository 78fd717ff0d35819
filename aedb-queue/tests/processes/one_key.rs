//! C17: many callers of two processes with one idempotency key at one moment.

use std::collections::BTreeSet;

use aedb_queue::Db;
use futures::executor::block_on;

use crate::process::Process;

#[test]
fn c17_fifty_threads_in_each_of_two_processes_with_one_key_make_one_task_and_no_error() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.db");
        let mut processes = [(); 2].map(|()| Process::start("one-key", &file));
        processes.iter_mut().for_each(|process| drop(process.read_until("ready")));
        std::fs::write(file.with_extension("go"), "").unwrap();
        let said = processes.map(Process::wait).concat();
        let answers: Vec<_> = said
            .iter()
            .filter(|line| line.starts_with("error") || line.starts_with("answer"))
            .map(|line| line.strip_prefix("answer ").unwrap_or_else(|| panic!("{line}")).split_once(' ').unwrap())
            .collect();
        let created = answers.iter().filter(|(_, deduplicated)| *deduplicated == "false").count();
        let ids: BTreeSet<_> = answers.iter().map(|(id, _)| *id).collect();
        assert_eq!((answers.len(), created, ids.len()), (100, 1, 1));
        let queue = Db::open(&file).unwrap().queue("q").unwrap();
        assert_eq!(block_on(queue.stats()).unwrap().ready, 1);
        assert!(block_on(queue.check()).unwrap().is_clean());
    }
}
