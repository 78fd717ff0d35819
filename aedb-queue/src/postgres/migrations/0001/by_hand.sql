-- What people do to tasks by their ids. Each answers the ids that it changed, and goes through them in order, so that two
-- calls cannot deadlock.

create function aedb.cancel(p_now bigint, p_queue int, p_ids bigint[]) returns bigint[] language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    one bigint;
    was smallint;
    t aedb.finished;
    done bigint[] := '{}';
begin
    for one in select distinct u from unnest(p_ids) u order by u loop
        t := aedb.take(p_queue, one, array[0, 1, 2]::smallint[]);
        continue when t.id is null;
        was := t.state;
        t.state := 5;
        t.at := now;
        t.updated := now;
        perform aedb.put(t, now, was);
        done := done || one;
    end loop;
    return done;
end $$;

-- Terms that are null stay.
create function aedb.amend(
    p_now bigint, p_queue int, p_ids bigint[], p_rank bigint, p_attempts bigint, p_base bigint, p_cap bigint, p_jitter bigint
) returns bigint[] language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    one bigint;
    was smallint;
    t aedb.finished;
    p bigint[];
    done bigint[] := '{}';
begin
    for one in select distinct u from unnest(p_ids) u order by u loop
        t := aedb.take(p_queue, one, array[0, 1, 2]::smallint[]);
        continue when t.id is null;
        was := t.state;
        t.updated := now;
        t.rank := coalesce(p_rank, t.rank);
        p := coalesce(t.policy, aedb.default_policy());
        p[1] := coalesce(p_attempts, p[1]);
        p[3] := coalesce(p_base, p[3]);
        p[4] := coalesce(p_cap, p[4]);
        p[5] := coalesce(p_jitter, p[5]);
        t.policy := nullif(p, aedb.default_policy());
        if t.failures >= p[1] and was <> 2 then
            t.state := 4;
            t.reason := 1;
            t.at := now;
            insert into aedb.death values (t.queue, t.id) on conflict do nothing;
        end if;
        if t.state = 2 then
            insert into aedb.running values (t.*);
        else
            perform aedb.put(t, now, was);
        end if;
        done := done || one;
    end loop;
    return done;
end $$;

create function aedb.retry(p_now bigint, p_queue int, p_ids bigint[]) returns bigint[] language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    one bigint;
    was smallint;
    t aedb.finished;
    done bigint[] := '{}';
begin
    for one in select distinct u from unnest(p_ids) u order by u loop
        -- The key's window had passed and another task has it now: two tasks of one key must not both live.
        continue when exists (
            select 1 from aedb.find(p_queue, array[one]) x join aedb.dedupe d on d.queue = x.queue and d.key = x.key
            where d.task <> one);
        t := aedb.take(p_queue, one, array[0, 4, 5]::smallint[]);
        continue when t.id is null;
        was := t.state;
        if t.reason = 4 then
            insert into aedb.finished values (t.*);
            continue;
        end if;
        t.state := 1;
        t.reason := null;
        t.at := now;
        t.updated := now;
        t.failures := 0;
        t.lost := 0;
        perform aedb.put(t, now, was);
        if exists (select 1 from aedb.dedupe d where d.queue = t.queue and d.key = t.key and d.task <> t.id) then
            raise 'the key was taken meanwhile' using errcode = 'serialization_failure';
        end if;
        done := done || one;
    end loop;
    return done;
end $$;

create function aedb.remove(p_queue int, p_ids bigint[]) returns bigint[] language plpgsql as $$
declare
    one bigint;
    t aedb.finished;
    done bigint[] := '{}';
begin
    for one in select distinct u from unnest(p_ids) u order by u loop
        t := aedb.take(p_queue, one, array[0, 1, 3, 4, 5]::smallint[]);
        continue when t.id is null;
        delete from aedb.body where task = one;
        delete from aedb.dedupe where queue = p_queue and key = t.key and task = one;
        perform aedb.count(p_queue, t.state, -1, -coalesce(t.size, 0));
        done := done || one;
    end loop;
    return done;
end $$;

create function aedb.pause(p_now bigint, p_queue int, p_paused bool) returns void language sql as $$
    update aedb.queue set paused = case when p_paused then coalesce(paused, p_now, aedb.clock()) end where id = p_queue
$$;
