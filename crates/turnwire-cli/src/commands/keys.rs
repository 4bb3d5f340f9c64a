//! `turnwire keys`: the API keys of a store. They are changed in the database itself, so the first
//! key needs no other one.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use turnwire_contract::{ApiKey, ApiKeys, AuditAction, Scope, TenantId, Timestamp};
use turnwire_gateway::NewApiKey;
use turnwire_stores::Store;

use super::{
    on_store::{StoreUse, audit, now, on_store, refused},
    output::{Output, one_line, short_time},
    table::{Row, Table},
};
use crate::{
    args::{
        KeyCreateArguments, KeyListArguments, KeyRevokeArguments, KeyRotateArguments, KeysCommand,
    },
    environment::Environment,
    exit::{Exit, Problem, Result},
    terminal::{Colour, tell},
};

pub(crate) fn keys(command: &KeysCommand, environment: &Environment) -> Exit {
    let common = match command {
        KeysCommand::Create(arguments) => &arguments.common,
        KeysCommand::List(arguments) => &arguments.common,
        KeysCommand::Rotate(arguments) => &arguments.common,
        KeysCommand::Revoke(arguments) => &arguments.common,
    };
    let makes_store = matches!(command, KeysCommand::Create(_));
    let needs = if makes_store { StoreUse::Any } else { StoreUse::Existing };
    on_store(common, environment, needs, async |store, output| {
        execute(command, store, output).await
    })
}

async fn execute(command: &KeysCommand, store: &Store, output: Output) -> Result<()> {
    match command {
        KeysCommand::Create(arguments) => create(store, arguments, output).await,
        KeysCommand::List(arguments) => list(store, arguments, output).await,
        KeysCommand::Rotate(arguments) => rotate(store, arguments, output).await,
        KeysCommand::Revoke(arguments) => revoke(store, arguments, output).await,
    }
}

async fn create(store: &Store, arguments: &KeyCreateArguments, output: Output) -> Result<()> {
    let project = arguments.project.as_deref();
    let names = [("--tenant", arguments.tenant.as_str()), ("--name", &arguments.name)].into_iter();
    for (option, name) in names.chain(project.map(|name| ("--project", name))) {
        ApiKey::check_name(name).map_err(|why| Problem::usage(format!("{option} {why}")))?;
    }
    let scopes: BTreeSet<Scope> = match arguments.scopes.as_slice() {
        [] => Scope::USUAL.into(),
        scopes => scopes.iter().copied().collect(),
    };
    let created_at = now();
    let lifetime = arguments
        .expires_days
        .map(|days| Duration::from_secs(days.get().saturating_mul(24 * 60 * 60)));
    let new = NewApiKey {
        tenant: TenantId::new(arguments.tenant.as_str()),
        project: arguments.project.clone(),
        name: arguments.name.clone(),
        scopes,
        created_at,
        expires_at: lifetime.map(|lifetime| created_at.later(lifetime)),
    };
    let is_first = !store.has_keys().await.map_err(refused)?;
    let (record, key) = made(new)?;
    audit(store, AuditAction::KeyCreated, &record.tenant, &record.key_id, None).await?;
    store.create_key(record.clone()).await.map_err(refused)?;
    show_made(&record, &key, output);
    if is_first && !output.json {
        tell(
            "It is the first key: servers on this store accept no request without one from now on.",
        );
    }
    Ok(())
}

async fn list(store: &Store, arguments: &KeyListArguments, output: Output) -> Result<()> {
    let tenant = arguments.tenant.as_deref().map(TenantId::from);
    let keys = store.list_keys(tenant.as_ref()).await.map_err(refused)?;
    let now = now();
    let answer = json!({ "data": keys.iter().map(|key| line(key, now)).collect::<Vec<_>>() });
    output.print(&answer, || listed(&keys, now, output));
    Ok(())
}

async fn rotate(store: &Store, arguments: &KeyRotateArguments, output: Output) -> Result<()> {
    let keys = store.list_keys(None).await.map_err(refused)?;
    let old = keys.into_iter().find(|key| key.key_id == arguments.key_id);
    let old = old.ok_or_else(|| no_key(&arguments.key_id))?;
    let now = now();
    let (record, key) = made(NewApiKey::in_place_of(old, now))?;
    let (key_id, new_id) = (&arguments.key_id, Some(record.key_id.clone()));
    audit(store, AuditAction::KeyRotated, &record.tenant, key_id, new_id).await?;
    let until = now.later(Duration::from_secs(arguments.overlap));
    if !store.rotate_key(&arguments.key_id, until, record.clone()).await.map_err(refused)? {
        let problem = Problem::failure(format!("{} is not valid any more", arguments.key_id));
        return Err(problem.hint("create a new key: turnwire keys create"));
    }
    show_made(&record, &key, output);
    Ok(())
}

async fn revoke(store: &Store, arguments: &KeyRevokeArguments, output: Output) -> Result<()> {
    let now = now();
    let keys = store.list_keys(None).await.map_err(refused)?;
    let key = keys.into_iter().find(|key| key.key_id == arguments.key_id);
    let key = key.ok_or_else(|| no_key(&arguments.key_id))?;
    audit(store, AuditAction::KeyRevoked, &key.tenant, &key.key_id, None).await?;
    let revoked = store.revoke_key(None, &arguments.key_id, now).await.map_err(refused)?;
    let revoked = revoked.ok_or_else(|| no_key(&arguments.key_id))?;
    output.print(&line(&revoked, now), || {
        format!("{} ({}) is revoked", revoked.key_id, one_line(&revoked.name))
    });
    Ok(())
}

fn made(new: NewApiKey) -> Result<(ApiKey, String)> {
    new.make().map_err(|error| Problem::failure(format!("no random bytes for a key: {error}")))
}

/// Prints a new key to standard output, and the rest to standard error, so that a script can catch
/// the key.
fn show_made(record: &ApiKey, key: &str, output: Output) {
    let mut answer = line(record, record.created_at);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("key".to_owned(), Value::from(key));
    }
    output.print(&answer, || key.to_owned());
    if !output.json {
        let (id, tenant) = (&record.key_id, one_line(record.tenant.as_str()));
        let end = record.expires_at.map(|at| format!(" until {} UTC", short_time(&at.to_string())));
        let (end, scopes) = (end.unwrap_or_default(), scopes_of(record));
        tell(&format!("{id} of tenant {tenant}{end}: {scopes}; it is not shown again"));
    }
}

fn line(key: &ApiKey, now: Timestamp) -> Value {
    json!({
        "key_id": key.key_id,
        "tenant": key.tenant,
        "project": key.project,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": key.scopes,
        "valid": key.is_valid_at(now),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    })
}

fn scopes_of(key: &ApiKey) -> String {
    key.scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(", ")
}

fn listed(keys: &[ApiKey], now: Timestamp, output: Output) -> String {
    if keys.is_empty() {
        return "there are no keys".to_owned();
    }
    let rows = keys.iter().map(|key| {
        let (state, colour) = match key.revoked_at {
            Some(_) => ("revoked", Colour::Red),
            None if key.is_valid_at(now) => ("valid", Colour::Green),
            None => ("expired", Colour::Yellow),
        };
        let time =
            |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| short_time(&at.to_string()));
        let cells = [
            key.key_id.clone(),
            state.to_owned(),
            format!("{}…", one_line(&key.prefix)),
            one_line(key.tenant.as_str()),
            time(key.last_used_at),
            time(key.expires_at),
            scopes_of(key),
            one_line(&key.name),
        ];
        Row { cells: cells.into(), colour: Some(colour) }
    });
    let header = vec!["KEY", "STATE", "BEGINS", "TENANT", "LAST USED", "ENDS", "SCOPES", "NAME"];
    Table { header, rows: rows.collect() }.format(output.width, output.paint)
}

fn no_key(key_id: &str) -> Problem {
    Problem::failure(format!("there is no key {}", one_line(key_id)))
        .hint("turnwire keys list shows them")
}
