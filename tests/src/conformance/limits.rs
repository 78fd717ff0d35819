//! Limits: each is checked at the door with its name, and what was taken in can always be claimed, failed and completed.

use std::time::Duration;

use crate::conformance::{Rule, rules};
use crate::{Shop, claims, secs, task};
use aedb_queue::{
    ClaimRequest, Completion, Cursor, Effects, Error, ErrorKind, Filter, Json, KeyRange, LeaseLength, NewTask, Queue,
    RetentionLimits, limits,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c14_an_empty_name_is_refused_wherever_one_is_taken_before_any_write,
    a_budget_of_nothing_is_refused_by_its_name_and_value,
    c14_names_with_control_characters_are_refused_and_those_that_look_like_keys_are_kept_apart,
    c50_json_of_every_kind_comes_back_to_the_byte,
    c50_a_failure_with_any_text_is_taken_and_made_safe,
    c51_names_owners_and_keys_of_four_byte_characters_are_fine,
    c52_c53_the_largest_of_everything_is_enqueued_claimed_beaten_failed_and_completed,
    c55_what_is_over_a_limit_is_refused_with_the_limits_name_and_both_values,
    c65_leases_out_of_range_are_refused_and_long_waits_and_pages_are_harmless,
];

/// The kind of what a call answered.
fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> ErrorKind {
    answer.unwrap_err().kind()
}

/// A JSON text of exactly so many bytes.
fn json(bytes: usize) -> Json {
    Json::parse(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap()
}

fn is_empty(queue: &Queue) -> bool {
    block_on(queue.list(Filter::all())).unwrap().tasks.is_empty()
}

fn c14_an_empty_name_is_refused_wherever_one_is_taken_before_any_write() {
    let shop = Shop::new();
    let db = &shop.db;
    assert_eq!(kind(db.queue("")), ErrorKind::Invalid);
    assert_eq!(kind(db.lease("")), ErrorKind::Invalid);
    assert_eq!(kind(db.scope("", "s")), ErrorKind::Invalid);
    assert_eq!(kind(db.scope("p", "")), ErrorKind::Invalid);
    assert_eq!(kind(db.default_scope().as_caller("")), ErrorKind::Invalid);
    assert_eq!(kind(block_on(db.lease("l").unwrap().acquire("", LeaseLength::secs(9)))), ErrorKind::Invalid);
    assert_eq!(block_on(db.lease("l").unwrap().status()).unwrap(), None);
    let bad = [task(1).idempotency_key(""), NewTask::new("", &1).unwrap(), task(1).metadata("", "v")];
    for task in bad {
        assert_eq!(kind(block_on(shop.queue.enqueue(task.clone()))), ErrorKind::Invalid);
        let effects = || Effects::new().put("k", "v").enqueue("other", task.clone());
        assert_eq!(kind(block_on(shop.queue.enqueue_with(self::task(1), effects()))), ErrorKind::Invalid);
    }
    assert_eq!(kind(block_on(shop.queue.claim(claims("")))), ErrorKind::Invalid);
    assert_eq!(kind(block_on(shop.queue.claim(claims("w").names([""])))), ErrorKind::Invalid);
    assert_eq!(kind(block_on(db.default_scope().kv().commit(Effects::new().put("", "")))), ErrorKind::Invalid);
    assert!(is_empty(&shop.queue));

    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    let completion = Completion::new().effects(Effects::new().put("k", "v")).follow_up("", task(2));
    assert_eq!(kind(block_on(shop.queue.complete(&claim, completion))), ErrorKind::Invalid);
    assert_eq!((shop.key("k"), shop.record(id).token), (None, claim.token));
    assert!(shop.complete(&claim).is_applied());
}

fn a_budget_of_nothing_is_refused_by_its_name_and_value() {
    let shop = Shop::new();
    let bad = [("max_attempts", task(1).max_attempts(0)), ("max_lost_leases", task(1).max_lost_leases(0))];
    for (name, task) in bad {
        let error = block_on(shop.queue.enqueue(task)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Invalid, format!("{name} is 0; it takes at least 1"))
        );
    }
    assert!(is_empty(&shop.queue));
}

fn c14_names_with_control_characters_are_refused_and_those_that_look_like_keys_are_kept_apart() {
    let shop = Shop::new();
    for bad in ["a\0", "\0", "a\nb", "\u{1b}[31m", "\u{7f}", "\u{85}"] {
        assert_eq!(kind(shop.db.queue(bad)), ErrorKind::Invalid, "{bad:?}");
    }
    let names = ["q", "q/", "qq", "q:q", "queue", "r", "p", "q\u{a0}", "Q", "..", "%", "q "];
    for (n, name) in names.iter().enumerate() {
        block_on(shop.db.queue(name).unwrap().enqueue(task(n as u64))).unwrap();
    }
    for (n, name) in names.iter().enumerate() {
        let claimed = block_on(shop.db.queue(name).unwrap().claim(claims("w").max(99))).unwrap();
        assert_eq!(claimed.iter().map(|claim| claim.payload.to::<usize>().unwrap()).collect::<Vec<_>>(), [n]);
    }
    assert_eq!(block_on(shop.db.default_scope().queues()).unwrap().len(), names.len());
}

fn c50_json_of_every_kind_comes_back_to_the_byte() {
    let shop = Shop::new();
    let texts = [r#""\u0000""#, r#""\ud800""#, "\"🐓\u{202e}\"", "1e400", " [ 1 ,2]\n", r#"{"a":1,"a":2}"#, "null"];
    for text in texts {
        let json = Json::parse(text).unwrap();
        shop.enqueue(NewTask::with_json("n", json.clone()));
        let claim = shop.claim_one();
        assert_eq!(claim.payload.as_str(), text);
        let beat = block_on(shop.queue.heartbeat(&claim, LeaseLength::secs(30), Some(json.clone()))).unwrap();
        assert!(matches!(beat, aedb_queue::HeartbeatOutcome::Extended(_)));
        assert!(block_on(shop.queue.complete(&claim, Completion::new().result(json.clone()))).unwrap().is_applied());
        let record = shop.record(claim.id);
        assert_eq!([record.payload, record.progress.unwrap(), record.result.unwrap()], [&json; 3].map(Clone::clone));
    }
}

fn c50_a_failure_with_any_text_is_taken_and_made_safe() {
    let shop = Shop::new();
    let invalid = String::from_utf8_lossy(b"\xff\xfe").into_owned();
    let texts = ["a\0b".to_owned(), invalid, "🐓".repeat(1 << 19), String::new(), "\u{1b}[31m\r\n".to_owned()];
    for text in texts {
        let id = shop.enqueue(task(1).priority(9));
        let claim = shop.claim_one();
        assert_eq!(claim.id, id);
        assert!(block_on(shop.queue.fail(&claim, text)).unwrap().is_applied());
        let error = shop.record(id).failures[0].error.clone();
        assert!(error.len() <= limits::ERROR_BYTES && !error.contains('\0'));
    }
}

fn c51_names_owners_and_keys_of_four_byte_characters_are_fine() {
    let shop = Shop::new();
    let queue = shop.db.queue("курица 🐓").unwrap();
    let first = block_on(queue.enqueue(NewTask::new("🥚", &"🐣").unwrap().idempotency_key("🔑"))).unwrap();
    let claim = block_on(queue.claim(claims("🧑‍🌾").names(["🥚"]))).unwrap().remove(0);
    assert_eq!((claim.id, &*claim.queue, &*claim.name), (first.id, "курица 🐓", "🥚"));
    assert_eq!(block_on(queue.get(first.id)).unwrap().unwrap().idempotency_key.as_deref(), Some("🔑"));
}

fn c52_c53_the_largest_of_everything_is_enqueued_claimed_beaten_failed_and_completed() {
    let shop = Shop::new();
    let name = "n".repeat(limits::NAME_BYTES);
    let queue = shop.db.queue(&"q".repeat(limits::NAME_BYTES)).unwrap();
    let task = NewTask::with_json(name.as_str(), json(limits::PAYLOAD_BYTES))
        .idempotency_key("k".repeat(limits::IDEMPOTENCY_KEY_BYTES))
        .metadata("m", "v".repeat(limits::METADATA_BYTES - 1))
        .backoff(aedb_queue::Backoff::none());
    block_on(queue.enqueue(task)).unwrap();
    let behind = block_on(queue.enqueue(self::task(2))).unwrap();
    for _ in 0..12 {
        let claim = block_on(queue.claim(claims(&name))).unwrap().remove(0);
        assert_eq!(claim.payload.as_str().len(), limits::PAYLOAD_BYTES);
        let progress = Some(json(limits::PROGRESS_BYTES));
        let beat = block_on(queue.heartbeat(&claim, LeaseLength::secs(30), progress)).unwrap();
        assert!(matches!(beat, aedb_queue::HeartbeatOutcome::Extended(_)));
        assert!(block_on(queue.fail(&claim, "e".repeat(2 << 20))).unwrap().is_applied());
    }
    let claimed = block_on(queue.claim(claims("w").max(2))).unwrap();
    assert_eq!((claimed.len(), claimed[1].id), (2, behind.id));
    let done = Completion::new().result(json(limits::RESULT_BYTES));
    assert!(block_on(queue.complete(&claimed[0], done)).unwrap().is_applied());
    crate::assert_clean(&queue);
}

fn c55_what_is_over_a_limit_is_refused_with_the_limits_name_and_both_values() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    let kv = shop.db.default_scope().kv();
    let (queue, long) = (&shop.queue, "x".repeat(1 << 14));
    let lease = LeaseLength::secs(30);
    let over: Vec<(&str, usize, Error)> = vec![
        ("payload bytes", limits::PAYLOAD_BYTES, {
            block_on(queue.enqueue(NewTask::with_json("n", json(limits::PAYLOAD_BYTES + 1)))).unwrap_err()
        }),
        ("idempotency key bytes", limits::IDEMPOTENCY_KEY_BYTES, {
            block_on(queue.enqueue(task(1).idempotency_key(&*long))).unwrap_err()
        }),
        ("metadata bytes", limits::METADATA_BYTES, {
            block_on(queue.enqueue(task(1).metadata("m", &*long))).unwrap_err()
        }),
        ("queue name", limits::NAME_BYTES, shop.db.queue(&long).unwrap_err()),
        ("lease name", limits::NAME_BYTES, shop.db.lease(&long).unwrap_err()),
        ("owner", limits::NAME_BYTES, block_on(queue.claim(claims(&long))).unwrap_err()),
        ("tasks in a claim", limits::CLAIM, block_on(queue.claim(claims("w").max(usize::MAX))).unwrap_err()),
        ("tasks in a batch", limits::BATCH, {
            block_on(queue.enqueue_batch(vec![task(1); limits::BATCH + 1])).unwrap_err()
        }),
        ("progress bytes", limits::PROGRESS_BYTES, {
            block_on(queue.heartbeat(&claim, lease, Some(json(limits::PROGRESS_BYTES + 1)))).unwrap_err()
        }),
        ("result bytes", limits::RESULT_BYTES, {
            let completion = Completion::new().result(json(limits::RESULT_BYTES + 1));
            block_on(queue.complete(&claim, completion)).unwrap_err()
        }),
        ("key bytes", limits::KEY_BYTES, block_on(kv.commit(Effects::new().put(&*long, ""))).unwrap_err()),
        ("value bytes", limits::VALUE_BYTES, {
            block_on(kv.commit(Effects::new().put("k", vec![0; limits::VALUE_BYTES + 1]))).unwrap_err()
        }),
        ("effects in a commit", limits::BATCH, {
            let effects = (0..=limits::BATCH).fold(Effects::new(), |effects, _| effects.delete("k"));
            block_on(kv.commit(effects)).unwrap_err()
        }),
    ];
    for (name, max, error) in over {
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{name}");
        let limit = error.limit().unwrap();
        assert_eq!((limit.name, limit.max), (name, max as u64));
        assert!(limit.actual > limit.max);
    }
    assert!(shop.complete(&claim).is_applied());
}

fn c65_leases_out_of_range_are_refused_and_long_waits_and_pages_are_harmless() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    for length in [Duration::ZERO, Duration::from_millis(999), secs(24 * 3600 + 1), Duration::MAX] {
        let request = ClaimRequest::new("w", LeaseLength::of(length));
        assert_eq!(kind(block_on(shop.queue.claim(request))), ErrorKind::Invalid, "{length:?}");
        let lease = shop.db.lease("l").unwrap();
        assert_eq!(kind(block_on(lease.acquire("w", LeaseLength::of(length)))), ErrorKind::Invalid);
    }
    assert_eq!(block_on(shop.queue.list(Filter::all().limit(usize::MAX))).unwrap().tasks.len(), 1);
    let range = KeyRange::prefix("").limit(usize::MAX);
    assert!(block_on(shop.db.default_scope().kv().scan(range)).unwrap().is_empty());
    let wide = RetentionLimits { records: u64::MAX, bytes: u64::MAX, steps: usize::MAX };
    assert!(!block_on(shop.queue.sweep(wide)).unwrap().more);
    assert_eq!(block_on(shop.queue.claim(claims("w").wait(Duration::MAX))).unwrap().len(), 1);
    assert!(block_on(shop.queue.claim(claims("w").max(0))).unwrap().is_empty());
    assert!("zz".parse::<Cursor>().is_err() && "é".parse::<Cursor>().is_err());
    assert!(block_on(shop.queue.list(Filter::all().after("ff".repeat(500).parse().ok()))).is_err());
}
