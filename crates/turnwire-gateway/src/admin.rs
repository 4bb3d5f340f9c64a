//! Callers who manage a tenant, or all of them.

use axum::http::StatusCode;
use turnwire_contract::{ApiKey, Scope, TenantId};

use crate::{ApiError, Caller, Result};

/// A caller with the scope `admin` for their own tenant, or `operator` for all.
pub(crate) struct Admin<'a> {
    caller: &'a Caller,
}

impl<'a> Admin<'a> {
    /// Refuses callers of a server that needs no key: the first key would lock all others out.
    pub(crate) fn new(caller: &'a Caller) -> Result<Self> {
        if caller.actor().is_none() {
            let message = "This server needs no key yet. Create the first one with `turnwire keys \
                           create --scope operator --name NAME`.";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "needs_first_key", message));
        }
        Ok(Self { caller })
    }

    pub(crate) fn caller(&self) -> &Caller {
        self.caller
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.caller.has(Scope::Operator)
    }

    /// The tenant that the caller manages. `None`: all.
    pub(crate) fn bound(&self) -> Option<&TenantId> {
        (!self.is_operator()).then(|| self.caller.tenant())
    }

    /// The tenant that a request names, or that of the caller.
    pub(crate) fn tenant(&self, named: Option<TenantId>) -> Result<TenantId> {
        let own = self.caller.tenant();
        match named {
            Some(tenant) if tenant != *own && !self.is_operator() => {
                let message = "The key may only manage its own tenant.";
                let error = ApiError::new(StatusCode::FORBIDDEN, "missing_scope", message);
                Err(error.about("tenant"))
            }
            named => Ok(named.unwrap_or_else(|| own.clone())),
        }
    }

    /// The tenant that a list is about. `None`: all.
    pub(crate) fn listed_tenant(&self, named: Option<String>) -> Result<Option<TenantId>> {
        match checked_name("tenant", named)? {
            Some(tenant) => self.tenant(Some(TenantId::new(tenant))).map(Some),
            None => Ok(self.bound().cloned()),
        }
    }
}

/// A name of a key, tenant or project that a request brings.
pub(crate) fn checked_name(param: &'static str, name: Option<String>) -> Result<Option<String>> {
    let Some(name) = name else { return Ok(None) };
    ApiKey::check_name(&name).map_err(|why| {
        let message = format!("`{param}` {why}.");
        ApiError::bad_request("invalid_value", message).about(param)
    })?;
    Ok(Some(name))
}
