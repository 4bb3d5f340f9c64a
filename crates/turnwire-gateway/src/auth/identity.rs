//! Who makes a request, and what they may do.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::StatusCode;
use turnwire_contract::{Actor, Scope, TenantId, Timestamp};

use super::in_use::Validity;
use crate::{
    admission::KeyDigest,
    api_error::{ApiError, Result},
};

/// Who makes a request.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(super) tenant: TenantId,
    /// What the limits per key are counted by. `None`: there is no limit per key.
    pub(super) key: Option<KeyDigest>,
    /// What is recorded. `None` if the server needs no key.
    pub(super) actor: Option<Arc<Actor>>,
    pub(super) scopes: BTreeSet<Scope>,
    /// When the key or token ends. `None` if it does not.
    pub(super) expires_at: Option<Timestamp>,
    /// `None` if it cannot end while a request is open.
    pub(super) validity: Option<Validity>,
}

impl Identity {
    /// Whoever calls a server that needs no key.
    pub(super) fn of_anybody() -> Self {
        Self {
            tenant: TenantId::default(),
            key: None,
            actor: None,
            scopes: Scope::ALL.into(),
            expires_at: None,
            validity: None,
        }
    }

    /// The holder of a key of the settings: it belongs to the one tenant of a small installation,
    /// and its holder runs the server.
    pub(super) fn of_settings_key(key: KeyDigest) -> Self {
        let key_id = Some(format!("settings_{}", key.short()));
        Self {
            key: Some(key),
            actor: Some(Arc::new(Actor { key_id, ..Actor::default() })),
            ..Self::of_anybody()
        }
    }

    /// Somebody who may only read runs of `tenant`.
    pub(super) fn of_reader(tenant: TenantId) -> Self {
        Self { tenant, scopes: [Scope::RunsRead].into(), ..Self::of_anybody() }
    }

    /// Whether the key has a scope. An operator manages the keys of its own tenant, too.
    pub(super) fn has(&self, scope: Scope) -> bool {
        let is_admin = scope == Scope::Admin && self.scopes.contains(&Scope::Operator);
        is_admin || self.scopes.contains(&scope)
    }

    /// Refuses what needs a scope that the key does not have.
    pub(super) fn ensure(&self, scope: Scope) -> Result<()> {
        if self.has(scope) { Ok(()) } else { Err(missing_scope(scope)) }
    }
}

/// The error for a key without a scope.
fn missing_scope(scope: Scope) -> ApiError {
    let message = format!("The API key may not do this: it needs the scope `{scope}`.");
    ApiError::new(StatusCode::FORBIDDEN, "missing_scope", message)
}
