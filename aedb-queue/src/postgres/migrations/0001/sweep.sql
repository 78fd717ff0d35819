-- Sweep: one bounded step of upkeep. Each part spends from the same number of steps.
create function aedb.sweep(
    p_now bigint, p_queue int, p_records bigint, p_bytes bigint, p_steps int,
    out promoted bigint, out reclaimed bigint, out keys_expired bigint, out pruned bigint, out died bigint[]
) language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    kept_records bigint;
    kept_bytes bigint;
    n bigint;
begin
    perform aedb.add_up(p_queue);
    reclaimed := aedb.reclaim(now, p_queue, p_steps);
    promoted := aedb.promote(now, p_queue, greatest(0, p_steps - reclaimed)::int);
    with gone as (
        delete from aedb.dedupe where ctid = any(array(
            select d.ctid from aedb.dedupe d where d.queue = p_queue and d.expires <= now
            order by d.queue, d.expires limit greatest(0, p_steps - reclaimed - promoted) for update skip locked))
        returning 1
    ) select count(*) into keys_expired from gone;
    pruned := 0;
    for kind in 1..3 loop
        select coalesce(sum(done + dead + cancelled), 0), coalesce(sum(bytes), 0) into kept_records, kept_bytes
        from aedb.tally where queue = p_queue;
        n := aedb.prune(now, p_queue, (array[3, 5, 4]::smallint[])[kind], kept_records - p_records, kept_bytes - p_bytes,
            greatest(0, p_steps - reclaimed - promoted - keys_expired - pruned)::int);
        pruned := pruned + n;
    end loop;
    with told as (
        delete from aedb.death where ctid = any(array(
            select d.ctid from aedb.death d where d.queue = p_queue order by d.queue, d.task limit p_steps for update skip locked))
        returning task
    ) select coalesce(array_agg(task order by task), '{}') into died from told;
end $$;

-- Removes records of a state past their age, then those that end first while so many records or bytes are too many.
create function aedb.prune(now bigint, p_queue int, p_state smallint, p_records bigint, p_bytes bigint, p_max int)
returns bigint language plpgsql as $$
declare
    n bigint;
begin
    with look as (
        select f.id, f.ends, f.size from aedb.finished f where f.queue = p_queue and f.state = p_state
        order by f.queue, f.state, f.ends, f.id limit p_max for update skip locked
    ), ranked as (
        select id, ends, row_number() over line - 1 as before, sum(size) over line - size as bytes_before
        from look window line as (order by ends, id)
    ), gone as (
        delete from aedb.finished f using ranked r
        where f.id = r.id and (r.ends <= now or r.before < p_records or r.bytes_before < p_bytes) returning f.id, f.size, f.beside
    ), bodies as (
        delete from aedb.body b using gone g where b.task = g.id and coalesce(g.beside, 0) <> 0
    ), counted as (
        insert into aedb.tally (queue, done, dead, cancelled, bytes)
        select p_queue, -count(*) * (p_state = 3)::int, -count(*) * (p_state = 4)::int, -count(*) * (p_state = 5)::int, -sum(size)
        from gone having count(*) > 0
    ) select count(*) into n from gone;
    return n;
end $$;

-- Makes one row of a queue's counts.
create function aedb.add_up(p_queue int) returns void language sql as $$
    with gone as (
        delete from aedb.tally where ctid = any(array(
            select t.ctid from aedb.tally t where t.queue = p_queue limit 100000 for update skip locked))
        returning *
    )
    insert into aedb.tally (queue, scheduled, ready, running, done, dead, cancelled, bytes)
    select p_queue, sum(scheduled), sum(ready), sum(running), sum(done), sum(dead), sum(cancelled), sum(bytes)
    from gone having count(*) > 0
$$;
