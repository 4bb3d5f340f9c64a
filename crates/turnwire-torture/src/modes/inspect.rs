//! Checks every run that a running gateway has, without any load: what the copy of a store must
//! pass once a gateway was started on it.
//!
//! Only the runs themselves are checked. Nobody watched them here, and the tools of the copy are
//! not those of the original.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use reqwest::{Client as Http, Response};
use serde_json::Value;
use tokio::time::sleep;
use turnwire_contract::RunId;

use crate::{
    checker::{Kind, RunFacts, check_run, journal_of},
    client::RequestError,
    evidence::{Verdict, paths_of, read_reported},
    observations::ReportedRun,
    options::Options,
    report::ReportHeader,
};

/// Number of runs that are listed at once.
const PAGE: usize = 100;

/// Checks the runs of the gateway at `address`, once all of them have ended.
pub async fn inspect(options: &Options, address: &str) -> anyhow::Result<(ReportHeader, Verdict)> {
    let begun = Instant::now();
    let gateway = Gateway { http: Http::builder().no_proxy().build()?, address };
    gateway.until_all_ended(Duration::from_secs(options.settle)).await?;
    let mut verdict = Verdict::default();
    for run_id in gateway.run_ids().await? {
        let reported = gateway.reported(&run_id).await;
        let reported = reported.map_err(|error| anyhow!("{run_id}: {error}"))?;
        let facts = RunFacts { reported: Some(reported), ..RunFacts::default() };
        let violations = check_run(&run_id, &facts, &[]).into_iter();
        // The worker that had the run is not there any more, wherever it was.
        verdict.violations.extend(violations.filter(|it| it.kind != Kind::NeedlessTakeover));
        verdict.figures.count(&run_id, &facts, &journal_of(&run_id, &facts), &[]);
    }
    let title = format!("the runs of {address}");
    let mut header = ReportHeader { title, took: begun.elapsed(), ..ReportHeader::default() };
    if verdict.figures.n_runs == 0 {
        header.missed.push("there are no runs".to_owned());
    }
    Ok((header, verdict))
}

struct Gateway<'a> {
    http: Http,
    address: &'a str,
}

impl Gateway<'_> {
    async fn get(&self, path: &str) -> Result<Response, RequestError> {
        let url = format!("{}{path}", self.address.trim_end_matches('/'));
        let lost = |error: reqwest::Error| RequestError::NoResponse(error.to_string());
        let answer = self.http.get(url).send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(RequestError::Status(status, answer.text().await.map_err(lost)?))
    }

    async fn reported(&self, run_id: &RunId) -> Result<ReportedRun, RequestError> {
        let [journal, response] = paths_of(run_id);
        read_reported(self.get(&journal).await?, self.get(&response).await?).await
    }

    async fn list(&self, query: &str) -> anyhow::Result<Value> {
        let answer = self.get(&format!("/v1/runs?order=asc&{query}")).await;
        let answer = answer.map_err(|error| anyhow!("the list of runs: {error}"))?;
        answer.json().await.context("the list of runs")
    }

    async fn until_all_ended(&self, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        loop {
            let list = self.list("status=active,stalled,needs_input&limit=1").await?;
            let first = list.get("first_id").and_then(Value::as_str);
            let Some(first) = first else { return Ok(()) };
            if Instant::now() > until {
                bail!("{first} has not ended after {patience:?}");
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn run_ids(&self) -> anyhow::Result<Vec<RunId>> {
        let mut run_ids = Vec::new();
        let mut query = format!("limit={PAGE}");
        loop {
            let page = self.list(&query).await?;
            let runs = page.get("data").and_then(Value::as_array).into_iter().flatten();
            let ids = runs.filter_map(|run| run.get("run_id")?.as_str());
            run_ids.extend(ids.map(RunId::new));
            match page.get("last_id").and_then(Value::as_str) {
                Some(last) if page.get("has_more") == Some(&Value::Bool(true)) => {
                    query = format!("limit={PAGE}&after={last}");
                }
                _ => return Ok(run_ids),
            }
        }
    }
}
