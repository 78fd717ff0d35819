-- Settle: what workers decided, under their tokens. An item whose task and token are not in flight is missing from the answer.
-- Kinds: 0 complete, 1 fail, 2 snooze, 3 release, 4 discard, 5 continue. No id comes twice.
create function aedb.settle(
    p_now bigint, p_queue int, p_ids bigint[], p_tokens bigint[], p_kinds smallint[], p_values text[], p_keep bigint[],
    p_after bigint[], p_at bigint[], p_fatal bool[]
) returns bigint[] language plpgsql
-- Planned for the sizes of the call: a plan from when the table was empty would compare each item with each task.
set plan_cache_mode = force_custom_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off
as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    done bigint[];
    others bigint[];
    erased bigint[];
    keys text[];
    key_of bigint[];
    windows bigint[];
    kept_records bigint;
    kept_bytes bigint;
begin
    if 0 = any(p_kinds) and p_kinds[1] <> any(p_kinds) then
        -- Of several verdicts: in the order of the ids over all of them, too.
        perform 1 from aedb.running r, unnest(p_ids, p_tokens) as a(id, token)
        where r.id = a.id and r.token = a.token and r.queue = p_queue order by r.id for update of r;
    end if;
    if 0 = any(p_kinds) then
        -- The most frequent verdict goes by sets. The ids come sorted, and nested loops keep them so: no two settles can deadlock.
        with gone as (
            delete from aedb.running r
            using unnest(p_ids, p_tokens, p_kinds, p_values, p_keep) as a(id, token, kind, value, keep)
            where r.id = a.id and r.token = a.token and r.queue = p_queue and a.kind = 0
            returning r.*, a.value, coalesce(a.keep, r.policy[6], 86400000000) as keeps
        ), kept as (
            insert into aedb.finished (id, queue, state, attempts, failures, deliveries, lost, snoozes, beside, rank, enqueued,
                at, token, ends, size, name, payload, progress, result, policy, key, metadata, failed)
            select g.id, g.queue, 3, g.attempts, g.failures, g.deliveries, g.lost, g.snoozes,
                case when octet_length(g.value) > 512 then coalesce(g.beside, 0) | 4 else g.beside end, g.rank, g.enqueued, now, g.token,
                aedb.later(now, g.keeps),
                aedb.size_of(g.payload, g.progress, g.value, g.failed) + case when g.beside > 0 then aedb.beside(g.id, g.beside) else 0 end,
                g.name, g.payload, g.progress, case when octet_length(g.value) <= 512 then g.value end, g.policy, g.key,
                g.metadata, g.failed
            from gone g where g.keeps > 0 returning size
        )
        select array_agg(g.id), array_agg(g.id) filter (where g.keeps = 0), array_agg(g.key) filter (where g.key is not null),
            array_agg(g.id) filter (where g.key is not null),
            array_agg(coalesce(g.policy[8], 86400000000)) filter (where g.key is not null),
            (select count(*) from kept), (select coalesce(sum(size), 0) from kept)
        into done, erased, keys, key_of, windows, kept_records, kept_bytes from gone g;
        if done is not null then
            insert into aedb.tally (queue, running, done, bytes) values (p_queue, -cardinality(done), kept_records, kept_bytes);
        end if;
        -- What few tasks have.
        if keys is not null then
            update aedb.dedupe d set expires = aedb.later(now, u.span) from unnest(keys, key_of, windows) as u(key, task, span)
            where d.queue = p_queue and d.key = u.key and d.task = u.task;
        end if;
        if erased is not null then
            delete from aedb.body where task = any(erased);
        end if;
        if exists (select 1 from unnest(p_values) as v where octet_length(v) > 512) then
            insert into aedb.body (task, slot, value)
            select a.id, 2, a.value from unnest(p_ids, p_kinds, p_values) as a(id, kind, value)
            where a.kind = 0 and octet_length(a.value) > 512 and a.id = any(done) and (erased is null or a.id <> all(erased));
        end if;
    end if;
    if array_length(array_remove(p_kinds, 0::smallint), 1) > 0 then
        others := aedb.settle_each(now, p_queue, p_ids, p_tokens, p_kinds, p_values, p_after, p_at, p_fatal);
    end if;
    return coalesce(done, '{}') || coalesce(others, '{}');
end $$;

-- The other verdicts, one by one.
create function aedb.settle_each(
    now bigint, p_queue int, p_ids bigint[], p_tokens bigint[], p_kinds smallint[], p_values text[], p_after bigint[],
    p_at bigint[], p_fatal bool[]
) returns bigint[] language plpgsql as $$
declare
    r record;
    t aedb.finished;
    p bigint[];
    due bigint;
    done bigint[];
begin
    for r in
        select u.* from unnest(p_ids, p_tokens, p_kinds, p_values, p_after, p_at, p_fatal)
            as u(id, token, kind, value, after, at, fatal) where u.kind <> 0
    loop
        delete from aedb.running x where x.id = r.id and x.token = r.token and x.queue = p_queue returning * into t;
        continue when not found;
        t := aedb.whole(t, 2::smallint);
        done := done || r.id;
        p := coalesce(t.policy, aedb.default_policy());
        due := coalesce(r.at, aedb.later(now, coalesce(r.after, 0)));
        t.updated := now;
        if r.kind in (1, 4) then
            t.failed := (t.failed || array[now::text, t.attempts::text, r.value]);
            t.failed := t.failed[greatest(1, array_length(t.failed, 1) - 29):];
        end if;
        if r.kind = 1 then
            t.failures := t.failures + 1;
            if r.fatal or t.failures >= p[1] then
                t.state := 4;
                t.reason := case when r.fatal then 2 else 1 end;
            elsif r.at is null then
                due := aedb.later(now, aedb.backoff(p[3], p[4], p[5], t.failures, t.id));
            end if;
        elsif r.kind = 2 then
            t.snoozes := t.snoozes + 1;
            t.attempts := greatest(t.attempts - 1, 0);
        elsif r.kind = 3 then
            t.attempts := greatest(t.attempts - 1, 0);
            due := now;
        elsif r.kind = 4 then
            t.state := 5;
        elsif r.kind = 5 then
            t.failures := 0;
            t.lost := 0;
            t.payload := aedb.set_value(t.id, 0::smallint, t.beside, r.value);
            t.beside := aedb.set_beside(t.beside, 0::smallint, r.value);
            t.progress := aedb.set_value(t.id, 1::smallint, t.beside, null);
            t.beside := aedb.set_beside(t.beside, 1::smallint, null);
        end if;
        if t.state = 2 then
            t.state := case when due <= now then 1 else 0 end;
            t.at := case when due <= now then now else due end;
        else
            t.at := now;
        end if;
        perform aedb.put(t, now, 2::smallint);
    end loop;
    return done;
end $$;

-- The wait after the n-th failure: base * 2^(n-1), at most cap, less a pseudo-random part. The same as Backoff::wait.
create function aedb.backoff(base bigint, cap bigint, jitter bigint, n int, seed bigint) returns bigint
language plpgsql immutable as $$
declare
    size numeric := 18446744073709551616;
    whole numeric := least(base::numeric * case when n > 64 then size else power(2::numeric, n - 1) end, cap);
    z numeric;
begin
    if jitter = 0 or whole = 0 then
        return trunc(whole);
    end if;
    z := mod(aedb.unsigned(seed # (n::bigint << 32)) + 11400714819323198485, size);
    z := mod(aedb.unsigned(aedb.signed(z) # aedb.shifted(aedb.signed(z), 30)) * 13787848793156543929, size);
    z := mod(aedb.unsigned(aedb.signed(z) # aedb.shifted(aedb.signed(z), 27)) * 10723151780598845931, size);
    z := aedb.unsigned(aedb.signed(z) # aedb.shifted(aedb.signed(z), 31));
    return trunc(whole - div(div(trunc(whole) * jitter, 100) * z, size));
end $$;

create function aedb.unsigned(n bigint) returns numeric language sql immutable
as $$ select case when n < 0 then n::numeric + 18446744073709551616 else n end $$;

create function aedb.signed(n numeric) returns bigint language sql immutable
as $$ select (case when n > 9223372036854775807 then n - 18446744073709551616 else n end)::bigint $$;

create function aedb.shifted(n bigint, bits int) returns bigint language sql immutable
as $$ select (n >> bits) & ((1::bigint << (64 - bits)) - 1) $$;
