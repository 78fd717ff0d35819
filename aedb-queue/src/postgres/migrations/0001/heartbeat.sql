-- Heartbeat: extends leases, never shortens them, and records progress. An item that lost its lease is missing from the answer.
--
-- A task whose row another transaction holds is being settled: nobody can take it over before that ends, so its heartbeat does not wait,
-- and neither do those of the others. One with progress does, since what it records must be there.
create function aedb.heartbeat(p_now bigint, p_queue int, p_ids bigint[], p_tokens bigint[], p_leases bigint[], p_progress text[])
returns table (id bigint, deadline bigint) language plpgsql
-- Planned for the sizes of the call: a plan from when the table was empty would compare each item with each task.
set plan_cache_mode = force_custom_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off
as $$
#variable_conflict use_column
declare
    now bigint := coalesce(p_now, aedb.clock());
    beaten bigint[];
    until bigint[];
    kept record;
begin
    with mine as (
        select r.id, a.lease
        from unnest(p_ids, p_tokens, p_leases, p_progress) as a(id, token, lease, value)
        join aedb.running r on r.id = a.id and r.token = a.token and r.queue = p_queue
        where a.value is null for no key update of r skip locked
    ), extended as (
        update aedb.running r set at = greatest(r.at, aedb.later(now, m.lease)), updated = now
        from mine m where r.id = m.id returning r.id, r.at
    )
    select coalesce(array_agg(e.id), '{}'), coalesce(array_agg(e.at), '{}') into beaten, until from extended e;
    return query select u.id, u.at from unnest(beaten, until) as u(id, at);
    if p_progress is not null then
        return query
        update aedb.running r set at = greatest(r.at, aedb.later(now, a.lease)), updated = now
        from unnest(p_ids, p_tokens, p_leases, p_progress) as a(id, token, lease, value)
        where r.id = a.id and r.token = a.token and r.queue = p_queue and a.value is not null returning r.id, r.at;
        for kept in
            select r.id, coalesce(r.beside, 0::smallint) as beside, a.value from aedb.running r, unnest(p_ids, p_tokens, p_progress) as a(id, token, value)
            where r.id = a.id and r.token = a.token and r.queue = p_queue and a.value is not null
        loop
            update aedb.running r set progress = aedb.set_value(kept.id, 1::smallint, kept.beside, kept.value),
                beside = aedb.set_beside(kept.beside, 1::smallint, kept.value)
            where r.id = kept.id;
        end loop;
    end if;
    if cardinality(beaten) < cardinality(p_ids) then
        return query
        select r.id, r.at from unnest(p_ids, p_tokens, p_progress) as a(id, token, value)
        join aedb.running r on r.id = a.id and r.token = a.token and r.queue = p_queue
        where a.value is null and r.id <> all(beaten);
    end if;
end $$;
