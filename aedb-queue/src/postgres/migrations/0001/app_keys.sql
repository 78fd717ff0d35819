-- Locks application keys until the commit, in one order for all, so that what is asserted stays so. Keys share 1,024 locks.
create function aedb.lock_keys(p_scope int, p_keys bytea[]) returns void language plpgsql as $$
declare
    stripe int;
begin
    for stripe in select distinct (hashtext(encode(k, 'hex')) & 1023) | (p_scope << 10) from unnest(p_keys) k order by 1 loop
        perform pg_advisory_xact_lock(hashtext('aedb.app_key'), stripe);
    end loop;
end $$;

-- Applies effects on keys in order, after all assertions have been looked at. The keys are locked already.
-- Kinds: 0 put, 1 delete, 2 assert absent, 3 assert present, 4 assert value, 5 append. Answers the first key that is not as asserted.
create function aedb.apply_keys(p_now bigint, p_scope int, p_kinds smallint[], p_keys bytea[], p_values bytea[])
returns bytea language plpgsql as $$
declare
    now bigint := coalesce(p_now, aedb.clock());
    e record;
    number bigint;
begin
    for e in select * from unnest(p_kinds, p_keys, p_values) with ordinality as u(kind, key, value, o)
             left join lateral (select a.value as has from aedb.app_key a where a.scope = p_scope and a.key = u.key) h on true
             where u.kind between 2 and 4 order by o
    loop
        if (case e.kind when 2 then e.has is not null when 3 then e.has is null else e.has is distinct from e.value end) then
            return e.key;
        end if;
    end loop;
    for e in select * from unnest(p_kinds, p_keys, p_values) with ordinality as u(kind, key, value, o) order by o loop
        if e.kind = 0 then
            insert into aedb.app_key values (p_scope, e.key, e.value)
            on conflict (scope, key) do update set value = excluded.value;
        elsif e.kind = 1 then
            delete from aedb.app_key where scope = p_scope and key = e.key;
        elsif e.kind = 5 then
            update aedb.scope set last_number = greatest(last_number + 1, now) where id = p_scope returning last_number into number;
            insert into aedb.app_key values (p_scope, e.key || int8send(number), e.value)
            on conflict (scope, key) do update set value = excluded.value;
        end if;
    end loop;
    return null;
end $$;
