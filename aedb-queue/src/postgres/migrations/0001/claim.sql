-- Claim: the highest priorities among all due tasks, under a new token each. What is due moves first.
--
-- A claimer may say up to which place in line it has taken everything, `p_rank` and `p_id`: what lies before is mostly rows that are gone and
-- not cleaned away, for as long as some session needs them. What has a higher priority is looked for all the same, and all of it
-- when something came back or too little is found.
create function aedb.claim(
    p_now bigint, p_queue int, p_owner text, p_lease bigint, p_max int, p_names text[], p_reclaim bool, p_rank bigint, p_id bigint,
    p_mark smallint)
returns table (id bigint, name text, payload text, progress text, attempts int, failures int, deliveries int, lost int,
    snoozes int, token bigint, deadline bigint, rank bigint, enqueued bigint, metadata text, policy bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    now bigint := coalesce(p_now, aedb.clock());
    floor bigint := (select token_floor from aedb.setting);
    got bigint := 0;
    served bigint;
    whole bool := p_rank is null;
    head tid[];
begin
    if p_max = 0 or exists (select 1 from aedb.queue q where q.id = p_queue and q.paused is not null) then
        return;
    end if;
    if p_reclaim then
        whole := aedb.reclaim(now, p_queue, 10000) > 0 or whole;
    end if;
    whole := aedb.promote(now, p_queue, 10000) > 0 or whole;
    loop
        head := '{}';
        if not whole then
            head := array(
                select r.ctid from aedb.ready r
                where r.queue = p_queue and r.rank < p_rank and (p_names is null or r.name = any(p_names))
                order by r.queue, r.rank, r.id limit p_max for update skip locked);
            head := head || array(
                select r.ctid from aedb.ready r
                where r.queue = p_queue and (r.rank, r.id) > (p_rank, p_id) and (p_names is null or r.name = any(p_names))
                order by r.queue, r.rank, r.id limit p_max - cardinality(head) for update skip locked);
        end if;
        if whole or cardinality(head) < p_max then
            head := head || array(
                select r.ctid from aedb.ready r
                where r.queue = p_queue and (p_names is null or r.name = any(p_names)) and (whole or r.ctid <> all(head))
                order by r.queue, r.rank, r.id limit p_max - got - cardinality(head) for update skip locked);
        end if;
        return query
        with gone as (
            delete from aedb.ready where ctid = any(head) returning *
        ), spent as (
            insert into aedb.finished (id, queue, state, attempts, failures, deliveries, lost, snoozes, beside, reason, rank,
                enqueued, at, token, ends, size, name, payload, progress, policy, key, metadata, failed)
            select g.id, g.queue, 4, g.attempts, g.failures, g.deliveries, g.lost, g.snoozes, g.beside, 1, g.rank,
                coalesce(g.enqueued, g.at), now, g.token, aedb.later(now, coalesce(g.policy[7], 2592000000000)),
                aedb.size_of(g.payload, g.progress, null, g.failed) + case when g.beside > 0 then aedb.beside(g.id, g.beside) else 0 end, g.name,
                g.payload, g.progress, g.policy, g.key, g.metadata, g.failed
            from gone g where g.failures >= coalesce(g.policy[1], 20)
            returning *
        ), moved as (
            insert into aedb.running (id, queue, reason, attempts, failures, deliveries, lost, snoozes, beside, rank, enqueued,
                at, token, claimed, name, owner, payload, progress, policy, key, metadata, failed)
            select g.id, g.queue, p_mark, coalesce(g.attempts, 0) + 1, g.failures, coalesce(g.deliveries, 0) + 1, g.lost, g.snoozes, g.beside,
                nullif(g.rank, 9223372036854775807), coalesce(g.enqueued, g.at), aedb.later(now, p_lease),
                greatest(coalesce(g.token, 0) + 1, floor), now, g.name, p_owner, g.payload, g.progress, g.policy, g.key, g.metadata, g.failed
            from gone g where coalesce(g.failures, 0) < coalesce(g.policy[1], 20)
            returning *
        ), told as (
            insert into aedb.death (queue, task) select s.queue, s.id from spent s on conflict do nothing
        ), ended as (
            update aedb.dedupe d set expires = aedb.later(now, coalesce(s.policy[8], 86400000000))
            from spent s where s.key is not null and d.queue = s.queue and d.key = s.key and d.task = s.id
        ), counted as (
            insert into aedb.tally (queue, ready, running, dead, bytes)
            select p_queue, -count(*), count(*) filter (where not dies), count(*) filter (where dies), coalesce(sum(size), 0)
            from (select false as dies, 0::bigint as size from moved union all select true, s.size from spent s) each
            having count(*) > 0
        )
        select m.id, m.name,
            case when m.beside & 1 = 1 then (select b.value from aedb.body b where b.task = m.id and b.slot = 0) else m.payload end,
            case when m.beside & 2 = 2 then (select b.value from aedb.body b where b.task = m.id and b.slot = 1) else m.progress end,
            m.attempts, coalesce(m.failures, 0), m.deliveries, coalesce(m.lost, 0), coalesce(m.snoozes, 0), m.token, m.at,
            coalesce(m.rank, 9223372036854775807), m.enqueued, m.metadata, m.policy
        from moved m order by coalesce(m.rank, 9223372036854775807), m.id;
        get diagnostics served = row_count;
        got := got + served;
        -- Those that were spent have left room for others.
        exit when got >= p_max or served = cardinality(head);
        whole := true;
    end loop;
end $$;

-- Gives back what a claim took whose answer nobody has got: it is known by its owner and the mark of its call.
create function aedb.give_back(p_now bigint, p_queue int, p_owner text, p_mark smallint) returns bigint language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    ids bigint[];
    tokens bigint[];
begin
    select array_agg(r.id order by r.id), array_agg(r.token order by r.id) into ids, tokens
    from aedb.running r where r.queue = p_queue and r.owner = p_owner and r.reason = p_mark and r.claimed > now - 600000000;
    if ids is null then
        return 0;
    end if;
    return cardinality(aedb.settle(now, p_queue, ids, tokens, array_fill(3::smallint, array[cardinality(ids)]), null, null, null, null, null));
end $$;

-- Makes scheduled tasks ready whose instant has come, the earliest first.
create function aedb.promote(now bigint, p_queue int, p_max int) returns bigint language plpgsql
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
    n bigint;
begin
    with gone as (
        delete from aedb.scheduled where ctid = any(array(
            select s.ctid from aedb.scheduled s where s.queue = p_queue and s.at <= now
            order by s.queue, s.at, s.id limit p_max for update skip locked))
        returning *
    ), moved as (
        insert into aedb.ready (id, queue, attempts, failures, deliveries, lost, snoozes, beside, rank, enqueued, updated, at, token,
            name, payload, progress, policy, key, metadata, failed)
        select g.id, g.queue, g.attempts, g.failures, g.deliveries, g.lost, g.snoozes, g.beside, coalesce(g.rank, 9223372036854775807),
            g.enqueued, g.updated, g.at, g.token, g.name, g.payload, g.progress, g.policy, g.key, g.metadata, g.failed
        from gone g returning 1
    ) select count(*) into n from moved;
    if n > 0 then
        insert into aedb.tally (queue, scheduled, ready) values (p_queue, -n, n);
    end if;
    return n;
end $$;

-- Takes back tasks whose lease ran out: straight to ready, no backoff, no failure; too many lost leases make one dead.
create function aedb.reclaim(now bigint, p_queue int, p_max int) returns bigint language plpgsql
set enable_seqscan = on set enable_indexscan = off set enable_bitmapscan = off -- there is no index to help
as $$
declare
    t aedb.finished;
    n bigint := 0;
begin
    for t in
        delete from aedb.running where ctid = any(array(
            select r.ctid from aedb.running r where r.queue = p_queue and r.at <= now
            order by r.at, r.id limit p_max for update skip locked))
        returning *
    loop
        n := n + 1;
        t := aedb.whole(t, 2::smallint);
        t.updated := now;
        t.at := now;
        t.lost := t.lost + 1;
        t.attempts := greatest(t.attempts - 1, 0);
        if t.lost >= coalesce(t.policy[2], 10) then
            t.state := 4;
            t.reason := 3;
            insert into aedb.death values (t.queue, t.id) on conflict do nothing;
        else
            t.state := 1;
        end if;
        perform aedb.put(t, now, 2::smallint);
    end loop;
    return n;
end $$;
