-- What the verbs share.

create function aedb.clock() returns bigint language sql volatile
as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

-- An instant later, or never.
create function aedb.later(at bigint, wait bigint) returns bigint language sql immutable
as $$ select case when wait > 9223372036854775807 - at then 9223372036854775807 else at + wait end $$;

-- max_attempts, max_lost_leases, backoff base, cap, jitter in percent, keep_done, keep_dead, the idempotency key's window.
create function aedb.default_policy() returns bigint[] language sql immutable
as $$ select array[20, 10, 1000000, 3600000000, 20, 86400000000, 2592000000000, 86400000000]::bigint[] $$;

create function aedb.queue_id(p_project text, p_scope text, p_queue text) returns int language plpgsql as $$
declare
    space int := aedb.scope_id(p_project, p_scope);
    found_id int;
begin
    select id into found_id from aedb.queue where scope = space and name = p_queue;
    if found_id is null then
        insert into aedb.queue (scope, name) values (space, p_queue) on conflict do nothing;
        select id into found_id from aedb.queue where scope = space and name = p_queue;
    end if;
    return found_id;
end $$;

create function aedb.scope_id(p_project text, p_scope text) returns int language plpgsql as $$
declare
    found_id int;
begin
    select id into found_id from aedb.scope where project = p_project and name = p_scope;
    if found_id is null then
        insert into aedb.scope (project, name) values (p_project, p_scope) on conflict do nothing;
        select id into found_id from aedb.scope where project = p_project and name = p_scope;
    end if;
    return found_id;
end $$;

-- Ids grow by one. They are kept near the present microsecond, so that a database that was restored hands out none twice.
create function aedb.next_ids(now bigint, n int) returns bigint[] language plpgsql as $$
declare
    ids bigint[];
begin
    if n = 0 then
        return ids;
    end if;
    ids := array(select nextval('aedb.task_id') from generate_series(1, n));
    -- Whoever does not get the lock goes on with what it has: the one that holds it may be a caller's long transaction.
    if ids[n] < now - 1000000 and pg_try_advisory_xact_lock(hashtext('aedb.task_id')) then
        -- Nobody can have taken a million ids meanwhile, so the jump passes over all that were handed out.
        if nextval('aedb.task_id') < now - 1000000 then
            perform setval('aedb.task_id', now);
        end if;
        ids := array(select nextval('aedb.task_id') from generate_series(1, n));
    end if;
    return ids;
end $$;

-- Puts a task into the table of its state, with everything that follows from it: counts, the end of its key, its age.
-- `was` is the state that it was taken from.
create function aedb.put(t aedb.finished, now bigint, was smallint) returns void language plpgsql as $$
declare
    p bigint[] := coalesce(t.policy, aedb.default_policy());
    before bigint := case when was > 2 then coalesce(t.size, 0) else 0 end;
begin
    if t.state > 2 and was <= 2 or t.state <= 2 and was > 2 then
        if t.key is not null and t.state > 2 then
            update aedb.dedupe set expires = aedb.later(now, p[8]) where queue = t.queue and key = t.key and task = t.id;
        elsif t.key is not null then
            insert into aedb.dedupe as d (queue, key, task, print) values (t.queue, t.key, t.id, aedb.print(t))
            on conflict (queue, key) do update set expires = null where d.task = excluded.task;
        end if;
    end if;
    t.size := null;
    t.ends := null;
    if t.state = 1 then
        t.owner := null; t.claimed := null;
        insert into aedb.ready values (t.*);
    elsif t.state = 0 then
        t.owner := null; t.claimed := null;
        insert into aedb.scheduled values (t.*);
    elsif t.state = 2 then
        insert into aedb.running values (t.*);
    else
        t.owner := null; t.claimed := null;
        t.ends := aedb.later(t.at, case when t.state = 4 then p[7] else p[6] end);
        t.size := aedb.size_of(t.payload, t.progress, t.result, t.failed) + aedb.beside(t.id, t.beside);
        if t.state <> 4 and p[6] = 0 then
            delete from aedb.body where task = t.id;
            perform aedb.count(t.queue, was, -1, -before);
            return;
        end if;
        insert into aedb.finished values (t.*);
    end if;
    insert into aedb.tally (queue, scheduled, ready, running, done, dead, cancelled, bytes) values (t.queue,
        (t.state = 0)::int - (was = 0)::int, (t.state = 1)::int - (was = 1)::int, (t.state = 2)::int - (was = 2)::int,
        (t.state = 3)::int - (was = 3)::int, (t.state = 4)::int - (was = 4)::int, (t.state = 5)::int - (was = 5)::int,
        coalesce(t.size, 0) - before);
end $$;

-- Adds to the count of a state.
create function aedb.count(p_queue int, p_state smallint, n bigint, p_bytes bigint) returns void language sql as $$
    insert into aedb.tally (queue, scheduled, ready, running, done, dead, cancelled, bytes) values (p_queue,
        n * (p_state = 0)::int, n * (p_state = 1)::int, n * (p_state = 2)::int,
        n * (p_state = 3)::int, n * (p_state = 4)::int, n * (p_state = 5)::int, p_bytes)
$$;

-- About the bytes of a finished record, without what lies beside it. No more volatile than it says, so that the planner puts it in place.
create function aedb.size_of(payload text, progress text, result text, failed text[]) returns bigint language sql stable as $$
    select 200 + coalesce(octet_length(payload), 0) + coalesce(octet_length(progress), 0) + coalesce(octet_length(result), 0)
        + coalesce(pg_column_size(failed), 0)
$$;

-- Bytes of a task's values that lie beside it.
create function aedb.beside(p_task bigint, p_beside smallint) returns bigint language sql stable as $$
    select case when coalesce(p_beside, 0) = 0 then 0
                else (select coalesce(sum(octet_length(value)), 0)::bigint from aedb.body where task = p_task) end
$$;

-- What a name and payload are known by.
create function aedb.print_of(p_name text, p_payload text) returns bigint language sql immutable
as $$ select ('x' || encode(substr(sha256(convert_to(p_name || E'\n' || p_payload, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint $$;

create function aedb.print(t aedb.finished) returns bigint language sql stable as $$
    select aedb.print_of(t.name, coalesce(t.payload, (select value from aedb.body where task = t.id and slot = 0), 'null'))
$$;

-- A row with nothing left out, from the table of a state.
create function aedb.whole(t aedb.finished, p_state smallint) returns aedb.finished language plpgsql immutable as $$
begin
    t.updated := coalesce(t.updated, case when p_state = 2 then t.claimed else t.at end);
    t.enqueued := coalesce(t.enqueued, t.at);
    t.reason := case when p_state <> 2 then t.reason end;
    t.state := p_state;
    t.beside := coalesce(t.beside, 0);
    t.token := coalesce(t.token, 0);
    t.attempts := coalesce(t.attempts, 0);
    t.deliveries := coalesce(t.deliveries, 0);
    t.failures := coalesce(t.failures, 0);
    t.lost := coalesce(t.lost, 0);
    t.snoozes := coalesce(t.snoozes, 0);
    t.rank := coalesce(t.rank, 9223372036854775807);
    return t;
end $$;

-- The priorities that a queue's ready tasks have, by one look at the index for each.
create function aedb.ranks(p_queue int) returns bigint[] language sql stable as $$
    with recursive lines as (
        (select r.rank from aedb.ready r where r.queue = p_queue order by r.queue, r.rank limit 1)
        union all
        select (select r.rank from aedb.ready r where r.queue = p_queue and r.rank > l.rank order by r.queue, r.rank limit 1)
        from lines l where l.rank is not null
    )
    select array_agg(rank) from lines where rank is not null
$$;

-- Tasks by their ids, wherever they lie.
create function aedb.find(p_queue int, p_ids bigint[]) returns setof aedb.task language sql stable as $$
    select * from aedb.ready_task where queue = p_queue and rank = any(aedb.ranks(p_queue)) and id = any(p_ids)
    union all select * from aedb.running_task where queue = p_queue and id = any(p_ids)
    union all select * from aedb.scheduled_task where queue = p_queue and id = any(p_ids)
    union all select * from aedb.finished_task where queue = p_queue and id = any(p_ids)
$$;

-- Takes a task out of whichever table it lies in, to be put back. Three looks: it may move while we look.
create function aedb.take(p_queue int, p_id bigint, p_states smallint[]) returns aedb.finished language plpgsql as $$
declare
    t aedb.finished;
begin
    for look in 1..3 loop
        if 1 = any(p_states) then
            delete from aedb.ready where queue = p_queue and rank = any(aedb.ranks(p_queue)) and id = p_id returning * into t;
            if found then return aedb.whole(t, 1::smallint); end if;
        end if;
        if 2 = any(p_states) then
            delete from aedb.running where id = p_id and queue = p_queue returning * into t;
            if found then return aedb.whole(t, 2::smallint); end if;
        end if;
        if 0 = any(p_states) then
            delete from aedb.scheduled where id = p_id and queue = p_queue returning * into t;
            if found then return aedb.whole(t, 0::smallint); end if;
        end if;
        delete from aedb.finished where id = p_id and queue = p_queue and state = any(p_states) returning * into t;
        if found then return aedb.whole(t, t.state); end if;
    end loop;
    return null;
end $$;

-- Records a value where it belongs: in the row up to 512 bytes, else beside it. Answers the row's part.
create function aedb.set_value(p_task bigint, p_slot smallint, p_beside smallint, p_value text) returns text
language plpgsql as $$
begin
    if p_value is not null and octet_length(p_value) > 512 then
        insert into aedb.body values (p_task, p_slot, p_value)
        on conflict (task, slot) do update set value = excluded.value;
        return null;
    end if;
    if (p_beside >> p_slot) & 1 = 1 then
        delete from aedb.body where task = p_task and slot = p_slot;
    end if;
    return p_value;
end $$;

-- Which values lie beside after slot's has been set to this.
create function aedb.set_beside(p_beside smallint, p_slot smallint, p_value text) returns smallint language sql immutable as $$
    select (case when p_value is not null and octet_length(p_value) > 512 then p_beside | (1 << p_slot)
                 else p_beside & ~(1 << p_slot) end)::smallint
$$;
