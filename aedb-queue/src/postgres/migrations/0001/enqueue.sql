-- Enqueue: one call for a batch, the same text in the caller's own transaction. Arrays that are null mean the default for all.
-- Answers the ids in the order of the tasks: new ones, or those of the tasks that have the keys already.
create function aedb.enqueue(
    p_now bigint, p_queues int[], p_names text[], p_payloads text[], p_ranks bigint[], p_after bigint[], p_at bigint[],
    p_policies text[], p_metadata text[], p_keys text[],
    out ids bigint[], out deduplicated bool[], out differs bool[]
) language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    n int := cardinality(p_queues);
    won bigint[];
begin
    ids := aedb.next_ids(now, n);
    if n = 0 then
        return;
    end if;
    if p_keys is not null then
        -- In the order of the keys, so that two batches cannot wait for one another.
        delete from aedb.dedupe d
        using (select distinct q, k from unnest(p_queues, p_keys) as u(q, k) where k is not null order by q, k) a
        where d.queue = a.q and d.key = a.k and d.expires <= now;
        with fresh as (
            insert into aedb.dedupe (queue, key, task, print)
            select distinct on (q, k) q, k, ids[o], aedb.print_of(name, payload)
            from unnest(p_queues, p_keys, p_names, p_payloads) with ordinality as u(q, k, name, payload, o)
            where k is not null order by q, k, o
            on conflict do nothing returning task
        ) select array_agg(task) into won from fresh;
        -- A new statement, which sees what others committed while we waited for their keys.
        select array_agg(coalesce(d.task, u.id) order by u.o), array_agg(u.k is not null and d.task <> u.id order by u.o),
            array_agg(u.k is not null and d.task <> u.id and d.print <> aedb.print_of(u.name, u.payload) order by u.o)
        into ids, deduplicated, differs
        from unnest(p_queues, p_keys, p_names, p_payloads, ids) with ordinality as u(q, k, name, payload, id, o)
        left join aedb.dedupe d on d.queue = u.q and d.key = u.k;
        if array_position(deduplicated, null) is not null then
            raise 'a key went while it was looked at' using errcode = 'serialization_failure';
        end if;
    end if;
    insert into aedb.ready (id, queue, beside, rank, at, name, payload, policy, key, metadata)
    select id, q, case when octet_length(payload) > 512 then 1 end, coalesce(rank, 9223372036854775807), now, name,
        case when octet_length(payload) <= 512 then payload end, policy::bigint[], key, metadata
    from unnest(ids, p_queues, p_names, p_payloads, p_ranks, p_after, p_at, p_policies, p_metadata, p_keys, deduplicated)
        as u(id, q, name, payload, rank, after, due, policy, metadata, key, known)
    where coalesce(due, aedb.later(now, coalesce(after, 0))) <= now and known is not true;
    if p_after is not null or p_at is not null then
        insert into aedb.scheduled (id, queue, beside, rank, enqueued, updated, at, name, payload, policy, key, metadata)
        select ids[o], q, case when octet_length(payload) > 512 then 1 end, rank, now, now, coalesce(due, aedb.later(now, after)), name,
            case when octet_length(payload) <= 512 then payload end, policy::bigint[], key, metadata
        from unnest(p_queues, p_names, p_payloads, p_ranks, p_after, p_at, p_policies, p_metadata, p_keys)
            with ordinality as u(q, name, payload, rank, after, due, policy, metadata, key, o)
        where coalesce(due, aedb.later(now, coalesce(after, 0))) > now and deduplicated[o] is not true;
    end if;
    if (select max(octet_length(payload)) from unnest(p_payloads) payload) > 512 then
        insert into aedb.body (task, slot, value)
        select id, 0, payload from unnest(ids, p_payloads, deduplicated) as u(id, payload, known)
        where octet_length(payload) > 512 and known is not true;
    end if;
    if p_after is null and p_at is null and p_keys is null and p_queues[1] = all(p_queues) then
        insert into aedb.tally (queue, ready) values (p_queues[1], n);
        return;
    end if;
    insert into aedb.tally (queue, ready, scheduled)
    select q, count(*) filter (where not later), count(*) filter (where later)
    from (
        select q, coalesce(due, aedb.later(now, coalesce(after, 0))) > now as later
        from unnest(p_queues, p_after, p_at, deduplicated) as u(q, after, due, known) where known is not true
    ) each group by q;
end $$;

-- For triggers and people: one task of the default policy. Answers its id, or that of the task which has the key already.
--
--     select aedb.enqueue_one('mail', 'mail.welcome', json_build_object('to', new.address)::text);
create function aedb.enqueue_one(
    queue text, name text, payload text, idempotency_key text default null, priority numeric default 0,
    delay interval default null, project text default 'default', scope text default 'default'
) returns bigint language plpgsql as $$
declare
    made record;
begin
    if octet_length(queue) not between 1 and 255 or octet_length(name) not between 1 and 255 or octet_length(payload) > 1048576
        or queue ~ '[[:cntrl:]]' or name ~ '[[:cntrl:]]' or octet_length(idempotency_key) not between 1 and 512
        or idempotency_key ~ '[[:cntrl:]]' or priority not between 0 and 18446744073709551615 then
        raise 'a name, key, payload or priority is out of its bounds' using errcode = 'check_violation';
    end if;
    perform payload::json;
    made := aedb.enqueue(null, array[aedb.queue_id(project, scope, queue)], array[name], array[payload],
        array[(9223372036854775807 - trunc(priority))::bigint],
        case when delay is not null then array[greatest(0, extract(epoch from delay) * 1000000)::bigint] end,
        null, null, null, case when idempotency_key is not null then array[idempotency_key] end);
    return made.ids[1];
end $$;
