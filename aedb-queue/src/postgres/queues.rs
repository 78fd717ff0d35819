//! Queues and scopes by their numbers, which never change and are kept in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sqlx::PgConnection;

use super::PgStore;
use super::fault::Fault;
use super::pool::Verb;
use crate::error::Error;
use crate::store::Place;

/// The numbers that were looked up, of what is committed for certain.
#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<HashMap<Key, i32>>);

type Key = (String, String, Option<String>);

fn key(at: &Place, queue: Option<&str>) -> Key {
    (at.project.to_string(), at.scope.to_string(), queue.map(str::to_owned))
}

impl Numbers {
    fn get(&self, key: &Key) -> Option<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    fn put(&self, key: Key, number: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, number);
    }
}

/// Gives numbers to queues of a scope and commits that.
struct Numbered {
    at: Place,
    queues: Vec<String>,
}

impl Verb for Numbered {
    type Answer = ();

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        store.scope_number(conn, &self.at).await?;
        for queue in &self.queues {
            store.queue_number(conn, &self.at, queue).await?;
        }
        Ok(())
    }
}

impl PgStore {
    /// Sees to it that what a caller's transaction names has its number already. A number that the transaction gave would be
    /// waited for by everybody else who needs it, as long as the caller likes.
    pub(super) async fn number_ahead<'a>(
        &self,
        at: &Place,
        queues: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let is_new = |queue: &&str| self.0.numbers.get(&key(at, Some(queue))).is_none();
        let queues: Vec<String> = queues.filter(is_new).map(str::to_owned).collect();
        if queues.is_empty() && self.0.numbers.get(&key(at, None)).is_some() {
            return Ok(());
        }
        let own = Place { caller: None, ..at.clone() };
        let (store, verb) = (self.clone(), Numbered { at: own, queues });
        self.detached(async move { store.by_operator(&verb).await }).await
    }

    /// A queue's number; it is created if it is new.
    pub(super) async fn queue_number(&self, conn: &mut PgConnection, at: &Place, queue: &str) -> Result<i32, Fault> {
        let key = key(at, Some(queue));
        if let Some(number) = self.0.numbers.get(&key) {
            return Ok(number);
        }
        let text = "select aedb.queue_id($1, $2, $3)";
        let number: i32 = sqlx::query_scalar(&self.sql(text))
            .bind(&*at.project)
            .bind(&*at.scope)
            .bind(queue)
            .fetch_one(&mut *conn)
            .await?;
        self.remember(conn, key, number).await
    }

    /// A queue's number, if it has one.
    pub(super) async fn known_queue(
        &self,
        conn: &mut PgConnection,
        at: &Place,
        queue: &str,
    ) -> Result<Option<i32>, Fault> {
        let key = key(at, Some(queue));
        if let Some(number) = self.0.numbers.get(&key) {
            return Ok(Some(number));
        }
        let text = "select q.id from aedb.queue q join aedb.scope s on s.id = q.scope
            where s.project = $1 and s.name = $2 and q.name = $3";
        let found: Option<i32> = sqlx::query_scalar(&self.sql(text))
            .bind(&*at.project)
            .bind(&*at.scope)
            .bind(queue)
            .fetch_optional(&mut *conn)
            .await?;
        match found {
            Some(number) => self.remember(conn, key, number).await.map(Some),
            None => Ok(None),
        }
    }

    /// A scope's number; it is created if it is new.
    pub(super) async fn scope_number(&self, conn: &mut PgConnection, at: &Place) -> Result<i32, Fault> {
        let key = key(at, None);
        if let Some(number) = self.0.numbers.get(&key) {
            return Ok(number);
        }
        let text = "select aedb.scope_id($1, $2)";
        let number: i32 =
            sqlx::query_scalar(&self.sql(text)).bind(&*at.project).bind(&*at.scope).fetch_one(&mut *conn).await?;
        self.remember(conn, key, number).await
    }

    /// Inside of a transaction the row may be this one's own and go with it: then it is looked up again the next time.
    async fn remember(&self, conn: &mut PgConnection, key: Key, number: i32) -> Result<i32, Fault> {
        let open: bool =
            sqlx::query_scalar("select pg_current_xact_id_if_assigned() is not null").fetch_one(conn).await?;
        if !open {
            self.0.numbers.put(key, number);
        }
        Ok(number)
    }
}
