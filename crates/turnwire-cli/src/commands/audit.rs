//! `turnwire audit`: who did what, and whether anybody changed the record of it.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::json;
use turnwire_contract::{AuditEnd, AuditEntry, AuditLog, AuditQuery, TenantId};
use turnwire_stores::Store;

use super::{
    on_store::{StoreUse, on_store, refused},
    output::{Output, one_line, short_time},
    table::{Row, Table},
};
use crate::{
    args::{AuditCommand, AuditListArguments, AuditVerifyArguments},
    environment::Environment,
    exit::{Exit, Problem, Result},
};

pub(crate) fn audit(command: &AuditCommand, environment: &Environment) -> Exit {
    let common = match command {
        AuditCommand::List(arguments) => &arguments.common,
        AuditCommand::Verify(arguments) => &arguments.common,
    };
    on_store(common, environment, StoreUse::Existing, async |store, output| match command {
        AuditCommand::List(arguments) => list(store, arguments, output).await,
        AuditCommand::Verify(arguments) => verify(store, arguments, output).await,
    })
}

async fn list(store: &Store, arguments: &AuditListArguments, output: Output) -> Result<()> {
    let query = AuditQuery {
        tenant: arguments.tenant.as_deref().map(TenantId::from),
        action: arguments.action,
        object: arguments.object.clone(),
        before: None,
        limit: arguments.limit.get(),
    };
    let entries = AuditLog::list(store, query).await.map_err(refused)?;
    output.print(&json!({ "data": entries }), || listed(&entries, output));
    Ok(())
}

async fn verify(store: &Store, arguments: &AuditVerifyArguments, output: Output) -> Result<()> {
    let kept = arguments.against.as_deref().map_or(Ok(Vec::new()), kept_ends)?;
    let report = AuditLog::verify(store, &kept).await.map_err(refused)?;
    let (n_entries, n_chains) = (report.n_entries, report.n_chains);
    output.print(&json!(report), || match report.faults.as_slice() {
        [] => format!("{n_entries} entries in {n_chains} chains, as they were written"),
        faults => {
            let lines = faults.iter().map(|fault| {
                format!("chain {}, entry {}: {}", one_line(&fault.chain), fault.seq, fault.what)
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    });
    if report.faults.is_empty() {
        return Ok(());
    }
    let n_faults = report.faults.len();
    Err(Problem::failure(format!("the audit log was changed: {n_faults} signs of it")))
}

/// The ends of chains in an earlier report.
fn kept_ends(file: &Path) -> Result<Vec<AuditEnd>> {
    #[derive(Deserialize)]
    struct Report {
        ends: Vec<AuditEnd>,
    }

    let unreadable = |why: String| {
        Problem::usage(format!("{}: {why}", file.display()))
            .hint("it is the output of turnwire audit verify --json")
    };
    let text = fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let report: Report =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    Ok(report.ends)
}

fn listed(entries: &[AuditEntry], output: Output) -> String {
    if entries.is_empty() {
        return "there are no entries".to_owned();
    }
    let rows = entries.iter().map(|entry| {
        let record = &entry.record;
        let who = record.actor.as_ref().and_then(|actor| {
            actor.subject.as_ref().or(actor.key_id.as_ref()).map(|who| one_line(who))
        });
        let cells = [
            short_time(&record.at.to_string()),
            record.action.to_string(),
            one_line(record.tenant.as_str()),
            who.unwrap_or_else(|| "-".to_owned()),
            one_line(&record.object),
            record.detail.as_deref().map(one_line).unwrap_or_default(),
        ];
        Row { cells: cells.into(), colour: None }
    });
    let header = vec!["TIME", "ACTION", "TENANT", "WHO", "OBJECT", "DETAIL"];
    Table { header, rows: rows.collect() }.format(output.width, output.paint)
}
