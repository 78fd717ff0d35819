-- The tables. `aedb.` stands for the schema of choice. Instants and waits are microseconds; the largest bigint means "never".

create sequence aedb.task_id cache 1;

create table aedb.scope (
    id          int generated always as identity primary key,
    project     text collate "C" not null,
    name        text collate "C" not null,
    last_number bigint not null default 0, -- of an appended key; the row's lock makes the order of numbers that of commits
    unique (project, name)
);

create table aedb.queue (
    id      int generated always as identity primary key,
    scope   int not null references aedb.scope,
    name    text collate "C" not null,
    paused  bigint,
    unique (scope, name)
);

-- What the operator says: tokens begin above the floor after a restore or a failover that lost commits.
create table aedb.setting (
    only_row    bool primary key default true check (only_row),
    token_floor bigint not null default 0
);
insert into aedb.setting default values;

-- The shape of a task. It lies in one of four tables and moves between them. Nulls cost nothing, so what is usual is null: the state of a
-- table that has only one, a count of zero, the priority zero outside of `ready`, and instants that are the same as another.
create table aedb.finished (
    id         bigint primary key,
    queue      int not null,
    state      smallint,                    -- 0 scheduled, 1 ready, 2 in flight, 3 done, 4 dead, 5 cancelled
    beside     smallint,                    -- which values lie in `body`: 1 payload, 2 progress, 4 result
    at         bigint not null,             -- due, ready since, deadline, or finished: by state
    token      bigint,
    claimed    bigint,
    ends       bigint,                      -- when a finished record may be removed
    size       bigint,                      -- about the bytes of a finished record
    attempts   int,
    deliveries int,
    failures   int,
    lost       int,
    snoozes    int,
    reason     smallint,                    -- of a death: 1 attempts spent, 2 fatal, 3 leases lost, 4 damaged; in flight: the claim's mark
    rank       bigint,                      -- the priority, upside down and signed: the least is served first
    enqueued   bigint,                      -- null: `at`
    updated    bigint,                      -- null: `claimed` of one in flight, else `at`
    name       text not null,
    owner      text,
    payload    text,
    progress   text,
    result     text,
    policy     bigint[],                    -- null is the default; see aedb.default_policy
    key        text collate "C",
    metadata   text,                        -- pairs, as JSON
    failed     text[]                       -- the last ten failures: instant, attempt, text, and so on
);
create index finished_by_end on aedb.finished (queue, state, ends, id);

-- One index only. A task is found by its id along the few priorities that a queue has; see aedb.ranks.
create table aedb.ready (like aedb.finished, primary key (queue, rank, id));

create table aedb.scheduled (like aedb.finished, primary key (id));
create index scheduled_by_due on aedb.scheduled (queue, at, id);

-- No index on the deadline: heartbeats stay within their page.
create table aedb.running (like aedb.finished, primary key (id)) with (fillfactor = 70);

-- Values over 512 bytes, so that moving a task does not copy them.
create table aedb.body (
    task  bigint not null,
    slot  smallint not null,
    value text not null,
    primary key (task, slot)
);

create table aedb.dedupe (
    queue   int not null,
    key     text collate "C" not null,
    task    bigint not null,
    print   bigint not null,                -- of name and payload, to see whether the same key came with something else
    expires bigint,                         -- null while the task is unfinished
    primary key (queue, key)
);
create index dedupe_by_end on aedb.dedupe (queue, expires) where expires is not null;

-- Counts by state: each verb adds what it changed, so that no two of them wait for one another; the sweep adds them up.
create table aedb.tally (
    queue int not null,
    scheduled bigint not null default 0, ready bigint not null default 0, running bigint not null default 0,
    done bigint not null default 0, dead bigint not null default 0, cancelled bigint not null default 0,
    bytes bigint not null default 0
);
create index tally_of_queue on aedb.tally (queue);

-- Deaths that no worker had a say in and no sweep has told yet.
create table aedb.death (queue int not null, task bigint not null, primary key (queue, task));

create table aedb.lease (
    scope    int not null,
    name     text collate "C" not null,
    owner    text,
    token    bigint not null,
    until    bigint not null,
    acquired bigint not null,
    note     text,
    primary key (scope, name)
);

create table aedb.app_key (scope int not null, key bytea not null, value bytea not null, primary key (scope, key));

create table aedb.permit (
    caller text collate "C" not null,
    kind   "char" not null,                 -- p project, s scope, q queue, k keys
    target text[] not null,
    prefix bytea not null,
    writes bool not null,
    primary key (caller, kind, target, prefix)
);

alter table aedb.ready set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table aedb.running set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table aedb.scheduled set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table aedb.body set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table aedb.dedupe set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table aedb.tally set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Each table with nothing left out.
create view aedb.ready_task as
select id, queue, 1::smallint as state, coalesce(beside, 0::smallint) as beside, at, coalesce(token, 0) as token, claimed, ends, size,
    coalesce(attempts, 0) as attempts, coalesce(deliveries, 0) as deliveries, coalesce(failures, 0) as failures,
    coalesce(lost, 0) as lost, coalesce(snoozes, 0) as snoozes, reason, rank,
    coalesce(enqueued, at) as enqueued, coalesce(updated, at) as updated, name, owner, payload, progress, result, policy, key,
    metadata, failed
from aedb.ready;
create view aedb.running_task as
select id, queue, 2::smallint as state, coalesce(beside, 0::smallint) as beside, at, coalesce(token, 0) as token, claimed, ends, size,
    coalesce(attempts, 0) as attempts, coalesce(deliveries, 0) as deliveries, coalesce(failures, 0) as failures,
    coalesce(lost, 0) as lost, coalesce(snoozes, 0) as snoozes, null::smallint as reason, coalesce(rank, 9223372036854775807) as rank,
    coalesce(enqueued, at) as enqueued, coalesce(updated, claimed) as updated, name, owner, payload, progress, result, policy, key,
    metadata, failed
from aedb.running;
create view aedb.scheduled_task as
select id, queue, 0::smallint as state, coalesce(beside, 0::smallint) as beside, at, coalesce(token, 0) as token, claimed, ends, size,
    coalesce(attempts, 0) as attempts, coalesce(deliveries, 0) as deliveries, coalesce(failures, 0) as failures,
    coalesce(lost, 0) as lost, coalesce(snoozes, 0) as snoozes, reason, coalesce(rank, 9223372036854775807) as rank,
    coalesce(enqueued, at) as enqueued, coalesce(updated, at) as updated, name, owner, payload, progress, result, policy, key,
    metadata, failed
from aedb.scheduled;
create view aedb.finished_task as
select id, queue, state as state, coalesce(beside, 0::smallint) as beside, at, coalesce(token, 0) as token, claimed, ends, size,
    coalesce(attempts, 0) as attempts, coalesce(deliveries, 0) as deliveries, coalesce(failures, 0) as failures,
    coalesce(lost, 0) as lost, coalesce(snoozes, 0) as snoozes, reason, coalesce(rank, 9223372036854775807) as rank,
    coalesce(enqueued, at) as enqueued, coalesce(updated, at) as updated, name, owner, payload, progress, result, policy, key,
    metadata, failed
from aedb.finished;

-- Every task, wherever it lies. One statement sees each exactly once.
create view aedb.task as
    select * from aedb.ready_task union all select * from aedb.running_task
    union all select * from aedb.scheduled_task union all select * from aedb.finished_task;

-- For people: the same in words, to read only.
create view aedb.tasks as
select s.project, s.name as scope, q.name as queue, t.id, t.name,
    (array['scheduled', 'ready', 'in flight', 'done', 'dead', 'cancelled'])[t.state + 1] as state,
    9223372036854775807 - t.rank::numeric as priority,
    to_timestamp(t.enqueued / 1e6) as enqueued, to_timestamp(t.updated / 1e6) as updated,
    case when t.at < 9223372036854775807 then to_timestamp(t.at / 1e6) end as at,
    t.owner, t.attempts, t.failures, t.deliveries, t.lost as lost_leases, t.snoozes, t.token, t.key as idempotency_key,
    coalesce(t.payload, (select value from aedb.body b where b.task = t.id and b.slot = 0)) as payload,
    coalesce(t.progress, (select value from aedb.body b where b.task = t.id and b.slot = 1)) as progress,
    coalesce(t.result, (select value from aedb.body b where b.task = t.id and b.slot = 2)) as result,
    t.failed[array_length(t.failed, 1)] as last_failure
from aedb.task t join aedb.queue q on q.id = t.queue join aedb.scope s on s.id = q.scope;

-- Sessions that keep old rows from being cleaned away, the oldest first: a claim must pass over those rows. End them when they are old.
create view aedb.pinned as
select pid, usename, application_name, client_addr, state, clock_timestamp() - xact_start as age
from pg_stat_activity
where backend_xmin is not null and pid <> pg_backend_pid() and datname = current_database()
order by age(backend_xmin) desc;
