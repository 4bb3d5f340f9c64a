//! Selection of the model, and errors without one.

use super::*;
use crate::settings::testing::{check_run_problem as check_problem, run_settings as settings};

/// Returns URL, API, key and name of the model.
fn provider(
    file: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> (Kind, String, Option<Secret>, String) {
    let settings = settings(file, variables, model).unwrap();
    let name = settings.upstream_name().to_owned();
    let ModelSettings::Provider(Provider { kind, mut upstreams, .. }) = settings.model else {
        panic!("not a provider: {:?}", settings.model);
    };
    let UpstreamSettings { base_url, api_key, .. } = upstreams.remove(0);
    (kind, base_url, api_key, name)
}

const LOCAL: &str = r#"
[models.default]
kind = "chat_completions"
base_url = "http://file/v1"
model = "file-model"
"#;

const TWO: &str = r#"
[models.small]
kind = "chat_completions"
base_url = "http://small/v1"
[models.big]
kind = "openai_responses"
api_key_env = "BIG_KEY"
model = "biggest"
"#;

#[test]
fn the_file_wins_over_the_defaults() {
    assert_eq!(
        provider(LOCAL, &[], None),
        (Kind::ChatCompletions, "http://file/v1".into(), None, "file-model".into())
    );
    let anthropic = "[models.default]\nkind = \"anthropic_messages\"";
    assert_eq!(
        provider(anthropic, &[("ANTHROPIC_API_KEY", "k")], None),
        (Kind::AnthropicMessages, ANTHROPIC_URL.into(), Some("k".into()), "default".into())
    );
}

#[test]
fn a_model_that_cannot_call_tools_says_how_it_does() {
    let calling = |line: &str| {
        let file = format!("{LOCAL}{line}");
        let settings = settings(&file, &[], None).unwrap();
        let ModelSettings::Provider(provider) = settings.model else { panic!("{file}") };
        provider.tool_calling
    };
    assert_eq!(calling(""), ToolCalling::Native);
    assert_eq!(calling("tool_calling = \"native\""), ToolCalling::Native);
    assert_eq!(calling("tool_calling = \"json_schema\""), ToolCalling::JsonSchema);
    check_problem(
        &format!("{LOCAL}tool_calling = \"json_schem\""),
        &[],
        None,
        &[
            "a mistake in turnwire.toml",
            "  models.default.tool_calling: there is no way `json_schem`; did you mean \
             `json_schema`?",
            "hint: repair it, or name another settings file with --config FILE",
        ],
    );
}

#[test]
fn the_environment_wins_over_the_file() {
    let variables = [("OPENAI_BASE_URL", "http://variable/v1"), ("OPENAI_API_KEY", "k")];
    assert_eq!(
        provider(LOCAL, &variables, None),
        (Kind::ChatCompletions, "http://variable/v1".into(), Some("k".into()), "file-model".into())
    );
    let variables = [("TURNWIRE_MODEL", "big"), ("BIG_KEY", "k")];
    assert_eq!(
        provider(TWO, &variables, None),
        (Kind::OpenAiResponses, OPENAI_URL.into(), Some("k".into()), "biggest".into())
    );
}

#[test]
fn the_flag_wins_over_the_environment() {
    let variables = [("TURNWIRE_MODEL", "big"), ("BIG_KEY", "k")];
    assert_eq!(
        provider(TWO, &variables, Some("small")),
        (Kind::ChatCompletions, "http://small/v1".into(), None, "small".into())
    );
    let scripted = settings(TWO, &variables, Some("scripted")).unwrap();
    assert_eq!(scripted.model, ModelSettings::Scripted(Demo::default()));
}

#[test]
fn a_named_model_keeps_its_own_address() {
    let variables = [("OPENAI_BASE_URL", "http://variable/v1")];
    assert_eq!(provider(TWO, &variables, Some("small")).1, "http://small/v1");
    assert_eq!(provider(TWO, &variables, None).1, "http://variable/v1");
}

#[test]
fn the_usual_key_does_not_go_to_an_address_of_the_file() {
    assert_eq!(provider(LOCAL, &[("OPENAI_API_KEY", "k")], None).2, None);
}

#[test]
fn a_name_that_is_not_in_the_file_is_passed_on_to_the_default_provider() {
    assert_eq!(
        provider(LOCAL, &[], Some("llama")),
        (Kind::ChatCompletions, "http://file/v1".into(), None, "llama".into())
    );
    let only = LOCAL.replace("default", "local");
    assert_eq!(provider(&only, &[], Some("llama")).3, "llama", "the only one is the default");
    assert_eq!(provider(&only, &[], None).3, "file-model");
}

#[test]
fn the_environment_alone_is_enough() {
    let url = [("OPENAI_BASE_URL", "http://variable/v1")];
    assert_eq!(
        provider("", &url, None),
        (Kind::ChatCompletions, "http://variable/v1".into(), None, "default".into())
    );
    assert_eq!(
        provider("", &[("OPENAI_API_KEY", "k")], Some("gpt")),
        (Kind::OpenAiResponses, OPENAI_URL.into(), Some("k".into()), "gpt".into())
    );
    assert_eq!(
        provider("", &[("ANTHROPIC_API_KEY", "k")], Some("claude")),
        (Kind::AnthropicMessages, ANTHROPIC_URL.into(), Some("k".into()), "claude".into())
    );
}

#[test]
fn a_key_that_is_not_there_is_told_only_for_the_model_that_is_used() {
    check_problem(
        TWO,
        &[],
        Some("big"),
        &[
            "models.big.api_key_env: the environment variable `BIG_KEY` is not set",
            "hint: set it, or take the line out of the settings if the server needs no key",
        ],
    );
    assert!(settings(TWO, &[], Some("small")).is_ok());
}

#[test]
fn chat_completions_need_an_address() {
    let file = "[models.default]\nkind = \"chat_completions\"";
    check_problem(
        file,
        &[],
        None,
        &[
            "models.default.base_url: missing",
            "hint: give the address of the server, such as http://localhost:11434/v1",
        ],
    );
}

#[test]
fn a_variable_that_is_not_an_address_is_told() {
    check_problem(
        "",
        &[("OPENAI_BASE_URL", "localhost")],
        None,
        &["OPENAI_BASE_URL: `localhost` is not an address; it should look like \
           http://localhost:11434/v1"],
    );
}

#[test]
fn several_models_and_no_default_is_a_question() {
    check_problem(
        TWO,
        &[("OPENAI_API_KEY", "k")],
        None,
        &[
            "the settings have several models, and none is the default",
            "hint: choose one with --model: there are `big`, `small`",
            "hint: or call one of them [models.default]",
        ],
    );
    check_problem(
        TWO,
        &[],
        Some("smal"),
        &[
            "there is no model `smal` in the settings",
            "hint: did you mean `small`?",
            "hint: a name for the server to know needs a [models.default] in the settings",
        ],
    );
}

#[test]
fn a_key_without_a_name_is_a_question() {
    check_problem(
        "",
        &[("ANTHROPIC_API_KEY", "k")],
        None,
        &[
            "there is a key, but no model is named",
            "hint: name one with --model NAME or TURNWIRE_MODEL=NAME",
        ],
    );
}

#[test]
fn no_model_at_all_names_three_ways() {
    let problem = settings("", &[], None).unwrap_err();
    assert_eq!(problem.hints.len(), 3);
    for way in ["--model scripted", "OPENAI_BASE_URL", "[models.default]"] {
        assert!(problem.hints.iter().any(|hint| hint.contains(way)), "{way}");
    }
}
