-- Heartbeat: extends leases, never shortens them, and records progress. An item that lost its lease is missing from the answer.
create function aedb.heartbeat(p_now bigint, p_queue int, p_ids bigint[], p_tokens bigint[], p_leases bigint[], p_progress text[])
returns table (id bigint, deadline bigint) language plpgsql
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    now bigint := coalesce(p_now, aedb.clock());
    kept record;
begin
    return query
    update aedb.running r set at = greatest(r.at, aedb.later(now, a.lease)), updated = now
    from unnest(p_ids, p_tokens, p_leases) as a(id, token, lease)
    where r.id = a.id and r.token = a.token and r.queue = p_queue returning r.id, r.at;
    if p_progress is not null then
        for kept in
            select r.id, r.beside, a.value from aedb.running r, unnest(p_ids, p_tokens, p_progress) as a(id, token, value)
            where r.id = a.id and r.token = a.token and r.queue = p_queue and a.value is not null
        loop
            update aedb.running r set progress = aedb.set_value(kept.id, 1::smallint, kept.beside, kept.value),
                beside = aedb.set_beside(kept.beside, 1::smallint, kept.value)
            where r.id = kept.id;
        end loop;
    end if;
end $$;
