//! Leases: acquire, renew, release, status, pages, and guarded commit (contract rule 17).

use std::sync::Arc;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, app_keys, grant, number};
use crate::error::Error;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::FencingToken;
use crate::model::transition::LeaseLoss;
use crate::store::{
    Cursor, Effects, FencedCommit, HeldLease, LeaseLength, LeaseOutcome, LeasePage, LeaseRecord, LiveWorker, Place,
    RenewOutcome,
};

/// Takes a lease that is free, has run out, or is the owner's already.
pub(super) struct Acquire {
    pub(super) at: Place,
    pub(super) name: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) length: LeaseLength,
    pub(super) note: Option<Json>,
}

impl Verb for Acquire {
    type Answer = LeaseOutcome;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<LeaseOutcome, Fault> {
        let scope = store.scope_number(conn, &self.at).await?;
        let row = sqlx::query(&store.sql("select * from aedb.acquire($1, $2, $3, $4, $5, $6, $7)"))
            .bind(store.test_now())
            .bind(scope)
            .bind(&*self.name)
            .bind(&*self.owner)
            .bind(number::length(self.length.length()))
            .bind(self.note.as_ref().map(Json::as_str))
            .bind(LiveWorker::PREFIX)
            .fetch_one(conn)
            .await?;
        let until = number::instant(row.try_get("until")?);
        if !row.try_get::<bool, _>("got")? {
            return Ok(LeaseOutcome::Held { owner: row.try_get::<&str, _>("holder")?.into(), until });
        }
        let token = FencingToken::from_u64(number::from_sql(row.try_get("token")?));
        Ok(LeaseOutcome::Acquired(HeldLease {
            name: Arc::clone(&self.name),
            owner: Arc::clone(&self.owner),
            token,
            until,
        }))
    }
}

pub(super) struct Renew {
    pub(super) at: Place,
    pub(super) held: HeldLease,
    pub(super) length: LeaseLength,
}

impl Verb for Renew {
    type Answer = RenewOutcome;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<RenewOutcome, Fault> {
        let scope = store.scope_number(conn, &self.at).await?;
        let until: Option<i64> = sqlx::query_scalar(&store.sql("select aedb.renew($1, $2, $3, $4, $5, $6)"))
            .bind(store.test_now())
            .bind(scope)
            .bind(&*self.held.name)
            .bind(&*self.held.owner)
            .bind(number::to_sql(self.held.token.as_u64()))
            .bind(number::length(self.length.length()))
            .fetch_one(conn)
            .await?;
        Ok(until.map_or(RenewOutcome::Lost, |until| RenewOutcome::Renewed(number::instant(until))))
    }
}

pub(super) struct Release {
    pub(super) at: Place,
    pub(super) held: HeldLease,
}

impl Verb for Release {
    type Answer = ();

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        let scope = store.scope_number(conn, &self.at).await?;
        sqlx::query(&store.sql("select aedb.release($1, $2, $3, $4)"))
            .bind(store.test_now())
            .bind(scope)
            .bind(&*self.held.name)
            .bind(number::to_sql(self.held.token.as_u64()))
            .execute(conn)
            .await?;
        Ok(())
    }
}

/// Whether a lease is current and unexpired. If so, nobody takes it over before the transaction ends.
pub(super) async fn guard(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    held: &HeldLease,
) -> Result<bool, Fault> {
    let scope = store.scope_number(conn, at).await?;
    let current = sqlx::query_scalar(&store.sql("select aedb.lease_guard($1, $2, $3, $4, $5)"))
        .bind(store.test_now())
        .bind(scope)
        .bind(&*held.name)
        .bind(&*held.owner)
        .bind(number::to_sql(held.token.as_u64()))
        .fetch_one(conn)
        .await?;
    Ok(current)
}

/// Effects that apply only under a lease.
pub(super) struct Guarded {
    pub(super) at: Place,
    pub(super) held: HeldLease,
    pub(super) effects: Effects,
}

impl Verb for Guarded {
    type Answer = FencedCommit;

    fn is_one_statement(&self) -> bool {
        false
    }

    fn touches(&self) -> Vec<Topic> {
        app_keys::touches(&self.at, &self.effects).collect()
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<FencedCommit, Fault> {
        if !guard(store, conn, &self.at, &self.held).await? {
            return Ok(FencedCommit::LeaseLost(LeaseLoss::TakenOver));
        }
        grant::allow_effects(store, conn, &self.at, &self.effects).await?;
        app_keys::apply(store, conn, &self.at, &self.effects).await?;
        Ok(FencedCommit::Applied)
    }
}

const COLUMNS: &str = "select l.name, l.owner, l.token, l.until, l.acquired, l.note from aedb.lease l
    join aedb.scope s on s.id = l.scope where s.project = $1 and s.name = $2";

fn record(row: &PgRow) -> Result<LeaseRecord, Fault> {
    Ok(LeaseRecord {
        name: row.try_get::<&str, _>("name")?.into(),
        owner: row.try_get::<Option<&str>, _>("owner")?.map(Arc::from),
        token: FencingToken::from_u64(number::from_sql(row.try_get("token")?)),
        until: number::instant(row.try_get("until")?),
        acquired: number::instant(row.try_get("acquired")?),
        note: row.try_get::<Option<&str>, _>("note")?.map(Json::trusted),
    })
}

pub(super) struct Status {
    pub(super) at: Place,
    pub(super) name: String,
}

impl Verb for Status {
    type Answer = Option<LeaseRecord>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Option<LeaseRecord>, Fault> {
        let row = sqlx::query(&store.sql(&format!("{COLUMNS} and l.name = $3")))
            .bind(&*self.at.project)
            .bind(&*self.at.scope)
            .bind(&self.name)
            .fetch_optional(conn)
            .await?;
        row.as_ref().map(record).transpose()
    }
}

/// A page of the leases of a prefix.
pub(super) struct Leases {
    pub(super) at: Place,
    pub(super) prefix: String,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

impl Verb for Leases {
    type Answer = LeasePage;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<LeasePage, Fault> {
        let after = match &self.after {
            None => None,
            Some(Cursor(last)) => match std::str::from_utf8(last) {
                Ok(last) if last.starts_with(&self.prefix) && last.len() <= limits::NAME_BYTES => Some(last),
                _ => return Err(Error::invalid("not a cursor of this list").into()),
            },
        };
        let limit = self.limit.min(limits::PAGE);
        let rows = page(store, conn, &self.at, &self.prefix, after, limit + 1).await?;
        let mut leases = rows;
        let more = leases.len() > limit;
        leases.truncate(limit);
        let next = leases.last().filter(|_| more).map(|last| Cursor(last.name.as_bytes().to_vec()));
        Ok(LeasePage { leases, next })
    }
}

/// The leases of a prefix behind a name, in the byte order of their names.
pub(super) async fn page(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<LeaseRecord>, Fault> {
    let text = format!(
        "{COLUMNS} and l.name >= $3 and starts_with(l.name, $3) and ($4::text is null or l.name > $4)
         order by l.name limit $5"
    );
    let rows = sqlx::query(&store.sql(&text))
        .bind(&*at.project)
        .bind(&*at.scope)
        .bind(prefix)
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?;
    rows.iter().map(record).collect()
}
