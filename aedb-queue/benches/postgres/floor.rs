//! The floor: enqueue, claim and complete as one plain statement each, on tables with the least that a queue can do with.

use sqlx::{Connection, Executor, PgConnection};

use super::{BATCH, PAYLOAD, address, connection};

const TABLES: &str = "
    drop schema if exists floor cascade;
    create schema floor;
    create sequence floor.id;
    create table floor.ready (queue int, rank bigint, id bigint, header bytea, payload text, primary key (queue, rank, id));
    create table floor.running (id bigint primary key, token bigint, deadline bigint, worker text, header bytea, payload text, progress text)
        with (fillfactor = 70);
    create table floor.done (id bigint, at bigint, header bytea, payload text, result text);
    alter table floor.ready set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
    alter table floor.running set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);";

const ENQUEUE: &str = "insert into floor.ready
    select 1, 0, nextval('floor.id'), '\\x0102030405060708090a0b0c', payload from unnest($1::text[]) as u(payload)
    returning id";

const CLAIM: &str = "with gone as (
        delete from floor.ready where ctid = any(array(
            select ctid from floor.ready where queue = 1 order by queue, rank, id limit $1 for update skip locked))
        returning *
    ), moved as (
        insert into floor.running select id, $2, $3, 'w', header, payload, null from gone returning id, token, header, payload
    ) select * from moved";

const COMPLETE: &str = "with gone as (
        delete from floor.running r using unnest($1::bigint[], $2::bigint[]) as a(id, token)
        where r.id = a.id and r.token = a.token returning r.*
    ), kept as (
        insert into floor.done select id, $3, header, payload, null from gone returning id
    ) select id from kept";

/// Makes the tables.
pub(super) async fn lay() {
    connection().await.execute(format!("set client_min_messages = error; {TABLES}").as_str()).await.unwrap();
}

/// One that works on them.
pub(super) struct Floor {
    conn: PgConnection,
    token: i64,
}

impl Floor {
    pub(super) async fn connect() -> Self {
        Self { conn: PgConnection::connect(&address()).await.unwrap(), token: 0 }
    }

    /// Takes a batch through its life.
    pub(super) async fn batch(&mut self) -> usize {
        let payload = format!("\"{}\"", "x".repeat(PAYLOAD));
        self.token += 1;
        let payloads = vec![payload; BATCH];
        sqlx::query(ENQUEUE).bind(payloads).fetch_all(&mut self.conn).await.unwrap();
        let claimed: Vec<(i64, i64, Vec<u8>, String)> = sqlx::query_as(CLAIM)
            .bind(BATCH as i64)
            .bind(self.token)
            .bind(1_700_000_000_000_000_i64)
            .fetch_all(&mut self.conn)
            .await
            .unwrap();
        let (ids, tokens): (Vec<i64>, Vec<i64>) = claimed.iter().map(|(id, token, ..)| (*id, *token)).unzip();
        let done = sqlx::query(COMPLETE)
            .bind(ids)
            .bind(tokens)
            .bind(1_700_000_000_000_000_i64)
            .fetch_all(&mut self.conn)
            .await
            .unwrap();
        done.len()
    }
}
