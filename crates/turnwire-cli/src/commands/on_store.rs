//! Commands that open the store themselves, beside its servers.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use turnwire_contract::{AuditAction, AuditLog, AuditRecord, StoreError, TenantId, Timestamp};
use turnwire_engine::ClockAndIds;
use turnwire_stores::Store;

use super::{output::Output, watched::runtime};
use crate::{
    args::StoreArguments,
    environment::Environment,
    exit::{Exit, Problem, Result},
    settings::store_of_command,
    terminal::{Paint, tell},
    wiring::not_opened,
};

/// What a command needs of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreUse {
    /// It exists.
    Existing,
    /// It is made if it does not exist.
    Any,
    /// It exists, and the keys of `[encryption]` are known.
    WithKeys,
}

/// Executes a command on the store of the settings.
pub(super) fn on_store(
    arguments: &StoreArguments,
    environment: &Environment,
    needs: StoreUse,
    execute: impl AsyncFnOnce(&Store, Output) -> Result<()>,
) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stdout().is_terminal());
    let output = Output::new(paint, arguments.json);
    let options = store_of_command(arguments, environment, needs == StoreUse::WithKeys);
    let done = options.and_then(|options| {
        check_exists(&options.url, needs == StoreUse::Any)?;
        runtime()?.block_on(async {
            let store = Store::open(options).await.map_err(not_opened)?;
            let done = execute(&store, output).await;
            store.close().await;
            done
        })
    });
    match done {
        Ok(()) => Exit::Done,
        Err(problem) => problem.shown(paint),
    }
}

/// Refuses a file that is not there: opening it would make an empty store, and hide that another
/// one was meant.
fn check_exists(url: &str, makes_store: bool) -> Result<()> {
    let file = url.strip_prefix("sqlite://").filter(|file| !Path::new(file).exists());
    match file {
        Some(file) if makes_store => tell(&format!("The store {file} is new.")),
        Some(file) => {
            return Err(Problem::failure(format!("there is no store {file}"))
                .hint("name it: [store] in the settings, or TURNWIRE_STORE_URL"));
        }
        None => {}
    }
    Ok(())
}

pub(super) fn now() -> Timestamp {
    ClockAndIds::system().now()
}

/// Records what the operator is about to do at the command line.
pub(super) async fn audit(
    store: &Store,
    action: AuditAction,
    tenant: &TenantId,
    object: &str,
    detail: Option<String>,
) -> Result<()> {
    let (tenant, object) = (tenant.clone(), object.to_owned());
    let record =
        AuditRecord { at: now(), tenant, actor: None, action, object, detail, content: None };
    store.append(vec![record]).await.map_err(refused)
}

pub(super) fn refused(error: StoreError) -> Problem {
    Problem::failure(format!("the store refuses: {error}"))
}
