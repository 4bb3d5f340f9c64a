//! Who may use what, from the file.

use turnwire_contract::TenantId;
use turnwire_engine::{Access, ServerAccess};

use super::*;
use crate::{
    args::ServeArguments,
    settings::{
        ServeSettings,
        testing::{check_mistakes, file},
    },
};

fn needs(scope: &str) -> Access {
    Access { tenants: None, scopes: Some([scope.parse().unwrap()].into()) }
}

fn rules(text: &str) -> AccessRules {
    let environment = [("", ""); 0].into_iter().collect();
    ServeSettings::of(&ServeArguments::default(), &environment, Some(&file(text))).unwrap().access
}

const MODEL: &str = "kind = \"chat_completions\"\nbase_url = \"http://a/v1\"\n";

/// Every restriction in the file takes effect.
#[test]
fn restrictions_are_gathered() {
    let text = format!(
        "[models.default]\n{MODEL}[models.large]\n{MODEL}model = \"l\"\nscopes = [\"use:large\"]\n\
         [mcp_servers.crm]\nurl = \"http://crm/mcp\"\nscopes = [\"use:crm\"]\n\
         tools.find = {{ effect = \"pure\" }}\n\
         tools.delete = {{ tenants = [\"acme\"], scopes = [\"use:crm-admin\"] }}\n\
         [functions.open]\ndescription = \"x\"\nmethod = \"GET\"\nurl = \"http://o/\"\n\
         [functions.refund]\ndescription = \"x\"\nmethod = \"GET\"\nurl = \"http://f/\"\n\
         tenants = [\"acme\"]\n\
         [web_search]\nprovider = \"searxng\"\nbase_url = \"http://s/\"\nscopes = [\"use:web\"]\n"
    );
    let acme = Some([TenantId::new("acme")].into());
    let delete = Access { tenants: acme.clone(), ..needs("use:crm-admin") };
    let crm =
        ServerAccess { server: needs("use:crm"), tools: [("delete".to_owned(), delete)].into() };
    let expected = AccessRules {
        models: [("large".to_owned(), needs("use:large"))].into(),
        any_model: Access::default(),
        tools: [
            ("refund".to_owned(), Access { tenants: acme, scopes: None }),
            ("web_search".to_owned(), needs("use:web")),
        ]
        .into(),
        servers: [("crm".to_owned(), crm)].into(),
    };
    assert_eq!(rules(&text), expected);
}

/// Names that are passed on to a model need what the model needs.
#[test]
fn other_names_need_the_scope_of_the_model_that_answers() {
    let passed_on = format!("[models.default]\n{MODEL}scopes = [\"use:a\"]\n");
    assert_eq!(rules(&passed_on).any_model, needs("use:a"));
    let fallback = format!(
        "[server]\nfallback_model = \"b\"\n[models.default]\n{MODEL}[models.b]\n{MODEL}scopes = [\"use:b\"]\n"
    );
    assert_eq!(rules(&fallback).any_model, needs("use:b"));
}

#[test]
fn scopes_that_nobody_could_have_are_mistakes() {
    check_mistakes(
        "[web_search]\nprovider = \"searxng\"\nbase_url = \"http://s/\"\n\
         scopes = [\"research\", \"runs:read\", \"use:*\"]\n",
        &[],
        &["research", "runs:read", "use:*"]
            .map(|name| {
                format!(
                    "web_search.scopes: `{name}` cannot be asked for; it should look like \
                 use:research, with letters, digits and . _ : / -"
                )
            })
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    check_mistakes(
        "[web_search]\nprovider = \"searxng\"\nbase_url = \"http://s/\"\nscopes = []\n",
        &[],
        &["web_search.scopes: nobody may use it; leave it out for all"],
    );
}
