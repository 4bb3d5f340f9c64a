//! Row-level security in PostgreSQL: a second wall between tenants.
//!
//! Every statement for a tenant names the tenant in its conditions. With a tenant role, it also
//! runs as a role that sees and writes only rows of that tenant, so that a condition that is
//! missing or wrong returns nothing of others. The values of a statement say whom it is for
//! ([`Value::Tenant`]): there is no second list of what is protected that could be incomplete.
//!
//! Statements for several tenants at once run as the owner of the tables, to whom the policies do
//! not apply: the journal writer, deletions in groups, takeover, retention and compaction.

use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Row as _};
use turnwire_contract::TenantId;

use super::{
    DatabaseError, Result, STATEMENT_TIMEOUT, Value,
    postgres_errors::{failed, in_time},
};

/// Tables with a policy.
const PROTECTED: &[&str] = &[
    "runs",
    "run_events",
    "conversations",
    "entries",
    "commands",
    "request_keys",
    "blobs",
    "allowed",
    "pins",
    "files",
    "file_slices",
    "collections",
    "file_batches",
    "attachments",
    "shares",
    "api_keys",
    "audit_entries",
    "usage_counters",
    "run_secrets",
    "webhook_deliveries",
    "tenant_keys",
    "input_lists",
    "catalogues",
    "run_catalogues",
];

/// Tables that statements for a tenant use without a policy. Chunks of files are found by way of
/// their collection, which has one; a policy on the chunks would make the indexes for words and
/// vectors useless, because the operators of these may not see rows before the policy does.
const WITHOUT_POLICY: &[&str] = &[
    "workers",
    "declined_runs",
    "passages",
    "passage_vectors",
    "passage_embeddings",
    "attachments_gone",
];

const POLICY: &str = "turnwire_tenant";

/// Only one process changes policies at a time.
const LOCK: i64 = 0x7475_726e_7769_7265;

/// A role that sees only the rows of one tenant.
#[derive(Debug, Clone)]
pub(super) struct TenantRole(String);

impl TenantRole {
    /// Adds what is missing of the policies and privileges of the role, and checks that it cannot
    /// bypass them.
    pub(super) async fn prepare(pool: &PgPool, name: &str) -> Result<Self> {
        let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
        if !name.starts_with(is_letter) || !name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        {
            return Err(refused(name, "must be lower-case letters, digits and underscores"));
        }
        let role = Self(name.to_owned());
        let mut transaction = in_time(STATEMENT_TIMEOUT, pool.begin()).await?;
        role.check(&mut transaction).await?;
        role.complete(&mut transaction).await?;
        role.try_out(&mut transaction).await?;
        in_time(STATEMENT_TIMEOUT, transaction.commit()).await?;
        Ok(role)
    }

    async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        let Self(name) = self;
        let sql = "select rolsuper or rolbypassrls, pg_has_role(current_user, oid, 'member'),
                   rolname = current_user, current_user::text from pg_roles where rolname = $1";
        let found = sqlx::query(sql).bind(name).fetch_optional(connection);
        let Some(row) = in_time(STATEMENT_TIMEOUT, found).await? else {
            let wanted = format!("does not exist; run as an administrator: create role {name}");
            return Err(refused(name, &wanted));
        };
        let is_set = |n: usize| row.try_get::<bool, _>(n).map_err(failed);
        let user: String = row.try_get(3).map_err(failed)?;
        if is_set(0)? || is_set(2)? {
            return Err(refused(name, "must be a role of its own that cannot bypass policies"));
        }
        if !is_set(1)? {
            let wanted = format!("is not granted; run as an administrator: grant {name} to {user}");
            return Err(refused(name, &wanted));
        }
        Ok(())
    }

    async fn complete(&self, connection: &mut PgConnection) -> Result<()> {
        let Self(name) = self;
        run(connection, &format!("select pg_advisory_xact_lock({LOCK})")).await?;
        let schema = "select quote_ident(current_schema())";
        let schema = in_time(STATEMENT_TIMEOUT, sqlx::query(schema).fetch_one(&mut *connection));
        let schema: String = schema.await?.try_get(0).map_err(failed)?;
        let mut changes = vec![format!("grant usage on schema {schema} to {name}")];
        let incomplete = "select relname::text, relrowsecurity,
                 exists (select 1 from pg_policy p where p.polrelid = c.oid and p.polname = $2),
                 exists (select 1 from pg_policy p where p.polrelid = c.oid and p.polname = $2
                         and p.polroles = array[$3::regrole::oid])
             from pg_class c
             where relnamespace = current_schema()::regnamespace and relname = any($1)
             and relkind = 'r'";
        let found = sqlx::query(incomplete)
            .bind(PROTECTED)
            .bind(POLICY)
            .bind(name)
            .fetch_all(&mut *connection);
        for row in in_time(STATEMENT_TIMEOUT, found).await? {
            let table: String = row.try_get(0).map_err(failed)?;
            let is_set = |n: usize| row.try_get::<bool, _>(n).map_err(failed);
            // A policy of a role that was configured before.
            if is_set(2)? && !is_set(3)? {
                changes.push(format!("drop policy {POLICY} on {table}"));
            }
            if !is_set(3)? {
                changes.push(format!(
                    "create policy {POLICY} on {table} to {name}
                     using (tenant = current_setting('turnwire.tenant'))
                     with check (tenant = current_setting('turnwire.tenant'))"
                ));
            }
            if !is_set(1)? {
                changes.push(format!("alter table {table} enable row level security"));
            }
        }
        let used: Vec<&str> = [PROTECTED, WITHOUT_POLICY].concat();
        let missing = "select relname::text from pg_class c
             where relnamespace = current_schema()::regnamespace and relname = any($1)
             and relkind = 'r' and not (has_table_privilege($2, oid, 'select')
                 and has_table_privilege($2, oid, 'insert')
                 and has_table_privilege($2, oid, 'update')
                 and has_table_privilege($2, oid, 'delete'))";
        let found = sqlx::query(missing).bind(&used).bind(name).fetch_all(&mut *connection);
        for row in in_time(STATEMENT_TIMEOUT, found).await? {
            let table: String = row.try_get(0).map_err(failed)?;
            changes.push(self.grant(&table));
        }
        for change in changes {
            run(connection, &change).await?;
        }
        Ok(())
    }

    /// Returns the statement that lets the role use a table.
    pub(super) fn grant(&self, table: &str) -> String {
        let Self(name) = self;
        format!("grant select, insert, update, delete on {table} to {name}")
    }

    /// The policies apply to the role in this database.
    async fn try_out(&self, connection: &mut PgConnection) -> Result<()> {
        let Self(name) = self;
        run(connection, &self.act_for(&TenantId::from(""))).await?;
        let active = "select bool_and(row_security_active(t)) from unnest($1::text[]) as list(t)";
        let active = sqlx::query(active).bind(PROTECTED).fetch_one(&mut *connection);
        let active: bool = in_time(STATEMENT_TIMEOUT, active).await?.try_get(0).map_err(failed)?;
        run(connection, ACT_AS_OWNER).await?;
        if active { Ok(()) } else { Err(refused(name, "is not subject to row-level security")) }
    }

    /// Returns the statements after which only rows of `tenant` are visible, until the end of the
    /// transaction. In hexadecimal a tenant cannot contain anything but itself.
    pub(super) fn act_for(&self, tenant: &TenantId) -> String {
        let Self(name) = self;
        let tenant = hex::encode(tenant.as_str());
        format!(
            "set local role {name}; select set_config('turnwire.tenant', \
             convert_from(decode('{tenant}', 'hex'), 'UTF8'), true)"
        )
    }
}

/// Back to the role that owns the tables, until the end of the transaction.
pub(super) const ACT_AS_OWNER: &str = "set local role none";

/// Returns the tenant that a statement is for.
pub(super) fn tenant_of<'a>(values: &[Value<'a>]) -> Option<&'a TenantId> {
    values.iter().find_map(|value| match *value {
        Value::Tenant(tenant) => Some(tenant),
        _ => None,
    })
}

/// Sends statements without values in one message.
pub(super) async fn run(connection: &mut PgConnection, sql: &str) -> Result<()> {
    let statements = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())));
    in_time(STATEMENT_TIMEOUT, statements).await.map(drop)
}

fn refused(name: &str, why: &str) -> DatabaseError {
    DatabaseError::Failed(format!("the role of `store.tenant_role`, {name:?}, {why}"))
}

#[cfg(test)]
#[path = "tenant_role_tests.rs"]
mod tests;
