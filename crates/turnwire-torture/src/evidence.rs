//! Collects everything known about each run at the end, and checks it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use reqwest::Response;
use serde_json::Value;
use sqlx::{PgPool, Row as _};
use turnwire_contract::{Entry, RecordedEvent, RunId};
use turnwire_surfaces::responses::ids::response_id;

use crate::{
    checker::{
        Kind, Record, RunFacts, Violation,
        across::{self, RunSummary},
        check_run, journal_of,
    },
    client::{Client, PATIENCE, RequestError},
    dice::Dice,
    figures::Figures,
    journal::Row,
    observations::{Observations, ReportedRun},
    tool_log,
};

/// The result of all checks.
#[derive(Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub figures: Figures,
}

pub async fn judge(client: &Client, mut seen: Observations) -> anyhow::Result<Verdict> {
    let mut dice = Dice::new(0);
    let pool = client.cluster.pool.as_ref();
    let mut facts = facts_of(&mut seen);
    for (run_id, lines) in tool_log::read(client.cluster.tool_log())? {
        facts.entry(run_id).or_default().tool_log = lines;
    }
    if let Some(pool) = pool {
        for run_id in all_runs(pool).await? {
            facts.entry(run_id).or_default();
        }
    }
    let mut verdict = Verdict::default();
    let mut summaries = Vec::new();
    for (run_id, mut facts) in facts {
        if run_id.as_str().is_empty() {
            let detail = format!("{} calls came without a key", facts.tool_log.len());
            let kind = Kind::ExecutedWithoutStart;
            verdict.violations.push(Violation { kind, run_id: String::new(), detail });
            continue;
        }
        if let Some(pool) = pool {
            look_up(pool, &run_id, &mut facts).await?;
            let is_known = facts.rows.as_ref().is_some_and(|rows| !rows.is_empty());
            if is_known {
                match fetch_reported(client, &run_id, &mut dice).await {
                    Ok(reported) => facts.reported = Some(reported),
                    Err(refused) => {
                        let (kind, run_id) = (Kind::JournalsDisagree, run_id.to_string());
                        let detail = format!("no node tells of it: {refused}");
                        verdict.violations.push(Violation { kind, run_id, detail });
                    }
                }
            } else if facts.views.is_empty() && facts.tool_log.is_empty() {
                // Never started, and no client was told of it.
                verdict.figures.n_never_began += 1;
                continue;
            }
        }
        verdict.violations.extend(check_run(&run_id, &facts, &seen.faults));
        let journal = journal_of(&run_id, &facts);
        summaries.extend(RunSummary::of(&run_id, &journal));
        verdict.figures.count(&run_id, &facts, &journal, &seen.faults);
    }
    verdict.violations.extend(across::check(&summaries, &seen));
    if let Some(pool) = pool {
        verdict.violations.extend(across::interleaved(&conversations(pool).await?));
    }
    verdict.figures.close(&seen);
    Ok(verdict)
}

/// Groups the observations by run.
fn facts_of(seen: &mut Observations) -> BTreeMap<RunId, RunFacts> {
    let mut facts: BTreeMap<RunId, RunFacts> = BTreeMap::new();
    for submitted in seen.submitted.values() {
        for run_id in &submitted.run_ids {
            facts.entry(run_id.clone()).or_default().submitted = Some(submitted.clone());
        }
    }
    for view in std::mem::take(&mut seen.views) {
        facts.entry(view.run_id.clone()).or_default().views.push(view);
    }
    for cancel in &seen.cancels {
        facts.entry(cancel.run_id.clone()).or_default().cancel = Some(cancel.clone());
    }
    for approval in &seen.approvals {
        facts.entry(approval.run_id.clone()).or_default().approvals.push(approval.clone());
    }
    for (run_id, reported) in std::mem::take(&mut seen.reported) {
        facts.entry(run_id).or_default().reported = Some(reported);
    }
    facts
}

async fn all_runs(pool: &PgPool) -> anyhow::Result<BTreeSet<RunId>> {
    let rows = sqlx::query("select id from runs").fetch_all(pool).await.context("the runs")?;
    let ids = rows.iter().map(|row| row.try_get::<String, _>("id"));
    ids.map(|id| Ok(RunId::new(id?.as_str()))).collect()
}

/// Returns conversation and run of every entry that has both, in order.
async fn conversations(pool: &PgPool) -> anyhow::Result<Vec<(String, String)>> {
    let query = "select conversation_id, run_id from entries where conversation_id is not null \
                 and run_id is not null order by position";
    let rows = sqlx::query(query).fetch_all(pool).await.context("the conversations")?;
    let pairs = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    pairs.collect()
}

/// Adds what the database has about a run.
pub async fn look_up(pool: &PgPool, run_id: &RunId, facts: &mut RunFacts) -> anyhow::Result<()> {
    let query = "select first_seq, last_seq, kind, call_id, body from run_events where run_id = \
                 $1 order by first_seq";
    let rows = sqlx::query(query).bind(run_id.as_str()).fetch_all(pool).await?;
    let rows: anyhow::Result<Vec<Row>> = rows
        .iter()
        .map(|row| {
            let seq = |name: &str| -> anyhow::Result<u64> {
                Ok(u64::try_from(row.try_get::<i64, _>(name)?)?)
            };
            Ok(Row {
                first_seq: seq("first_seq")?,
                last_seq: seq("last_seq")?,
                kind: row.try_get("kind")?,
                call_id: row.try_get("call_id")?,
                body: row.try_get("body")?,
            })
        })
        .collect();
    let mut rows = rows?;
    if let Some(first) = rows.first_mut() {
        first.body = with_whole_request(pool, &first.body).await?;
    }
    facts.rows = Some(rows);
    let query = "select state, outcome from runs where id = $1";
    let row = sqlx::query(query).bind(run_id.as_str()).fetch_optional(pool).await?;
    if let Some(row) = row {
        let outcome: Option<String> = row.try_get("outcome")?;
        let outcome =
            outcome.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        facts.record = Some(Record { state: row.try_get("state")?, outcome });
    }
    let query = "select entry from entries where run_id = $1 order by position";
    let rows = sqlx::query(query).bind(run_id.as_str()).fetch_all(pool).await?;
    let entries: anyhow::Result<Vec<Entry>> = rows
        .iter()
        .map(|row| {
            let entry: String = row.try_get("entry")?;
            serde_json::from_str(&entry).context("an entry")
        })
        .collect();
    facts.entries = Some(entries?);
    Ok(())
}

/// Puts back what the store has taken out of a long request, to store it once for several runs:
/// what follows the first event of such a run says where its instructions, its tools and its input
/// are.
async fn with_whole_request(pool: &PgPool, body: &str) -> anyhow::Result<String> {
    let Ok([(at, mut event, ids)]) = serde_json::from_str::<[(i64, Value, Value); 1]>(body) else {
        return Ok(body.to_owned());
    };
    let id = |name: &str| ids.get(name).and_then(Value::as_str).unwrap_or_default();
    let query = "with recursive up as (
                     select * from input_lists where id in ($1, $2)
                     union all
                     select l.* from up join input_lists l
                         on l.tenant = up.tenant and l.id = up.parent
                 )
                 select item, n_items from up order by n_items";
    let query = sqlx::query(query).bind(id("preamble")).bind(id("input_list"));
    let (mut parts, mut n_items) = (Vec::new(), 0);
    for row in query.fetch_all(pool).await? {
        parts.push(serde_json::from_str::<Value>(row.try_get("item")?)?);
        n_items = row.try_get::<i64, _>("n_items")?;
    }
    if i64::try_from(parts.len())? != n_items + 1 {
        // It cannot be read, and is reported so.
        return Ok(body.to_owned());
    }
    let request = event.get_mut("request").and_then(Value::as_object_mut);
    let mut parts = parts.into_iter();
    let (Some(request), Some(Value::Object(preamble))) = (request, parts.next()) else {
        return Ok(body.to_owned());
    };
    for (name, part) in preamble {
        match (request.get_mut(&name).and_then(Value::as_object_mut), part) {
            (Some(surface_data), Value::Object(more)) => surface_data.extend(more),
            (_, part) => drop(request.insert(name, part)),
        }
    }
    request.insert("input".to_owned(), parts.collect());
    Ok(serde_json::to_string(&[(at, event)])?)
}

/// Returns the run as reported by some node.
pub async fn fetch_reported(
    client: &Client,
    run_id: &RunId,
    dice: &mut Dice,
) -> Result<ReportedRun, RequestError> {
    let http = &client.cluster.http;
    let [journal, response] = paths_of(run_id);
    let journal =
        client.send_until_accepted(dice, PATIENCE, |node| http.get(node.url(&journal))).await?;
    let response =
        client.send_until_accepted(dice, PATIENCE, |node| http.get(node.url(&response))).await?;
    read_reported(journal, response).await
}

/// Returns where a node reports the journal and the response of a run.
pub fn paths_of(run_id: &RunId) -> [String; 2] {
    [
        format!("/v1/runs/{run_id}/events?format=ndjson&follow=false"),
        format!("/v1/responses/{}", response_id(run_id)),
    ]
}

/// Reads what a node reports about a run.
pub async fn read_reported(
    journal: Response,
    response: Response,
) -> Result<ReportedRun, RequestError> {
    let lost = |error: &dyn std::fmt::Display| RequestError::NoResponse(error.to_string());
    let text = journal.text().await.map_err(|error| lost(&error))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let journal: Result<Vec<RecordedEvent>, _> = lines.map(serde_json::from_str).collect();
    let journal = journal.map_err(|error| lost(&error))?;
    Ok(ReportedRun { journal, response: Client::json(response).await? })
}
