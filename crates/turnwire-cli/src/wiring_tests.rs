//! Composition from settings.

use std::{collections::BTreeSet, sync::LazyLock};

use turnwire_contract::{CustomTools, Scope, TenantId, ToolServers};
use turnwire_engine::{Access, Principal};
use turnwire_tools::{EgressOptions, McpServerOptions};

use super::*;
use crate::{
    args::ServeArguments,
    settings::{
        Demo, Kind, ModelSettings, ModelTimeouts, OtherNames, Provider, ServedModels, ToolCalling,
        UpstreamSettings,
    },
};

fn provider(base_url: &str) -> Provider {
    Provider {
        kind: Kind::ChatCompletions,
        upstreams: vec![UpstreamSettings::at(base_url.to_owned(), None)],
        timeouts: ModelTimeouts::default(),
        tool_calling: ToolCalling::default(),
        custom_tools: CustomTools::AsFunctions,
        unsupported: Vec::new(),
        price: None,
    }
}

fn demo_settings() -> ServeSettings {
    let arguments = ServeArguments { demo: true, ..ServeArguments::default() };
    ServeSettings::read(&arguments, &[("", ""); 0].into_iter().collect()).unwrap()
}

/// Somebody without any scope.
fn nobody() -> Principal<'static> {
    static TENANT: LazyLock<TenantId> = LazyLock::new(TenantId::default);
    static NONE: BTreeSet<Scope> = BTreeSet::new();
    Principal { tenant: &TENANT, scopes: &NONE }
}

fn tools_of(gateway: &Gateway) -> Vec<String> {
    gateway.app.runs().tools().specs().iter().map(|spec| spec.name.clone()).collect()
}

#[tokio::test]
async fn the_demo_brings_its_tools_to_the_gateway() {
    let gateway = gateway(&demo_settings(), None).await.unwrap();
    assert_eq!(tools_of(&gateway), ["file_search", "web_search"]);
    let runs = gateway.app.runs();
    let tenant = TenantId::default();
    assert_eq!(runs.servers().labels(&tenant), ["demo", "ci", "git"]);
    let known = runs.servers().known_tools(&tenant, "demo".into()).unwrap();
    let reference = known[0].spec().reference();
    assert_eq!((reference.name.as_str(), reference.server.as_deref()), ("multiply", Some("demo")));
    assert_eq!(runs.model_names(nobody()), ["scripted"]);
    assert!(
        !runs.knows_model(nobody(), "gpt-5"),
        "it goes by one name, and answers for all others"
    );
    assert_eq!(gateway.app.options().default_model.as_deref(), Some("scripted"));
    assert_eq!(gateway.app.options().fallback_model.as_deref(), Some("scripted"));
}

#[tokio::test]
async fn every_model_of_the_settings_is_served() {
    let mut settings = demo_settings();
    settings.models = ServedModels {
        named: [("big", "http://big"), ("small", "http://small")]
            .map(|(name, url)| (name.to_owned(), ModelSettings::Provider(provider(url))))
            .into(),
        others: OtherNames::PassedOn(provider("http://small")),
        default_name: Some("small".to_owned()),
        with_tools: ["big".to_owned()].into(),
        access: [].into(),
        other_access: Access::default(),
    };
    settings.instructions = Some("Be brief.".to_owned());
    settings.limits.max_turns = 7;
    let gateway = gateway(&settings, None).await.unwrap();
    assert_eq!(tools_of(&gateway), ["file_search"], "only the demo multiplies");
    assert_eq!(gateway.app.runs().model_names(nobody()), ["big", "small"]);
    assert!(gateway.app.runs().knows_model(nobody(), "llama"));
    let options = gateway.app.options();
    assert_eq!(options.default_model.as_deref(), Some("small"));
    assert_eq!(options.models_with_tools, settings.models.with_tools);
    assert_eq!(options.instructions.as_deref(), Some("Be brief."));
    assert_eq!(options.limits.max_turns, 7);
}

#[tokio::test]
async fn the_search_and_the_servers_of_the_settings_are_there() {
    let mut settings = demo_settings();
    settings.web_search = Some(WebSearchOptions::new("http://localhost:8888"));
    let docs = McpServerOptions::http("http://localhost:1/mcp");
    let git = McpServerOptions::http("http://localhost:1/git");
    settings.tool_servers = [("docs".to_owned(), docs), ("git".to_owned(), git)].into();
    let gateway = gateway(&settings, None).await.unwrap();
    assert_eq!(tools_of(&gateway), ["file_search", "web_search"]);
    let tenant = TenantId::default();
    assert_eq!(gateway.app.runs().servers().labels(&tenant), ["demo", "ci", "docs", "git"]);
    let known = gateway.app.runs().servers().known_tools(&tenant, "git".into());
    assert!(known.is_none(), "the server of the settings is meant, not that of the demo");
    assert!(
        gateway.tool_servers.known_tools(&tenant, "docs".into()).is_none(),
        "nothing is started yet"
    );
}

/// A9: without a key, the gateway listens only on loopback.
#[tokio::test]
async fn the_door_has_the_keys_of_the_settings() {
    let anywhere = "0.0.0.0:0".parse().unwrap();
    let mut settings = demo_settings();
    assert!(
        !gateway(&settings, None).await.unwrap().app.auth().may_open_at(anywhere).await.unwrap()
    );
    settings.auth.api_keys = vec!["key".to_owned()];
    assert!(
        gateway(&settings, None).await.unwrap().app.auth().may_open_at(anywhere).await.unwrap()
    );
}

#[test]
fn an_agent_has_the_tools_of_the_settings() {
    let settings = RunSettings {
        model: ModelSettings::Scripted(Demo::default()),
        model_name: "scripted".to_owned(),
        instructions: None,
        tool_servers: [("docs".to_owned(), McpServerOptions::http("http://d"))].into(),
        functions: Vec::new(),
        web_search: Some(WebSearchOptions::new("http://localhost:8888")),
        egress: EgressOptions::default(),
        ask_before: Vec::new(),
        limits: turnwire::Limits::default(),
    };
    let (agent, _) = agent(&settings).unwrap();
    let tools = agent.runs().tools().specs();
    let names: Vec<&str> = tools.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["delete_branch", "deploy_check", "multiply", "web_search"]);
    assert_eq!(agent.runs().servers().labels(&TenantId::default()), ["docs"]);
}
