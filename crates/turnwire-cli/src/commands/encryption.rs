//! `turnwire encryption`: which keys encrypt what is stored, and new ones.

use serde_json::json;
use turnwire_contract::TenantId;
use turnwire_stores::{EncryptionStatus, Store};

use super::{
    on_store::{StoreUse, on_store, refused},
    output::Output,
};
use crate::{
    args::EncryptionCommand,
    environment::Environment,
    exit::{Exit, Problem, Result},
};

pub(crate) fn encryption(command: &EncryptionCommand, environment: &Environment) -> Exit {
    let common = match command {
        EncryptionCommand::Status(arguments) | EncryptionCommand::Rewrap(arguments) => {
            &arguments.common
        }
        EncryptionCommand::Rotate(arguments) => &arguments.common,
    };
    on_store(common, environment, StoreUse::WithKeys, async |store, output| match command {
        EncryptionCommand::Status(_) => status(store, output).await,
        EncryptionCommand::Rewrap(_) => rewrap(store, output).await,
        EncryptionCommand::Rotate(arguments) => {
            let tenant = arguments.tenant.as_deref().map(TenantId::from);
            rotate(store, tenant.as_ref(), output).await
        }
    })
}

async fn status(store: &Store, output: Output) -> Result<()> {
    let status = store.encryption_status().await.map_err(refused)?;
    let wrapped = status.wrapped.iter().map(|it| {
        json!({
            "operator_key": it.operator_key,
            "tenants": it.n_tenants,
            "keys": it.n_keys,
            "in_settings": it.is_known,
        })
    });
    let wrapped: Vec<_> = wrapped.collect();
    let answer = json!({ "operator_keys": status.operator_keys, "tenant_keys": wrapped });
    output.print(&answer, || worded(&status));
    must_be_known(&status)
}

/// A line per key of the operator.
fn worded(status: &EncryptionStatus) -> String {
    let mut lines = Vec::new();
    for (n, id) in status.operator_keys.iter().enumerate() {
        let role = if n == 0 { "encrypts keys of tenants" } else { "decrypts only" };
        lines.push(format!("key {id} of [encryption]: {role}"));
    }
    if lines.is_empty() {
        lines.push("there is no [encryption] in the settings: nothing is encrypted".to_owned());
    }
    for it in &status.wrapped {
        let where_to = if it.is_known { "" } else { ", which is not in the settings" };
        lines.push(format!(
            "encrypted with {}{where_to}: tenants: {}, keys: {}",
            it.operator_key, it.n_tenants, it.n_keys
        ));
    }
    lines.join("\n")
}

fn must_be_known(status: &EncryptionStatus) -> Result<()> {
    let missing: Vec<&str> = status.closed().map(|closed| closed.operator_key.as_str()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::failure(format!("keys are missing: {}", missing.join(", ")))
        .hint("add them to the keys of [encryption], after the first one"))
}

async fn rewrap(store: &Store, output: Output) -> Result<()> {
    must_be_on(store).await?;
    let n_keys = store.rewrap_tenant_keys().await.map_err(refused)?;
    let answer = json!({ "rewrapped": n_keys });
    output.print(&answer, || format!("keys of tenants encrypted anew: {n_keys}"));
    must_be_known(&store.encryption_status().await.map_err(refused)?)
}

async fn rotate(store: &Store, tenant: Option<&TenantId>, output: Output) -> Result<()> {
    must_be_on(store).await?;
    let n_tenants = store.rotate_tenant_keys(tenant).await.map_err(refused)?;
    if let (Some(tenant), 0) = (tenant, n_tenants) {
        return Err(Problem::failure(format!("the tenant `{tenant}` has no key")));
    }
    let answer = json!({ "rotated": n_tenants });
    output.print(&answer, || format!("tenants with a new key: {n_tenants}"));
    Ok(())
}

async fn must_be_on(store: &Store) -> Result<()> {
    let status = store.encryption_status().await.map_err(refused)?;
    if !status.operator_keys.is_empty() {
        return Ok(());
    }
    Err(Problem::failure("there is no [encryption] in the settings")
        .hint("name a key in it; make one with: openssl rand -base64 32"))
}
