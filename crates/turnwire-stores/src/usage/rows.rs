//! Counters of use as rows of the database, and the active runs.

use turnwire_contract::{TenantId, Timestamp, UsageAmounts, UsageCount, UsageSubject, UsageWindow};

use crate::{
    Store,
    database::{DatabaseError, Result, Row, Value, values},
};

/// Number of counters per statement.
const AT_ONCE: usize = 500;
/// The most that is stored of a count: the sum of a thousand nodes still fits. Smaller would be too
/// little for a budget, which is counted in billionths.
const MOST: i64 = i64::MAX / 1_000;
/// Number of rows deleted per statement.
const DELETED_AT_ONCE: usize = 1_000;
/// How long counters are kept after the end of their window, in microseconds: longer than clocks of
/// servers differ.
const KEPT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

impl Store {
    pub(super) async fn set_usage_rows(&self, node: &str, counts: &[&UsageCount]) -> Result<()> {
        let sql = format!(
            "insert into usage_counters (node, tenant, holder, starts_at, ends_at,
                                         requests, tokens, tool_calls, cost_nanos)
             select $1, zipped.c1, zipped.c2, cast(zipped.c3 as bigint), cast(zipped.c4 as bigint),
                    cast(zipped.c5 as bigint), cast(zipped.c6 as bigint),
                    cast(zipped.c7 as bigint), cast(zipped.c8 as bigint) from {}
             where true
             on conflict (tenant, holder, starts_at, ends_at, node) do update set
                 requests = excluded.requests, tokens = excluded.tokens,
                 tool_calls = excluded.tool_calls, cost_nanos = excluded.cost_nanos
             returning node",
            self.0.database.dialect().zip(&["$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"])
        );
        for counts in counts.chunks(AT_ONCE) {
            let mut columns = Columns::<8>::default();
            for UsageCount { subject, window, amounts } in counts {
                let [tenant, holder, start, end] = key_of(subject, *window);
                let UsageAmounts { requests, tokens, tool_calls, cost_nanos } = *amounts;
                let [requests, tokens, tool_calls, cost] =
                    [requests, tokens, tool_calls, cost_nanos].map(stored);
                columns.push([tenant, holder, start, end, requests, tokens, tool_calls, cost]);
            }
            columns.ask(self, &sql, Some(node)).await?;
        }
        Ok(())
    }

    /// Returns the sums over all nodes, one for each of `wanted`, in their order.
    pub(super) async fn usage_rows(
        &self,
        wanted: &[(&UsageSubject, UsageWindow)],
    ) -> Result<Vec<UsageAmounts>> {
        let sum = |column| format!("cast(coalesce(sum(u.{column}), 0) as bigint)");
        let sums = ["requests", "tokens", "tool_calls", "cost_nanos"].map(sum).join(", ");
        let sql = format!(
            "select {sums} from {} left join usage_counters u
                 on u.tenant = zipped.c1 and u.holder = zipped.c2
                 and u.starts_at = cast(zipped.c3 as bigint)
                 and u.ends_at = cast(zipped.c4 as bigint)
             group by zipped.n order by zipped.n",
            self.0.database.dialect().zip(&["$1", "$2", "$3", "$4"])
        );
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(AT_ONCE) {
            let mut columns = Columns::<4>::default();
            for (subject, window) in wanted {
                columns.push(key_of(subject, *window));
            }
            for row in &columns.ask(self, &sql, None).await? {
                let amount =
                    |n| Ok::<_, DatabaseError>(u64::try_from(row.integer(n)?).unwrap_or(0));
                found.push(UsageAmounts {
                    requests: amount(0)?,
                    tokens: amount(1)?,
                    tool_calls: amount(2)?,
                    cost_nanos: amount(3)?,
                });
            }
        }
        Ok(found)
    }

    /// Returns how many active runs of each of `wanted` this process does not execute.
    pub(super) async fn active_elsewhere(&self, wanted: &[UsageSubject]) -> Result<Vec<u64>> {
        let sql = format!(
            "select cast(count(r.id) as bigint) from {} left join runs r
                 on r.tenant = zipped.c1 and r.state = 'active' and r.worker <> $1
                 and (zipped.c2 = '' or r.holder = zipped.c2)
             group by zipped.n order by zipped.n",
            self.0.database.dialect().zip(&["$2", "$3"])
        );
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(AT_ONCE) {
            let mut columns = Columns::<2>::default();
            for UsageSubject { tenant, holder } in wanted {
                columns.push([tenant.as_str().to_owned(), holder.clone().unwrap_or_default()]);
            }
            for row in &columns.ask(self, &sql, Some(&self.0.worker)).await? {
                found.push(u64::try_from(row.integer(0)?).unwrap_or(0));
            }
        }
        Ok(found)
    }

    pub(super) async fn holders_in_rows(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>> {
        let sql = "select distinct holder from usage_counters
                   where tenant = $1 and holder <> '' and starts_at <= $2 and ends_at > $2
                   order by holder limit $3";
        let rows = self.0.database.query(sql, &values![tenant, at.as_micros(), limit]).await?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    }

    /// Deletes counters of windows that ended long ago.
    pub(crate) async fn forget_old_usage(&self) -> Result<()> {
        let database = &self.0.database;
        let sql = format!(
            "delete from usage_counters
             where (tenant, holder, starts_at, ends_at, node) in
                 (select tenant, holder, starts_at, ends_at, node from usage_counters
                  where ends_at <= (select {now}) - $1 limit $2)
             returning node",
            now = database.dialect().library.now
        );
        let values = values![KEPT_MICROS, DELETED_AT_ONCE];
        while database.query(&sql, &values).await?.len() == DELETED_AT_ONCE {}
        Ok(())
    }
}

fn key_of(subject: &UsageSubject, window: UsageWindow) -> [String; 4] {
    [
        subject.tenant.as_str().to_owned(),
        subject.holder.clone().unwrap_or_default(),
        window.starts_at.as_micros().to_string(),
        window.ends_at.as_micros().to_string(),
    ]
}

/// A number as both databases can store it and add it up.
fn stored(amount: u64) -> String {
    i64::try_from(amount).unwrap_or(MOST).min(MOST).to_string()
}

/// The values of a statement about several counters, column by column.
struct Columns<const N: usize>([Vec<String>; N]);

impl<const N: usize> Default for Columns<N> {
    fn default() -> Self {
        Self([const { Vec::new() }; N])
    }
}

impl<const N: usize> Columns<N> {
    fn push(&mut self, row: [String; N]) {
        self.0.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }

    async fn ask(&self, store: &Store, sql: &str, first: Option<&str>) -> Result<Vec<Row>> {
        let columns = self
            .0
            .each_ref()
            .map(|column| column.iter().map(String::as_str).collect::<Vec<&str>>());
        let first = first.map(Value::Text);
        let values: Vec<Value<'_>> =
            first.into_iter().chain(columns.iter().map(|column| Value::Texts(column))).collect();
        store.0.database.query(sql, &values).await
    }
}
