//! Lists of runs: a page, the counts by status, and the runs that changed lately.
//!
//! They read the columns that are stored with the events, never a journal. A filter may match few
//! of a million runs, so all of this looks at the newest runs of a tenant only, at most
//! [`MAX_LISTED`].

use std::{fmt::Write, time::Duration};

use turnwire_contract::{
    ConversationId, ListedStatus, RunCounts, RunFilter, RunId, RunPage, RunQuery, RunRequest,
    RunSummary, StoreError, TenantId, Timestamp,
};

use crate::{
    Result, Store,
    database::{DatabaseError, Dialect, Row, Value, values},
    failures::decode,
    sealing::{Place, SEALED},
    workers::micros,
};

/// Number of runs of a tenant that can be listed.
pub(crate) const MAX_LISTED: usize = 100_000;

/// Number of texts that are decrypted per statement.
const DECRYPTED_AT_ONCE: usize = 1_000;

/// The status of a run. The outcome is JSON that begins with its status.
const STATUS: &str = r#"case
    when state = 'active' then case
        when worker = '' and exists (select 1 from declined_runs where run_id = runs.id)
            then 'stalled'
        when waiting_by is not null and worker in ('', waiting_by) then 'needs_input'
        else 'active' end
    when outcome like '{"status":"completed"%' then 'completed'
    when outcome like '{"status":"incomplete"%' then 'incomplete'
    when outcome like '{"status":"cancelled"%' then 'cancelled'
    else 'failed' end"#;

/// The columns of a [`RunSummary`]. The request is read only where an earlier version stored the
/// run.
fn columns(dialect: &Dialect) -> String {
    format!(
        "select id, created_at, model, conversation_id, {STATUS} as status,
             case when state = 'active' and worker = '' then
                 (select min(reason) from declined_runs where run_id = runs.id) end,
             input_text, tools, n_calls, n_failed_calls, {ended},
             case when model is null then request end
         from runs",
        ended = dialect.micros("finished_at"),
    )
}

impl Store {
    pub(crate) async fn select_runs(&self, tenant: &TenantId, query: &RunQuery) -> Result<RunPage> {
        let (database, dialect) = (&self.0.database, self.0.database.dialect());
        let after = self.number_of(tenant, query.after.as_ref()).await?;
        let before = self.number_of(tenant, query.before.as_ref()).await?;
        let texts = FilterTexts::of(&query.filter);
        let oldest = self.oldest_listed(tenant).await?;
        let encrypted = self.encrypted_matches(tenant, oldest, &query.filter, &texts).await?;
        let mut sql = Conditions::of(tenant, oldest);
        sql.add_filter(dialect, &query.filter, &texts);
        sql.add_text(dialect, &texts, &encrypted);
        sql.add_statuses(&query.filter.statuses);
        let (follows, precedes, order) =
            if query.oldest_first { (">", "<", "asc") } else { ("<", ">", "desc") };
        if let Some(number) = after {
            sql.add(&format!("number {follows} ?"), Value::Integer(number));
        }
        if let Some(number) = before {
            sql.add(&format!("number {precedes} ?"), Value::Integer(number));
        }
        let most = i64::try_from(query.most).unwrap_or(i64::MAX - 1);
        let limit = sql.parameter(Value::Integer(most.saturating_add(1)));
        let statement = format!(
            "{} where {} order by number {order} limit {limit}",
            columns(dialect),
            sql.conditions
        );
        let found = database.query(&statement, &sql.values).await?;
        let mut runs = self.decoded_summaries(tenant, &found).await?;
        let has_more = runs.len() > query.most;
        runs.truncate(query.most);
        Ok(RunPage { runs, has_more })
    }

    pub(crate) async fn count_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
    ) -> Result<RunCounts> {
        let (database, dialect) = (&self.0.database, self.0.database.dialect());
        let texts = FilterTexts::of(filter);
        let oldest = self.oldest_listed(tenant).await?;
        let encrypted = self.encrypted_matches(tenant, oldest, filter, &texts).await?;
        let mut sql = Conditions::of(tenant, oldest);
        sql.add_filter(dialect, filter, &texts);
        sql.add_text(dialect, &texts, &encrypted);
        let statement = format!(
            "select status, count(*) from (select {STATUS} as status from runs where {}) as listed
             group by status",
            sql.conditions
        );
        let found = database.query(&statement, &sql.values).await?;
        let count = |row: &Row| -> Result<_, DatabaseError> {
            Ok((status(row.text(0)?), u64::try_from(row.integer(1)?).unwrap_or(0)))
        };
        Ok(found.iter().map(count).collect::<Result<_, _>>()?)
    }

    /// The end of a run that a worker of an earlier version executed is found by its time. Two
    /// subqueries, each with an order: without, the planners would scan all runs.
    pub(crate) async fn changed_runs(
        &self,
        tenant: &TenantId,
        within: Duration,
        most: usize,
    ) -> Result<Vec<RunSummary>> {
        let dialect = self.0.database.dialect();
        let sql = format!(
            "{} where tenant = $1 and state <> 'hidden' and number in
                 (select number from
                      (select number from runs where tenant = $1 and changed_at > (select {since})
                       order by changed_at desc limit $3) as changed
                  union all
                  select number from
                      (select number from runs
                       where state = 'finished' and finished_at > (select {since})
                       order by finished_at desc limit $3) as finished)
             order by changed_at desc limit $3",
            columns(dialect),
            since = dialect.later("$2"),
        );
        let values = values![tenant, -micros(within), most];
        let found = self.0.database.query(&sql, &values).await?;
        self.decoded_summaries(tenant, &found).await
    }

    async fn decoded_summaries(&self, tenant: &TenantId, rows: &[Row]) -> Result<Vec<RunSummary>> {
        let mut summaries = Vec::with_capacity(rows.len());
        for row in rows {
            summaries.push(self.decoded_summary(tenant, row).await?);
        }
        Ok(summaries)
    }

    async fn decoded_summary(&self, tenant: &TenantId, row: &Row) -> Result<RunSummary> {
        let run_id = RunId::from(row.text(0)?);
        let text = match row.optional_text(6)? {
            Some(text) => {
                let place = Place::input_text(&run_id);
                Some(self.0.sealing.open_text(tenant, place, text).await?.into_owned())
            }
            None => None,
        };
        Ok(summary(row, text)?)
    }

    /// Returns the numbers of the runs whose text is encrypted and has the text of the filter. The
    /// database cannot search them, so all that fit otherwise are decrypted.
    async fn encrypted_matches(
        &self,
        tenant: &TenantId,
        oldest: i64,
        filter: &RunFilter,
        texts: &FilterTexts,
    ) -> Result<Vec<i64>> {
        let (mut matches, mut before) = (Vec::new(), i64::MAX);
        let Some(wanted) = &texts.text else { return Ok(matches) };
        let database = &self.0.database;
        loop {
            let mut sql = Conditions::of(tenant, oldest);
            sql.add_filter(database.dialect(), filter, texts);
            sql.add("number < ?", Value::Integer(before));
            let statement = format!(
                "select number, id, input_text from runs where {} and input_text like '{SEALED}'
                 order by number desc limit {DECRYPTED_AT_ONCE}",
                sql.conditions
            );
            let found = database.query(&statement, &sql.values).await?;
            let Some(last) = found.last() else { return Ok(matches) };
            before = last.integer(0)?;
            for row in &found {
                let run_id = RunId::from(row.text(1)?);
                let (place, text) = (Place::input_text(&run_id), row.text(2)?);
                let text = self.0.sealing.open_text(tenant, place, text).await?;
                if text.to_ascii_lowercase().contains(wanted) {
                    matches.push(row.integer(0)?);
                }
            }
        }
    }

    /// Returns the number of the oldest run that is listed.
    async fn oldest_listed(&self, tenant: &TenantId) -> Result<i64> {
        let sql = "select coalesce(min(number), 0) from
                       (select number from runs where tenant = $1 and state <> 'hidden'
                        order by number desc limit $2) as newest";
        let values = values![tenant, MAX_LISTED];
        let found = self.0.database.query(sql, &values).await?;
        found.first().map_or(Ok(0), |row| Ok(row.integer(0)?))
    }

    async fn number_of(&self, tenant: &TenantId, run_id: Option<&RunId>) -> Result<Option<i64>> {
        let Some(run_id) = run_id else { return Ok(None) };
        let sql = "select number from runs where tenant = $1 and id = $2 and state <> 'hidden'";
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| StoreError::NotFound(format!("run `{run_id}`")))?;
        Ok(Some(row.integer(0)?))
    }
}

/// The texts of a filter as they are searched.
struct FilterTexts {
    /// The name of the tool, as in the JSON array of names.
    tool: Option<String>,
    /// The model, as in the request of a run of an earlier version.
    model: Option<String>,
    text: Option<String>,
}

impl FilterTexts {
    fn of(filter: &RunFilter) -> Self {
        let json = |text: &String| serde_json::json!(text).to_string();
        Self {
            tool: filter.tool.as_ref().map(json),
            model: filter.model.as_ref().map(|model| format!("\"model\":{}", json(model))),
            text: filter.text.as_ref().map(|text| text.to_ascii_lowercase()),
        }
    }
}

/// The `where` clause of a list, with its parameters.
struct Conditions<'a> {
    conditions: String,
    values: Vec<Value<'a>>,
}

impl<'a> Conditions<'a> {
    fn of(tenant: &'a TenantId, oldest: i64) -> Self {
        let conditions = "tenant = $1 and state <> 'hidden' and number >= $2".to_owned();
        Self { conditions, values: vec![Value::Tenant(tenant), Value::Integer(oldest)] }
    }

    /// Adds a parameter, and returns its placeholder.
    fn parameter(&mut self, value: Value<'a>) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// Adds a condition. `?` in it stands for `value`.
    fn add(&mut self, condition: &str, value: Value<'a>) {
        let placeholder = self.parameter(value);
        self.conditions.push_str(" and ");
        self.conditions.push_str(&condition.replace('?', &placeholder));
    }

    fn add_filter(&mut self, dialect: &Dialect, filter: &'a RunFilter, texts: &'a FilterTexts) {
        let position = dialect.position;
        if let (Some(model), Some(in_request)) = (&filter.model, &texts.model) {
            let known = self.parameter(Value::Text(model));
            let condition =
                format!("(model = {known} or model is null and {position}(request, ?) > 0)");
            self.add(&condition, Value::Text(in_request));
        }
        if let Some(id) = &filter.conversation_id {
            self.add("conversation_id = ?", Value::Text(id.as_str()));
        }
        if let Some(tool) = &texts.tool {
            self.add(&format!("{position}(tools, ?) > 0"), Value::Text(tool));
        }
        if let Some(time) = filter.created_after {
            self.add("created_at >= ?", Value::Integer(time.as_micros()));
        }
        if let Some(time) = filter.created_before {
            self.add("created_at < ?", Value::Integer(time.as_micros()));
        }
    }

    /// Adds the condition on the text. Runs whose text is encrypted are those with the numbers in
    /// `encrypted`.
    fn add_text(&mut self, dialect: &Dialect, texts: &'a FilterTexts, encrypted: &'a [i64]) {
        let Some(text) = &texts.text else { return };
        let (input, position) = ("coalesce(input_text, request)", dialect.position);
        let numbers = self.parameter(Value::Integers(encrypted));
        let (lower, numbers) = (dialect.lower(input), dialect.integers(&numbers));
        let condition = format!(
            "({input} not like '{SEALED}' and {position}({lower}, ?) > 0
              or number in (select value from {numbers}))"
        );
        self.add(&condition, Value::Text(text));
    }

    fn add_statuses(&mut self, statuses: &[ListedStatus]) {
        if statuses.is_empty() {
            return;
        }
        let words: Vec<String> =
            statuses.iter().map(|status| format!("'{}'", status.as_str())).collect();
        // Writing to a string cannot fail.
        let _ = write!(self.conditions, " and {STATUS} in ({})", words.join(", "));
    }
}

fn status(word: &str) -> ListedStatus {
    ListedStatus::of(word).unwrap_or(ListedStatus::Failed)
}

/// Decodes a row of [`columns`], whose text is decrypted.
fn summary(row: &Row, text: Option<String>) -> Result<RunSummary, DatabaseError> {
    let count = |n: usize| Ok::<_, DatabaseError>(u32::try_from(row.integer(n)?).unwrap_or(0));
    // A run of an earlier version has no model. An unreadable one can still be listed.
    let request = match row.optional_text(11)? {
        Some(request) => {
            decode(request).unwrap_or_else(|_| RunRequest::new("unreadable", Vec::new()))
        }
        None => RunRequest::new(row.optional_text(2)?.unwrap_or_default(), Vec::new()),
    };
    let tools = row.optional_text(7)?.and_then(|tools| serde_json::from_str(tools).ok());
    Ok(RunSummary {
        run_id: RunId::from(row.text(0)?),
        created_at: Timestamp::from_micros(row.integer(1)?),
        conversation_id: row.optional_text(3)?.map(ConversationId::from),
        status: status(row.text(4)?),
        stalled: row.optional_text(5)?.map(str::to_owned),
        text: text.unwrap_or_else(|| RunSummary::text_of(&request)),
        model: request.model,
        tools: tools.unwrap_or_default(),
        n_calls: count(8)?,
        n_failed_calls: count(9)?,
        ended_at: row.optional_integer(10)?.map(Timestamp::from_micros),
    })
}
