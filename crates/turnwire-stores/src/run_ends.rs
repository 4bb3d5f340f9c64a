//! The ends of runs, stored in the transaction of their last events: statuses, the entries that the
//! runs add, and the commands and secrets that nobody needs any more. Any number of runs takes the
//! same number of statements.

use turnwire_contract::{RunEnd, RunId, TenantId};

use crate::{
    database::{DatabaseError, Dialect, Transaction, Value},
    entries::EncodedEntries,
    failures::encode,
};

/// The end of a run.
pub(crate) type EndOfRun<'a> = (&'a TenantId, &'a RunId, &'a RunEnd);

/// Stores the ends of `runs`. Skips those that are not active.
pub(crate) async fn store(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    runs: &[EndOfRun<'_>],
) -> Result<(), DatabaseError> {
    if runs.is_empty() {
        return Ok(());
    }
    let end = format!(
        "update runs set state = 'finished', outcome = zipped.c3, finished_at = {now}, worker = '',
             waiting_by = null, changed_at = {now}
         from {zipped}
         where runs.tenant = zipped.c1 and runs.id = zipped.c2 and runs.state = 'active'
         returning id, tenant, conversation_id",
        zipped = dialect.zip(&["$1", "$2", "$3"]),
        now = dialect.now
    );
    let tenants: Vec<&str> = runs.iter().map(|(tenant, _, _)| tenant.as_str()).collect();
    let run_ids: Vec<&str> = runs.iter().map(|(_, run_id, _)| run_id.as_str()).collect();
    let outcomes = runs.iter().map(|(_, _, ending)| encode(&ending.outcome));
    let outcomes: Vec<String> = outcomes.collect::<Result<_, _>>()?;
    let outcomes: Vec<&str> = outcomes.iter().map(String::as_str).collect();
    let ends = [Value::Texts(&tenants), Value::Texts(&run_ids), Value::Texts(&outcomes)];
    if dialect.writes_in_with {
        return store_in_one_statement(transaction, dialect, &end, ends, runs).await;
    }
    let ended = transaction.query(&end, &ends).await?;
    let ended: Vec<&str> = ended.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    if ended.is_empty() {
        return Ok(());
    }
    for table in ["commands", "run_secrets"] {
        let texts = dialect.texts("$1");
        let gone = format!("delete from {table} where run_id in (select value from {texts})");
        transaction.query(&gone, &[Value::Texts(&ended)]).await?;
    }
    let added = AddedEntries::of(runs.iter().filter(|(_, id, _)| ended.contains(&id.as_str())))?;
    if added.owners.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "insert into entries (tenant, run_id, conversation_id, id, entry)
         select runs.tenant, runs.id, runs.conversation_id, zipped.c2, zipped.c3
         from {} join runs on runs.id = zipped.c1 order by zipped.n",
        dialect.zip(&["$1", "$2", "$3"])
    );
    let (names, bodies) = (added.entries.names(), added.entries.bodies());
    let values = [Value::Texts(&added.owners), Value::Texts(&names), Value::Texts(&bodies)];
    transaction.query(&sql, &values).await.map(drop)
}

async fn store_in_one_statement(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    end: &str,
    ends: [Value<'_>; 3],
    runs: &[EndOfRun<'_>],
) -> Result<(), DatabaseError> {
    let sql = format!(
        "with ended as ({end}),
              gone as (delete from commands using ended
                       where commands.tenant = ended.tenant and commands.run_id = ended.id),
              wiped as (delete from run_secrets using ended
                        where run_secrets.tenant = ended.tenant
                        and run_secrets.run_id = ended.id)
         insert into entries (tenant, run_id, conversation_id, id, entry)
         select ended.tenant, ended.id, ended.conversation_id, zipped.c2, zipped.c3
         from {} join ended on ended.id = zipped.c1 order by zipped.n",
        dialect.zip(&["$4", "$5", "$6"])
    );
    let added = AddedEntries::of(runs.iter())?;
    let (names, bodies) = (added.entries.names(), added.entries.bodies());
    let [tenants, run_ids, outcomes] = ends;
    let owners = Value::Texts(&added.owners);
    let values = [tenants, run_ids, outcomes, owners, Value::Texts(&names), Value::Texts(&bodies)];
    transaction.query(&sql, &values).await.map(drop)
}

/// The entries that runs add, each with its run.
struct AddedEntries<'a> {
    owners: Vec<&'a str>,
    entries: EncodedEntries,
}

impl<'a> AddedEntries<'a> {
    fn of(runs: impl Iterator<Item = &'a EndOfRun<'a>> + Clone) -> Result<Self, DatabaseError> {
        let added = || {
            runs.clone().flat_map(|(_, run_id, end)| {
                end.entries.iter().map(|entry| (run_id.as_str(), entry))
            })
        };
        let owners = added().map(|(run_id, _)| run_id).collect();
        Ok(Self { owners, entries: EncodedEntries::new(added().map(|(_, entry)| entry))? })
    }
}
