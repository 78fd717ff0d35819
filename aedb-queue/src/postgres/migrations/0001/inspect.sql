-- Counts by state and oldest ages, at a cost that does not grow with the backlog.
create function aedb.stats(
    p_queue int, out scheduled bigint, out ready bigint, out running bigint, out done bigint, out dead bigint,
    out cancelled bigint, out bytes bigint, out paused bigint, out oldest_ready bigint, out next_deadline bigint, out next_due bigint
) language sql stable as $$
    with recursive lines as (
        (select r.rank, r.at from aedb.ready r where r.queue = p_queue order by r.queue, r.rank, r.id limit 1)
        union all
        select n.rank, n.at from lines l cross join lateral (
            select r.rank, r.at from aedb.ready r where r.queue = p_queue and r.rank > l.rank
            order by r.queue, r.rank, r.id limit 1) n
    )
    select coalesce(sum(t.scheduled), 0), coalesce(sum(t.ready), 0), coalesce(sum(t.running), 0), coalesce(sum(t.done), 0),
        coalesce(sum(t.dead), 0), coalesce(sum(t.cancelled), 0), coalesce(sum(t.bytes), 0),
        (select q.paused from aedb.queue q where q.id = p_queue),
        (select min(l.at) from (select at from lines limit 1000) l),
        (select min(r.at) from aedb.running r where r.queue = p_queue),
        (select min(s.at) from aedb.scheduled s where s.queue = p_queue)
    from aedb.tally t where t.queue = p_queue
$$;

-- When something becomes due by itself next.
create function aedb.next_due(p_queue int) returns bigint language sql stable as $$
    select least((select min(s.at) from aedb.scheduled s where s.queue = p_queue),
                 (select min(r.at) from aedb.running r where r.queue = p_queue))
$$;

-- Compares counts, values and keys with the tasks; with `p_repair`, puts them right.
create function aedb.check_queue(p_queue int, p_repair bool, out records bigint, out problems text[], out repaired bigint)
language plpgsql as $$
declare
    are bigint[];
    say bigint[];
    r record;
begin
    problems := '{}';
    if p_repair then
        lock table aedb.ready, aedb.running, aedb.scheduled, aedb.finished, aedb.dedupe, aedb.tally in share row exclusive mode;
    end if;
    select count(*) into records from aedb.task where queue = p_queue;
    for r in
        select t.id, s.slot from aedb.task t cross join (values (0), (1), (2)) s(slot)
        where t.queue = p_queue and (t.beside >> s.slot) & 1 = 1
            and not exists (select 1 from aedb.body b where b.task = t.id and b.slot = s.slot)
    loop
        problems := problems || format('a long value of task %s is missing or damaged', r.id);
        if p_repair then
            perform aedb.set_aside(p_queue, r.id);
        end if;
    end loop;
    for r in
        select d.key from aedb.dedupe d where d.queue = p_queue and d.expires is null
            and not exists (select 1 from aedb.task t where t.id = d.task)
    loop
        problems := problems || format('an idempotency key''s entry is damaged or leads to no task: %s', r.key);
        if p_repair then
            delete from aedb.dedupe where queue = p_queue and key = r.key;
        end if;
    end loop;
    for r in
        select t.id, t.key, t.name, t.payload from aedb.task t
        where t.queue = p_queue and t.state < 3 and t.key is not null and not exists (
            select 1 from aedb.dedupe d where d.queue = t.queue and d.key = t.key and d.expires is null)
    loop
        problems := problems || format('task %s has lost its idempotency key, so a second task could take it', r.id);
        if p_repair then
            insert into aedb.dedupe (queue, key, task, print)
            values (p_queue, r.key, r.id, aedb.print_of(r.name, coalesce(r.payload, (select value from aedb.body where task = r.id and slot = 0), 'null')))
            on conflict (queue, key) do update set task = excluded.task, print = excluded.print, expires = null;
        end if;
    end loop;
    -- One statement, so that both are of one instant.
    select aedb.true_counts(p_queue), (select array[coalesce(sum(scheduled), 0), coalesce(sum(ready), 0), coalesce(sum(running), 0), coalesce(sum(done), 0),
        coalesce(sum(dead), 0), coalesce(sum(cancelled), 0), coalesce(sum(bytes), 0)]::bigint[] from aedb.tally where queue = p_queue)
    into are, say;
    if are <> say then
        problems := problems || format('the queue''s counts are not those of its records: %s, not %s', say, are);
        if p_repair then
            delete from aedb.tally where queue = p_queue;
            insert into aedb.tally select p_queue, are[1], are[2], are[3], are[4], are[5], are[6], are[7];
        end if;
    end if;
    repaired := case when p_repair then cardinality(problems) else 0 end;
    problems := problems[:1000];
end $$;

create function aedb.true_counts(p_queue int) returns bigint[] language sql stable as $$
    select array[count(*) filter (where state = 0), count(*) filter (where state = 1), count(*) filter (where state = 2),
        count(*) filter (where state = 3), count(*) filter (where state = 4), count(*) filter (where state = 5),
        coalesce(sum(size) filter (where state > 2), 0)]::bigint[]
    from aedb.task where queue = p_queue
$$;

-- Makes a task dead whose long value is lost; what is left of it stays to look at.
create function aedb.set_aside(p_queue int, p_id bigint) returns void language plpgsql as $$
declare
    now bigint := aedb.clock();
    t aedb.finished := aedb.take(p_queue, p_id, array[0, 1, 2, 3, 4, 5]::smallint[]);
    was smallint := t.state;
begin
    if t.id is null then
        return;
    end if;
    t.state := 4;
    t.reason := 4;
    t.at := now;
    t.updated := now;
    t.token := t.token + 1; -- whoever holds the task now must not find its token right again
    t.beside := (select coalesce(bit_or(1 << slot), 0) from aedb.body where task = p_id);
    if t.beside & 1 = 0 then
        t.payload := coalesce(t.payload, 'null');
    end if;
    insert into aedb.death values (p_queue, p_id) on conflict do nothing;
    perform aedb.put(t, now, was);
end $$;
