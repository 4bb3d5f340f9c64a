//! Who may use the models and tools of the settings, gathered from their sections.

use std::collections::BTreeSet;

use turnwire_contract::Scope;
use turnwire_engine::{Access, AccessRules};

use super::{models::ServedModels, sections::Sections};

/// Name of the web search among the tools.
const WEB_SEARCH: &str = "web_search";

/// Returns who may use what, besides the tenants of models and of tool servers.
pub(super) fn access_rules(sections: &Sections, models: &ServedModels) -> AccessRules {
    let with = |scopes: &BTreeSet<Scope>| Access { tenants: None, scopes: Some(scopes.clone()) };
    let functions = sections.functions.iter();
    let functions = functions.map(|(name, function)| (name.clone(), function.access.clone()));
    let search = sections.web_search.as_ref();
    let search = search.map(|search| (WEB_SEARCH.to_owned(), search.access.clone()));
    let servers = sections.tool_servers.iter();
    AccessRules {
        models: models.scopes.iter().map(|(name, scopes)| (name.clone(), with(scopes))).collect(),
        any_model: models.other_scopes.as_ref().map(with).unwrap_or_default(),
        tools: functions.chain(search).filter(|(_, access)| !access.is_open()).collect(),
        servers: servers.map(|(label, server)| (label.clone(), server.access.clone())).collect(),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
