//! Callers: who may do what (contract rule 19), checked in the verb's own transaction before it does anything.

use sqlx::PgConnection;

use super::PgStore;
use super::fault::Fault;
use super::pool::Verb;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Access, Effect, Effects, GrantTarget, Place};

/// What a call is about to touch.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The scope as a whole: leases, lists of queues.
    Scope,
    /// One queue.
    Queue(String),
    /// One application key, or the keys that begin with it.
    Key(Vec<u8>),
    /// Only effects, each of which is checked by itself.
    Effects,
}

/// Refuses a caller without the grant, and an anonymous call where callers are required.
pub(super) async fn allow(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    target: &Target,
    access: Access,
) -> Result<(), Fault> {
    let Some(caller) = &at.caller else {
        return if store.0.callers_required {
            Err(denied("this database requires a caller: use scope.as_caller(..)".to_owned()).into())
        } else {
            Ok(())
        };
    };
    let (queue, key) = match target {
        Target::Effects => return Ok(()),
        Target::Scope => (None, None),
        Target::Queue(queue) => (Some(queue.as_str()), None),
        Target::Key(key) => (None, Some(key.as_slice())),
    };
    let granted: bool = sqlx::query_scalar(&store.sql(
        "select exists (select 1 from aedb.permit p where p.caller = $1 and (p.writes or not $6) and (
            p.kind = 'p' and p.target = array[$2] or p.kind = 's' and p.target = array[$2, $3]
            or p.kind = 'q' and p.target = array[$2, $3, $4]
            or p.kind = 'k' and p.target = array[$2, $3] and $5::bytea is not null and starts_with(encode($5, 'hex'), encode(p.prefix, 'hex'))))",
    ))
    .bind(&**caller)
    .bind(&*at.project)
    .bind(&*at.scope)
    .bind(queue)
    .bind(key)
    .bind(access == Access::Write)
    .fetch_one(conn)
    .await?;
    if granted {
        return Ok(());
    }
    Err(denied(format!("{caller} has no grant to {} here", if access == Access::Read { "read" } else { "write" }))
        .into())
}

/// The same for each effect.
pub(super) async fn allow_effects(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    effects: &Effects,
) -> Result<(), Fault> {
    if at.caller.is_none() && !store.0.callers_required {
        return Ok(());
    }
    for effect in effects.iter() {
        let (target, access) = match effect {
            Effect::Put { key, .. } | Effect::Delete { key } | Effect::Append { prefix: key, .. } => {
                (Target::Key(key.clone()), Access::Write)
            }
            Effect::Assert { key, .. } => (Target::Key(key.clone()), Access::Read),
            Effect::Native(_) => continue,
            Effect::Enqueue { queue, .. } => (Target::Queue(queue.clone()), Access::Write),
        };
        allow(store, conn, at, &target, access).await?;
    }
    Ok(())
}

fn denied(message: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, message)
}

/// Sets or takes back a grant.
pub(super) struct Grant {
    pub(super) caller: String,
    pub(super) target: GrantTarget,
    pub(super) access: Option<Access>,
}

impl Verb for Grant {
    type Answer = ();

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        let (kind, target, prefix): (i8, Vec<&str>, &[u8]) = match &self.target {
            GrantTarget::Project(project) => (b'p' as i8, vec![project], b""),
            GrantTarget::Scope { project, scope } => (b's' as i8, vec![project, scope], b""),
            GrantTarget::Queue { project, scope, queue } => (b'q' as i8, vec![project, scope, queue], b""),
            GrantTarget::Keys { project, scope, prefix } => (b'k' as i8, vec![project, scope], prefix),
        };
        let text = if self.access.is_some() {
            "insert into aedb.permit values ($1, $2, $3, $4, $5)
             on conflict (caller, kind, target, prefix) do update set writes = excluded.writes"
        } else {
            "delete from aedb.permit where caller = $1 and kind = $2 and target = $3 and prefix = $4 and $5 is not null"
        };
        sqlx::query(&store.sql(text))
            .bind(&self.caller)
            .bind(kind)
            .bind(target)
            .bind(prefix)
            .bind(self.access == Some(Access::Write))
            .execute(conn)
            .await?;
        Ok(())
    }
}
