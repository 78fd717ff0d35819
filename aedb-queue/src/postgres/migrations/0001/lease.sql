-- Leases. Acquired: `got`, with token and until. Held by somebody else: his name and until.
create function aedb.acquire(
    p_now bigint, p_scope int, p_name text, p_owner text, p_length bigint, p_note text, p_worker text,
    out got bool, out holder text, out token bigint, out until bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    now bigint := coalesce(p_now, aedb.clock());
    floor bigint := (select token_floor from aedb.setting);
    first bigint := 0;
begin
    if p_worker is not null and starts_with(p_name, p_worker) then
        -- Tokens of workers begin at the present microsecond, so that they grow even over a record that was forgotten.
        first := now;
        delete from aedb.lease l where ctid = any(array(
            select l.ctid from aedb.lease l where l.scope = p_scope and starts_with(l.name, p_worker) and l.name <> p_name
                and l.until <= now - 86400000000 limit 1000 for update skip locked));
    end if;
    insert into aedb.lease as l (scope, name, owner, token, until, acquired, note)
    values (p_scope, p_name, p_owner, greatest(first + 1, floor), aedb.later(now, p_length), now, p_note)
    on conflict (scope, name) do update set owner = excluded.owner, token = greatest(l.token + 1, floor),
        until = excluded.until, acquired = excluded.acquired, note = excluded.note
    where l.owner is null or l.until <= now or l.owner = excluded.owner
    returning l.token, l.until into token, until;
    got := found;
    holder := p_owner;
    if not got then
        select l.owner, l.until into holder, until from aedb.lease l where l.scope = p_scope and l.name = p_name;
        if not found or holder is null then
            raise 'the lease was given back meanwhile' using errcode = 'serialization_failure';
        end if;
    end if;
end $$;

create function aedb.renew(p_now bigint, p_scope int, p_name text, p_owner text, p_token bigint, p_length bigint)
returns bigint language sql as $$
    update aedb.lease set until = greatest(until, aedb.later(coalesce(p_now, aedb.clock()), p_length))
    where scope = p_scope and name = p_name and owner = p_owner and token = p_token and until > coalesce(p_now, aedb.clock())
    returning until
$$;

create function aedb.release(p_now bigint, p_scope int, p_name text, p_token bigint) returns void language sql as $$
    update aedb.lease set owner = null, note = null, until = coalesce(p_now, aedb.clock())
    where scope = p_scope and name = p_name and token = p_token and owner is not null
$$;

-- Whether the lease is current; then nobody takes it over before this transaction ends.
create function aedb.lease_guard(p_now bigint, p_scope int, p_name text, p_owner text, p_token bigint) returns bool
language plpgsql as $$
begin
    perform 1 from aedb.lease where scope = p_scope and name = p_name and owner = p_owner and token = p_token
        and until > coalesce(p_now, aedb.clock()) for share;
    return found;
end $$;
