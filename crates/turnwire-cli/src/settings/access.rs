//! Who may use the models and tools of the settings, gathered from their sections.

use turnwire_engine::AccessRules;

use super::{models::ServedModels, sections::Sections};

/// Name of the web search among the tools.
const WEB_SEARCH: &str = "web_search";

/// Returns who may use what, besides the tenants of tool servers.
pub(super) fn access_rules(sections: &Sections, models: &ServedModels) -> AccessRules {
    let functions = sections.functions.iter();
    let functions = functions.map(|(name, function)| (name.clone(), function.access.clone()));
    let search = sections.web_search.as_ref();
    let search = search.map(|search| (WEB_SEARCH.to_owned(), search.access.clone()));
    let servers = sections.tool_servers.iter();
    AccessRules {
        models: models.access.clone(),
        any_model: models.other_access.clone(),
        tools: functions.chain(search).filter(|(_, access)| !access.is_open()).collect(),
        servers: servers.map(|(label, server)| (label.clone(), server.access.clone())).collect(),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
