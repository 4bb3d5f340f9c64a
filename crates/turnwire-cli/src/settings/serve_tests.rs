//! Settings of `serve` from the file, the environment and the flags.

use std::{collections::BTreeSet, time::Duration};

use turnwire_contract::TenantId;
use turnwire_models::Price;

use super::*;
use crate::settings::{
    ModelSettings, OtherNames,
    models::Demo,
    testing::{check_mistakes, check_problem, demo_settings, file},
};

const SERVER: &str = "[server]\nlisten = \"127.0.0.1:1\"\n";

const THREE: &str = r#"
[models.default]
kind = "chat_completions"
base_url = "http://default/v1"
model = "tiny"
[models.small]
kind = "chat_completions"
base_url = "http://small/v1"
[models.big]
kind = "openai_responses"
api_key_env = "BIG_KEY"
model = "biggest"
"#;

fn settings(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> Result<ServeSettings, Problem> {
    let arguments = ServeArguments { model: model.map(str::to_owned), ..Default::default() };
    ServeSettings::of(&arguments, &variables.iter().copied().collect(), Some(&file(text)))
}

/// Returns the default name, the named models, and the handling of other names.
fn models(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> (String, Vec<String>, String) {
    let ServedModels { named, others, default_name, .. } =
        settings(text, variables, model).unwrap().models;
    let others = match others {
        OtherNames::Refused => "refused".to_owned(),
        OtherNames::AnsweredBy(name) => format!("answered by {name}"),
        OtherNames::PassedOn(provider) => {
            assert!(provider.passes_names_on(), "another name is sent: {provider:?}");
            format!("to {}", provider.addresses())
        }
    };
    let default_name = default_name.unwrap_or_else(|| "none".to_owned());
    (default_name, named.into_keys().collect(), others)
}

/// A model brings the tools of the server only if its settings say so.
#[test]
fn models_bring_tools_by_setting() {
    let with_tools = |line: &str| {
        let text = format!(
            "[models.one]\nkind = \"chat_completions\"\nbase_url = \"http://a/v1\"\n{line}"
        );
        settings(&text, &[], None).unwrap().models.with_tools
    };
    assert_eq!(with_tools("brings_tools = true"), ["one".to_owned()].into());
    assert!(with_tools("brings_tools = false").is_empty() && with_tools("").is_empty());
}

/// A9: origins on the command line are added to those in the file.
#[test]
fn origins_of_the_flag_come_beside_those_of_the_file() {
    let origins = |text, flags: &[&str]| {
        let origin = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let arguments = ServeArguments { origin, demo: true, ..ServeArguments::default() };
        let settings = ServeSettings::of(&arguments, &Environment::default(), Some(&file(text)));
        settings.unwrap().auth.origins
    };
    let named = "[server]\norigins = [\"https://app.example.com\"]\n";
    let page = "http://localhost:5173";
    assert_eq!(origins(named, &[page]), ["https://app.example.com", page]);
    assert_eq!(origins("", &[page]), [page]);
    assert_eq!(origins("", &[]), [""; 0]);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file_and_that_over_the_default() {
    let listen = |text, variables: &[(&str, &str)], flag: Option<&str>| {
        let listen = flag.map(|flag| flag.parse().unwrap());
        let arguments = ServeArguments { listen, demo: true, ..ServeArguments::default() };
        let environment = variables.iter().copied().collect();
        ServeSettings::of(&arguments, &environment, Some(&file(text))).unwrap().listen.to_string()
    };
    let variables = [("TURNWIRE_LISTEN", "127.0.0.1:2")];
    assert_eq!(listen("", &[], None), "127.0.0.1:7878");
    assert_eq!(listen(SERVER, &[], None), "127.0.0.1:1");
    assert_eq!(listen(SERVER, &variables, None), "127.0.0.1:2");
    assert_eq!(listen(SERVER, &variables, Some("127.0.0.1:3")), "127.0.0.1:3");
}

/// A name that is not configured is refused, unless the default model has no `model`: then the name
/// is passed on to its server.
#[test]
fn all_models_are_served_and_other_names_where_they_are_known() {
    let everywhere = || vec!["big".to_owned(), "default".into(), "small".into()];
    let variables = [("BIG_KEY", "k")];
    assert_eq!(models(THREE, &variables, None), ("default".into(), everywhere(), "refused".into()));
    assert_eq!(
        models(THREE, &variables, Some("small")),
        ("small".into(), everywhere(), "to http://small/v1".into())
    );
    assert_eq!(
        models(THREE, &variables, Some("llama")),
        (
            "llama".into(),
            vec!["big".into(), "default".into(), "llama".into(), "small".into()],
            "refused".into()
        ),
        "a name for the default provider"
    );
    let passing = THREE.replace("model = \"tiny\"\n", "");
    assert_eq!(
        models(&passing, &variables, None),
        ("default".into(), everywhere(), "to http://default/v1".into())
    );
    assert_eq!(
        models(&passing, &variables, Some("llama")),
        ("llama".into(), everywhere(), "to http://default/v1".into())
    );
    let variables = [("BIG_KEY", "k"), ("TURNWIRE_MODEL", "small")];
    assert_eq!(models(THREE, &variables, None).0, "small");
}

/// With several models and no default one, every request names its model.
#[test]
fn no_model_has_to_be_the_default() {
    let two = THREE.replace("[models.default]", "[models.other]");
    let names = || vec!["big".to_owned(), "other".into(), "small".into()];
    let variables = [("BIG_KEY", "k")];
    assert_eq!(models(&two, &variables, None), ("none".into(), names(), "refused".into()));
    assert_eq!(models(&two, &variables, Some("small")).0, "small");
    let variables = [("BIG_KEY", "k"), ("OPENAI_BASE_URL", "http://variable/v1")];
    assert_eq!(
        models(&two, &variables, None),
        ("default".into(), names(), "to http://variable/v1".into())
    );
}

#[test]
fn the_environment_alone_is_enough() {
    let variables = [("OPENAI_BASE_URL", "http://variable/v1")];
    assert_eq!(
        models("", &variables, None),
        ("default".into(), vec![], "to http://variable/v1".into())
    );
}

#[test]
fn the_operator_may_say_who_answers_for_other_names() {
    let fallback =
        |name: &str, models: &str| format!("[server]\nfallback_model = \"{name}\"\n{models}");
    let model = |name: &str, more: &str| {
        let kind = "kind = \"chat_completions\"";
        format!("[models.{name}]\n{kind}\nbase_url = \"http://{name}/v1\"\n{more}")
    };
    let two = model("default", "model = \"a\"\n") + &model("small", "model = \"b\"\n");
    assert_eq!(models(&fallback("small", &two), &[], None).2, "answered by small");
    let passing = model("default", "model = \"a\"\n") + &model("any", "");
    assert_eq!(models(&fallback("any", &passing), &[], None).2, "to http://any/v1");
    check_problem(
        &settings(&fallback("smal", &two), &[], None).unwrap_err(),
        &[
            "a mistake in turnwire.toml",
            "  server.fallback_model: there is no model `smal`; did you mean `small`?",
            "hint: repair it, or name another settings file with --config FILE",
        ],
    );
}

#[test]
fn whatever_a_model_lacks_is_told_for_all_of_them() {
    let text = format!("{THREE}[models.lost]\nkind = \"chat_completions\"\n");
    check_problem(
        &settings(&text, &[("TURNWIRE_LISTEN", "here")], None).unwrap_err(),
        &[
            "3 mistakes in turnwire.toml and the environment",
            "  models.big.api_key_env: the environment variable `BIG_KEY` is not set",
            "  models.lost.base_url: missing",
            "  TURNWIRE_LISTEN: `here`: not an address to listen on; it should look like \
             127.0.0.1:7878",
            "hint: repair it, or name another settings file with --config FILE",
        ],
    );
}

/// The demo needs no settings, and errors of other models do not stop it.
#[test]
fn the_demo_is_the_only_model_it_serves() {
    let watched = Demo { pace: Duration::from_millis(60), tool_time: Duration::from_millis(1200) };
    let expected = ServedModels::scripted(watched);
    assert_eq!(demo_settings("", &[]).unwrap().models, expected);
    assert_eq!(demo_settings(THREE, &[]).unwrap().models, expected);
    assert_eq!(settings(THREE, &[], Some("scripted")).unwrap().models, expected);
    let (pace, tool_time) = (Duration::from_millis(1), Duration::from_millis(2));
    let variables = [("TURNWIRE_DEMO_PACE_MS", "1"), ("TURNWIRE_DEMO_TOOL_MS", "2")];
    assert_eq!(
        demo_settings("", &variables).unwrap().models,
        ServedModels::scripted(Demo { pace, tool_time })
    );
}

#[test]
fn no_model_at_all_mentions_the_demo() {
    let problem = settings("", &[], None).unwrap_err();
    assert_eq!(problem.message, "no model is configured");
    for way in ["turnwire serve --demo", "OPENAI_BASE_URL", "[models.default]"] {
        assert!(problem.hints.iter().any(|hint| hint.contains(way)), "{way}");
    }
}

#[test]
fn keys_in_the_file_are_warned_of() {
    let text = "[server]\napi_keys = [\"secret\"]\n";
    let settings = demo_settings(text, &[]).unwrap();
    assert_eq!(
        settings.warnings,
        [
            "turnwire.toml:2: server.api_keys: keys do not belong in a file; put them into a variable and name it with api_keys_env"
        ]
    );
    assert!(demo_settings(SERVER, &[]).unwrap().warnings.is_empty());
}

#[test]
fn tools_limits_and_instructions_come_from_the_file() {
    let text = r#"
[server]
instructions = "Be brief."
[limits]
max_turns = 7
[web_search]
provider = "searxng"
base_url = "http://s:8888"
[mcp_servers.docs]
url = "http://d/mcp"
"#;
    let settings = demo_settings(text, &[]).unwrap();
    assert_eq!(settings.instructions.as_deref(), Some("Be brief."));
    assert_eq!(settings.limits, Limits { max_turns: 7, ..Limits::default() });
    assert_eq!(settings.web_search, Some(WebSearchOptions::new("http://s:8888")));
    let docs = McpServerOptions::http("http://d/mcp");
    assert_eq!(settings.tool_servers, BTreeMap::from([("docs".to_owned(), docs)]));
}

/// Every line of the example file is valid, including commented ones.
#[test]
fn the_example_is_without_mistakes() {
    let example = include_str!("../../../../examples/turnwire.toml");
    let variables = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "TEAM_KEYS",
        "METRICS_TOKEN",
        "GITHUB_TOKEN",
        "DOCS_TOKEN",
        "TEAM",
        "WEATHER_AUTHORIZATION",
        "TICKETS_SECRET",
        "BILLING_KEY",
    ];
    let secret = ("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let others = [secret, ("SECRET_KEYS", key), ("ENCRYPTION_KEYS", key)];
    let variables: Vec<(&str, &str)> =
        variables.map(|name| (name, "something")).into_iter().chain(others).collect();
    settings(example, &[], None).unwrap();
    let is_setting =
        |line: &str| line.starts_with('[') || (line.contains(" = ") && !line.starts_with("or: "));
    let all = example.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if is_setting(rest) => rest,
        Some(_) => "",
        None => line,
    });
    let all: Vec<&str> = all.collect();
    let servers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(servers.path(), "{ \"mcpServers\": {} }").unwrap();
    let all = all.join("\n").replace("mcp.json", servers.path().to_str().unwrap());
    // Some settings of a store are for PostgreSQL alone.
    let all = all.replace("sqlite://turnwire.db", "postgres://db/turnwire");
    let served = settings(&all, &variables, None).unwrap();
    assert_eq!(served.models.named.len(), 5);
    assert_eq!(served.tool_servers.len(), 5);
    assert_eq!(served.auth.api_keys, ["something"]);
    assert!(served.web_search.is_some());
    assert_eq!(served.functions.len(), 1);
}

/// A2: a model for some tenants is for them alone, by whatever name it is reached.
#[test]
fn tenants_of_a_model_hold_for_every_name() {
    let text = "[models.default]\nkind = \"chat_completions\"\nbase_url = \"http://m/v1\"\n\
                tenants = [\"acme\"]\nprice = { input = 0.15, output = 0.6 }\n";
    let acme = Some(BTreeSet::from([TenantId::from("acme")]));
    let models = settings(text, &[], None).unwrap().models;
    assert_eq!(models.access["default"].tenants, acme);
    assert_eq!(models.other_access.tenants, acme, "names that are passed on");
    let price = Price { input: 150_000_000, cached_input: 150_000_000, output: 600_000_000 };
    let ModelSettings::Provider(provider) = &models.named["default"] else { panic!() };
    assert_eq!(provider.price, Some(price));
    let named = format!("{text}model = \"m\"\n");
    let models = settings(&named, &[], Some("other")).unwrap().models;
    assert_eq!(models.access["other"].tenants, acme, "a name for the default provider");
    let two =
        format!("{text}[models.open]\nkind = \"chat_completions\"\nbase_url = \"http://o/v1\"\n");
    let fallback = format!("{two}[server]\nfallback_model = \"open\"\n");
    assert_eq!(settings(&fallback, &[], None).unwrap().models.other_access.tenants, None);
    let fallback = format!("{two}[server]\nfallback_model = \"default\"\n");
    assert_eq!(settings(&fallback, &[], None).unwrap().models.other_access.tenants, acme);
}

#[test]
fn wrong_tenants_and_prices_are_told() {
    check_mistakes(
        "[models.a]\nkind = \"chat_completions\"\nbase_url = \"http://m/v1\"\ntenants = []\n\
         price = { input = -1, output = 1 }\n[mcp_servers.b]\nurl = \"http://s/mcp\"\n\
         tenants = [\"\"]\n",
        &[],
        &[
            "models.a.tenants: nobody may use it; leave it out for all",
            "models.a.price.input: `-1` is not an amount; it should look like 0.50",
            "mcp_servers.b.tenants[0]: `` must have 1 to 200 bytes and no control characters",
        ],
    );
}
