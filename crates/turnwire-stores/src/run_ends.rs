//! The ends of runs, stored in the transaction of their last events: statuses, the entries that the
//! runs add, and the commands and secrets that nobody needs any more. Any number of runs takes the
//! same number of statements.

use tracing::warn;
use turnwire_contract::{Entry, RunEnd, RunId, RunOutcome, TenantId};

use crate::{
    database::{Database, Dialect, Result, RowsStatement, Transaction, Value},
    entries::{self, EncodedEntries, InputEntries},
    failures::encode,
    sealing::DataKey,
};

/// How a run ended, and what it adds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredEnd {
    outcome: RunOutcome,
    /// Its input, unless that is among the entries.
    input: Option<InputEntries>,
    entries: Vec<Entry>,
}

impl StoredEnd {
    /// Prepares the end of a run. If the database does not tell whether one row can stand for the
    /// input, each entry gets its own: a run does not wait for that.
    pub(crate) async fn of(
        database: &dyn Database,
        tenant: &TenantId,
        run_id: &RunId,
        end: RunEnd,
    ) -> Self {
        let RunEnd { outcome, mut entries } = end;
        let input = entries::take_input(database, tenant, run_id, &mut entries).await;
        let input = input.unwrap_or_else(|error| {
            warn!(%run_id, %error, "input of the run stored again");
            None
        });
        Self { outcome, input, entries }
    }

    /// An end with a row for each entry.
    pub(crate) fn new(outcome: RunOutcome, entries: Vec<Entry>) -> Self {
        Self { outcome, input: None, entries }
    }
}

/// The end of a run, and the key that encrypts what it adds.
pub(crate) type EndOfRun<'a> = (&'a TenantId, &'a RunId, &'a StoredEnd, Option<&'a DataKey>);

/// Stores the ends of `runs`. Skips those that are not active.
pub(crate) async fn store(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    runs: &[EndOfRun<'_>],
) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    if dialect.writes_in_with {
        return store_in_one_statement(transaction, dialect, runs).await;
    }
    for statement in statements(dialect, runs)? {
        statement.execute(transaction).await?;
    }
    Ok(())
}

fn update(zipped: &str, now: &str) -> String {
    format!(
        "update runs set state = 'finished', outcome = zipped.c3, finished_at = {now}, worker = '',
             waiting_by = null, changed_at = {now}
         from {zipped}
         where runs.tenant = zipped.c1 and runs.id = zipped.c2 and runs.state = 'active'"
    )
}

/// Returns the statements of SQLite that do it. Each finds out by itself which runs are active, so
/// that none of them waits for the result of another; the last one ends the runs.
pub(crate) fn statements(
    dialect: &'static Dialect,
    runs: &[EndOfRun<'_>],
) -> Result<Vec<RowsStatement>> {
    const ACTIVE: &str =
        "runs on runs.tenant = zipped.c1 and runs.id = zipped.c2 and runs.state = 'active'";
    let mut statements = Vec::new();
    if runs.is_empty() {
        return Ok(statements);
    }
    let added = AddedEntries::of(runs)?;
    if !added.run_ids.is_empty() {
        statements.push(RowsStatement::new::<4>(&added.rows(), |zipped| {
            format!(
                "insert into entries (tenant, run_id, conversation_id, id, entry)
                 select runs.tenant, runs.id, runs.conversation_id, zipped.c3, zipped.c4
                 from {zipped} join {ACTIVE} order by zipped.n"
            )
        })?);
    }
    let ids: Vec<_> = runs.iter().map(|(tenant, run_id, ..)| (tenant, run_id)).collect();
    for table in ["commands", "run_secrets"] {
        statements.push(RowsStatement::new::<2>(&ids, |zipped| {
            format!(
                "delete from {table}
                 where run_id in (select runs.id from {zipped} join {ACTIVE})"
            )
        })?);
    }
    let outcomes = runs.iter().map(|(_, _, run_end, _)| encode(&run_end.outcome));
    let ends =
        ids.iter().zip(outcomes).map(|((tenant, run_id), outcome)| Ok((tenant, run_id, outcome?)));
    let ends: Vec<_> = ends.collect::<Result<_>>()?;
    statements.push(RowsStatement::new::<3>(&ends, |zipped| update(zipped, dialect.now))?);
    Ok(statements)
}

async fn store_in_one_statement(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    runs: &[EndOfRun<'_>],
) -> Result<()> {
    let clauses = with_clauses(dialect, ["$1", "$2", "$3", "$4", "$5", "$6"], "");
    let sql = format!("with {clauses} select count(*) from ended");
    let ends = EndColumns::of(runs)?;
    let columns = ends.columns();
    transaction.query(&sql, &columns.each_ref().map(|column| Value::Texts(column))).await.map(drop)
}

/// Returns the clauses of a `with` in PostgreSQL that store the ends of runs that are active and
/// meet the `condition`. The parameters are [`EndColumns`].
pub(crate) fn with_clauses(dialect: &Dialect, parameters: [&str; 6], condition: &str) -> String {
    let [tenants, run_ids, outcomes, added_to, names, bodies] = parameters;
    format!(
        "ended as ({update} {condition} returning id, tenant, conversation_id),
         gone as (delete from commands using ended
                  where commands.tenant = ended.tenant and commands.run_id = ended.id),
         wiped as (delete from run_secrets using ended
                   where run_secrets.tenant = ended.tenant and run_secrets.run_id = ended.id),
         added as (
             insert into entries (tenant, run_id, conversation_id, id, entry)
             select ended.tenant, ended.id, ended.conversation_id, zipped.c2, zipped.c3
             from {added} join ended on ended.id = zipped.c1 order by zipped.n)",
        update = update(&dialect.zip(&[tenants, run_ids, outcomes]), dialect.now),
        added = dialect.zip(&[added_to, names, bodies])
    )
}

/// Ends of runs as the parameters of [`with_clauses`].
#[derive(Default)]
pub(crate) struct EndColumns<'a> {
    tenants: Vec<&'a str>,
    run_ids: Vec<&'a str>,
    outcomes: Vec<String>,
    added: AddedEntries<'a>,
}

impl<'a> EndColumns<'a> {
    pub(crate) fn of(runs: &[EndOfRun<'a>]) -> Result<Self> {
        let outcomes = runs.iter().map(|(_, _, run_end, _)| encode(&run_end.outcome));
        Ok(Self {
            tenants: runs.iter().map(|(tenant, ..)| tenant.as_str()).collect(),
            run_ids: runs.iter().map(|(_, run_id, ..)| run_id.as_str()).collect(),
            outcomes: outcomes.collect::<Result<_, _>>()?,
            added: AddedEntries::of(runs)?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.run_ids.is_empty()
    }

    pub(crate) fn columns(&self) -> [Vec<&str>; 6] {
        [
            self.tenants.clone(),
            self.run_ids.clone(),
            self.outcomes.iter().map(String::as_str).collect(),
            self.added.run_ids.clone(),
            self.added.entries.names(),
            self.added.entries.bodies(),
        ]
    }
}

/// The entries that runs add, each with its run.
#[derive(Default)]
struct AddedEntries<'a> {
    tenants: Vec<&'a str>,
    run_ids: Vec<&'a str>,
    entries: EncodedEntries,
}

impl<'a> AddedEntries<'a> {
    fn of(runs: &[EndOfRun<'a>]) -> Result<Self> {
        let mut added = Self::default();
        for (tenant, run_id, end, key) in runs {
            if let Some(input) = &end.input {
                added.entries.add_input(run_id, input, *key)?;
            }
            for entry in &end.entries {
                added.entries.add(entry, *key)?;
            }
            let n_rows = added.entries.len();
            added.tenants.resize(n_rows, tenant.as_str());
            added.run_ids.resize(n_rows, run_id.as_str());
        }
        Ok(added)
    }

    fn rows(&self) -> Vec<(&'a str, &'a str, &str, &str)> {
        let owners = self.tenants.iter().zip(&self.run_ids);
        let entries = self.entries.names().into_iter().zip(self.entries.bodies());
        owners
            .zip(entries)
            .map(|((tenant, run), (name, body))| (*tenant, *run, name, body))
            .collect()
    }
}
