//! List: pages of tasks along an order, with cursors that stay good while tasks move.

use std::sync::Arc;

use sqlx::{PgConnection, Row};

use super::fault::Fault;
use super::pool::Verb;
use super::row::{self, COLUMNS};
use super::{PgStore, number};
use crate::error::{Error, ErrorKind};
use crate::model::limits;
use crate::model::task::StateKind;
use crate::store::{Cursor, Filter, Page, Place};

pub(super) struct List {
    pub(super) at: Place,
    pub(super) queue: Arc<str>,
    pub(super) filter: Filter,
}

/// The table that holds a state, the column that orders it, and the state's number.
fn line(state: Option<StateKind>) -> (&'static str, &'static str, Option<i16>) {
    match state {
        None => ("task", "id", None),
        Some(StateKind::Scheduled) => ("scheduled_task", "at", None),
        Some(StateKind::Ready) => ("ready_task", "rank", None),
        Some(StateKind::InFlight) => ("running_task", "at", None),
        Some(StateKind::Done) => ("finished_task", "ends", Some(3)),
        Some(StateKind::Dead) => ("finished_task", "ends", Some(4)),
        Some(StateKind::Cancelled) => ("finished_task", "ends", Some(5)),
    }
}

/// The place of a row: the value of the column that orders, and the id.
fn place(cursor: &Cursor) -> Result<(i64, i64), Error> {
    let parts =
        cursor.0.split_at_checked(8).and_then(|(first, id)| Some((first.try_into().ok()?, id.try_into().ok()?)));
    let (first, id) = parts.ok_or_else(|| Error::invalid("not a cursor of this list"))?;
    Ok((i64::from_be_bytes(first), i64::from_be_bytes(id)))
}

impl Verb for List {
    type Answer = Page;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Page, Fault> {
        let filter = &self.filter;
        let limit = filter.limit.unwrap_or(limits::PAGE).min(limits::PAGE);
        let after = filter.after.as_ref().map(place).transpose()?;
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else { return Ok(Page::default()) };
        let (table, first, state) = line(filter.state);
        let text = format!(
            "select {COLUMNS}, t.{first} as place from aedb.{table} t where t.queue = $1 and ($2::smallint is null or t.state = $2)
                and ($3::text is null or t.name = $3) and ($4::bigint is null or t.enqueued >= $4)
                and ($5::bigint is null or t.enqueued < $5) and ($6::bigint is null or (t.{first}, t.id) > ($6, $7))
             order by t.{first}, t.id limit $8"
        );
        let rows = sqlx::query(&store.sql(&text))
            .bind(queue)
            .bind(state)
            .bind(filter.name.as_deref())
            .bind(filter.enqueued_from.map(|at| number::to_sql(at.as_micros())))
            .bind(filter.enqueued_until.map(|at| number::to_sql(at.as_micros())))
            .bind(after.map(|(first, _)| first))
            .bind(after.map(|(_, id)| id))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1))
            .fetch_all(conn)
            .await?;
        let mut page = Page::default();
        let more = rows.len() > limit;
        for row in rows.into_iter().take(limit) {
            let (first, id): (i64, i64) = (row.try_get("place")?, row.try_get("id")?);
            page.next = more.then(|| Cursor([first.to_be_bytes(), id.to_be_bytes()].concat()));
            match row::record(&row, &self.queue) {
                // One that is damaged is left for `check` to name.
                Err(Fault::Said(error)) if error.kind() == ErrorKind::Corrupt => {}
                record => page.tasks.push(record?),
            }
        }
        Ok(page)
    }
}
