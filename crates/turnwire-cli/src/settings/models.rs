//! `[models.*]`, and the environment variables of well-known providers.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroU64,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_contract::{CustomTools, Parameter};
use turnwire_engine::Access;
use turnwire_models::{
    DEFAULT_CONNECT_TIMEOUT, Price, Secret, upstreams::DEFAULT_MAX_WAIT, vendors::Api,
};

use super::{
    file::{read_table, table_of},
    model_kind::{ANTHROPIC_URL, EXAMPLE_URL, Kind, OPENAI_URL},
    schema::words_of,
    upstreams::{ModelTimeouts, NamedUpstream, RawUpstream, UpstreamSettings, named_upstreams},
    words::{
        access_of, check_url, child, did_you_mean, is_http_url, meaning_of, missing, nanos,
        not_a_url, one_of,
    },
};
use crate::{
    environment::Environment,
    exit::{Problem, Result},
};

/// Name of the default model.
pub(crate) const DEFAULT_MODEL: &str = "default";
/// Name of the demo model.
pub(super) const SCRIPTED: &str = "scripted";
/// Speed of the demo for people who watch.
pub(super) const WATCHED_DEMO: Demo =
    Demo { pace: Duration::from_millis(60), tool_time: Duration::from_millis(1200) };

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ModelSettings {
    Scripted(Demo),
    Provider(Provider),
}

impl ModelSettings {
    /// Returns the speed of the demo, if this is the demo.
    pub(crate) fn demo(&self) -> Option<Demo> {
        match self {
            Self::Scripted(demo) => Some(*demo),
            Self::Provider(_) => None,
        }
    }
}

/// Speed of the demo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Demo {
    /// Delay between two words.
    pub(crate) pace: Duration,
    /// Duration of a tool call.
    pub(crate) tool_time: Duration,
}

/// Settings of a model at one or several upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) kind: Kind,
    /// At least one.
    pub(crate) upstreams: Vec<UpstreamSettings>,
    pub(crate) timeouts: ModelTimeouts,
    pub(crate) tool_calling: ToolCalling,
    pub(crate) custom_tools: CustomTools,
    /// Parameters that the server rejects. They are not sent.
    pub(crate) unsupported: Vec<Parameter>,
    /// What tokens cost, if costs are counted.
    pub(crate) price: Option<Price>,
}

impl Provider {
    /// Whether requests are sent with the model name that they have.
    pub(crate) fn passes_names_on(&self) -> bool {
        self.upstreams.iter().all(|upstream| upstream.model.is_none())
    }

    /// Sends requests with the model name that they have.
    fn passing_names_on(mut self) -> Self {
        for upstream in &mut self.upstreams {
            upstream.model = None;
        }
        self
    }

    /// Returns the addresses of the upstreams, for people.
    pub(crate) fn addresses(&self) -> String {
        let addresses: Vec<&str> =
            self.upstreams.iter().map(|upstream| upstream.base_url.as_str()).collect();
        addresses.join(", ")
    }
}

/// What the API of a model has for tools is used.
const NATIVE: &str = "native";

/// How a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ToolCalling {
    /// With the tool calls of its API.
    #[default]
    Native,
    /// With structured output, for a model without tool support.
    JsonSchema,
}

impl ToolCalling {
    const NAMES: [(&str, Self); 2] = [(NATIVE, Self::Native), ("json_schema", Self::JsonSchema)];
}

/// Support for custom tools.
const CUSTOM_TOOLS: [(&str, CustomTools); 3] = [
    (NATIVE, CustomTools::Native),
    ("functions", CustomTools::AsFunctions),
    ("refused", CustomTools::Refused),
];

/// The word for a way to offer custom tools.
pub(super) fn custom_tools_name(custom_tools: CustomTools) -> &'static str {
    let found = CUSTOM_TOOLS.iter().find(|(_, known)| *known == custom_tools);
    found.map_or("", |(name, _)| *name)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServedModels {
    /// Configured models by name.
    pub(crate) named: BTreeMap<String, ModelSettings>,
    /// Handling of requests for any other name.
    pub(crate) others: OtherNames,
    /// Model of requests without a name; they are refused if not set.
    pub(crate) default_name: Option<String>,
    /// Models that bring the tools of the server into Chat Completions.
    pub(crate) with_tools: HashSet<String>,
    /// Who may use a model; everybody may use one that is not in it.
    pub(crate) access: BTreeMap<String, Access>,
    /// Whose requests for other names are passed on.
    pub(crate) other_access: Access,
}

/// Handling of requests for models that are not configured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OtherNames {
    /// The request is refused.
    Refused,
    /// The name is passed on to this provider.
    PassedOn(Provider),
    /// The model of this name is used.
    AnsweredBy(String),
}

impl ServedModels {
    /// Serves only the demo, under any name.
    pub(super) fn scripted(demo: Demo) -> Self {
        let named = BTreeMap::from([(SCRIPTED.to_owned(), ModelSettings::Scripted(demo))]);
        let others = OtherNames::AnsweredBy(SCRIPTED.to_owned());
        let with_tools = HashSet::from([SCRIPTED.to_owned()]);
        Self {
            named,
            others,
            default_name: Some(SCRIPTED.to_owned()),
            with_tools,
            access: BTreeMap::new(),
            other_access: Access::default(),
        }
    }

    /// Returns the speed of the demo, if it is served.
    pub(crate) fn demo(&self) -> Option<Demo> {
        self.named.values().find_map(ModelSettings::demo)
    }

    /// Returns all models in the file. Other names go to the provider of the default model if that
    /// has no `model`; otherwise to the model `fallback`, or they are refused. With several models
    /// none has to be the default: every request then names one.
    pub(super) fn of(
        models: &BTreeMap<String, NamedModel>,
        environment: &Environment,
        choice: Option<&str>,
        fallback: Option<&str>,
    ) -> Result<Self> {
        let has_default = choice.is_some()
            || models.len() < 2
            || default_of(models, environment).is_some()
            || environment.is_set("OPENAI_BASE_URL");
        let default = if has_default {
            Some(choose(models, environment, choice, ForCommand::Serve)?)
        } else {
            None
        };
        let named = models.iter().map(|(name, model)| {
            let provider = provider(name, model, environment)?;
            Ok((name.clone(), ModelSettings::Provider(provider)))
        });
        let mut named: BTreeMap<_, _> = named.collect::<Result<_>>()?;
        let chosen = choice.and_then(|choice| models.get(choice));
        let chosen = chosen.or_else(|| default_of(models, environment).map(|(_, model)| model));
        let passes_names_on = chosen.is_none_or(NamedModel::passes_names_on);
        let others = match (fallback, &default) {
            (Some(name), _) => fallback_to(name, &named),
            (None, Some((provider, _))) if passes_names_on => {
                OtherNames::PassedOn(provider.clone().passing_names_on())
            }
            (None, _) => OtherNames::Refused,
        };
        let access = models.iter().map(|(name, model)| (name.clone(), model.access.clone()));
        let mut access: BTreeMap<_, _> = access.filter(|(_, rule)| !rule.is_open()).collect();
        let of_chosen = chosen.map(|model| model.access.clone()).unwrap_or_default();
        let default_name = default.as_ref().map(|(_, name)| name.clone());
        if let Some((provider, name)) = default
            && !passes_names_on
            && !named.contains_key(&name)
        {
            // A name for the default provider counts as a configured name.
            access.insert(name.clone(), of_chosen.clone());
            named.insert(name, ModelSettings::Provider(provider));
        }
        let other_access = match fallback {
            Some(name) => access.get(name).cloned().unwrap_or_default(),
            None => of_chosen,
        };
        let with_tools = models.iter().filter(|(_, model)| model.brings_tools);
        let with_tools = with_tools.map(|(name, _)| name.clone()).collect();
        Ok(Self { named, others, default_name, with_tools, access, other_access })
    }
}

/// Returns the handling of unknown names by the fallback model. Without a `model` of its own it
/// gets the requested name.
fn fallback_to(name: &str, named: &BTreeMap<String, ModelSettings>) -> OtherNames {
    match named.get(name) {
        Some(ModelSettings::Provider(provider)) if provider.passes_names_on() => {
            OtherNames::PassedOn(provider.clone())
        }
        Some(_) => OtherNames::AnsweredBy(name.to_owned()),
        // `check_fallback` has reported it.
        None => OtherNames::Refused,
    }
}

/// Checks that the fallback model is one of the models.
pub(super) fn check_fallback(
    name: Option<&str>,
    models: &BTreeMap<String, NamedModel>,
    mistakes: &mut Vec<String>,
) {
    let Some(name) = name.filter(|name| !models.contains_key(*name)) else { return };
    let known: Vec<&str> = models.keys().map(String::as_str).collect();
    let advice = match known.as_slice() {
        [] => "there is none in [models]".to_owned(),
        known => did_you_mean(name, known),
    };
    mistakes.push(format!("server.fallback_model: there is no model `{name}`; {advice}"));
}

/// Reports everything that models need from the environment and that is missing or wrong there.
pub(super) fn missing_for_all(
    models: &BTreeMap<String, NamedModel>,
    environment: &Environment,
    in_file: &mut Vec<String>,
    in_environment: &mut Vec<String>,
) {
    // One error, however many models it affects.
    if let Err(problem) = openai_base_url(environment) {
        in_environment.push(problem.message);
    }
    for (name, model) in models {
        // Even one that is wrong stands for a missing address.
        let has_usual = model.kind.speaks_openai() && environment.is_set("OPENAI_BASE_URL");
        for upstream in &model.upstreams {
            let path = upstream.path(&child("models", name));
            let told = upstream.missing(model.kind, has_usual, environment);
            let told = told.into_iter().map(|(key, why, _)| (format!("{path}.{key}"), why));
            for (path, why) in told {
                missing(&path, &why, in_file);
            }
        }
    }
}

/// Any number of models; `model` of a request selects one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawModel {
    /// The API of the server: `"chat_completions"`, `"openai_responses"` or
    /// `"anthropic_messages"`; or who serves the model, such as `"mistral"`: see providers
    #[schemars(extend("enum" = words_of(&Kind::names()), "x-required" = true))]
    kind: Option<String>,
    /// The base URL of the server
    base_url: Option<String>,
    /// The model name sent to the server
    model: Option<String>,
    /// The variable with the API key
    api_key_env: Option<String>,
    /// `"json_schema"` for a model that does not support tool calls
    #[schemars(extend("enum" = words_of(&ToolCalling::NAMES), "default" = NATIVE))]
    tool_calling: Option<String>,
    /// How custom tools (plain-text input) are offered: `"native"` if the server supports them,
    /// `"functions"` as functions, or `"refused"`
    #[schemars(extend("enum" = words_of(&CUSTOM_TOOLS)))]
    custom_tools: Option<String>,
    /// Whether Chat Completions requests to this model may use all tools and MCP servers of the
    /// settings without naming them
    #[schemars(extend("default" = false))]
    brings_tools: Option<bool>,
    /// The tenants that may use the model; for others it does not exist
    tenants: Option<Vec<String>>,
    /// Scopes of which a caller needs one, such as `use:research`; for others it does not exist
    scopes: Option<Vec<String>>,
    /// Prices per million tokens, in any currency that is the same for all models: `{ input = 0.15,
    /// cached_input = 0.075, output = 0.60 }`. Costs are then counted: `usage.turnwire.cost`, and
    /// `cost_nanos` in the journal
    price: Option<RawPrice>,
    /// Parameters that the server rejects, such as `"text.verbosity"`; they are omitted and
    /// reported to clients
    #[schemars(extend("items" = { "enum": parameter_names(), "type": "string" }))]
    unsupported_parameters: Vec<String>,
    /// Tables: the places where the model is, if there are several
    upstreams: Vec<RawUpstream>,
    /// How long connecting to an upstream may take
    #[schemars(extend("default" = DEFAULT_CONNECT_TIMEOUT.as_secs()))]
    connect_timeout_sec: Option<NonZeroU64>,
    /// How long the first content of an answer may take; then another upstream is asked. Less than
    /// `model_silence_sec` of `[limits]`
    first_content_timeout_sec: Option<NonZeroU64>,
    /// How long a request waits while all upstreams are at their `max_concurrency`; then its run
    /// fails with `model_overloaded`
    #[schemars(extend("default" = usual_wait()))]
    max_wait_ms: Option<u64>,
}

/// Prices per million tokens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawPrice {
    /// Price of a million input tokens
    #[schemars(extend("minimum" = 0, "x-required" = true))]
    input: Option<f64>,
    /// Price of a million input tokens that the server had in its cache; as `input` by default
    #[schemars(extend("minimum" = 0))]
    cached_input: Option<f64>,
    /// Price of a million output tokens
    #[schemars(extend("minimum" = 0, "x-required" = true))]
    output: Option<f64>,
}

/// Names of the parameters that can be omitted.
fn parameter_names() -> Vec<&'static str> {
    Parameter::ALL.iter().map(|parameter| parameter.as_str()).collect()
}

fn usual_wait() -> Option<u64> {
    DEFAULT_MAX_WAIT.as_millis().try_into().ok()
}

impl RawPrice {
    fn read(self, path: &str, mistakes: &mut Vec<String>) -> Option<Price> {
        let path = format!("{path}.price");
        let [input, cached_input, output] =
            [("input", self.input), ("cached_input", self.cached_input), ("output", self.output)]
                .map(|(name, price)| {
                    // A free kind of token is fine.
                    if price == Some(0.0) {
                        return Some(0);
                    }
                    nanos(&format!("{path}.{name}"), price?, mistakes)
                });
        for (name, price) in [("input", self.input), ("output", self.output)] {
            if price.is_none() {
                let why = "missing; give the price of a million tokens";
                missing(&format!("{path}.{name}"), why, mistakes);
            }
        }
        Some(Price { input: input?, cached_input: cached_input.or(input)?, output: output? })
    }
}

#[derive(Debug)]
pub(super) struct NamedModel {
    kind: Kind,
    /// A model without a list of upstreams has one.
    upstreams: Vec<NamedUpstream>,
    timeouts: ModelTimeouts,
    tool_calling: ToolCalling,
    custom_tools: CustomTools,
    brings_tools: bool,
    access: Access,
    price: Option<Price>,
    unsupported: Vec<Parameter>,
}

/// Completes the timeouts of the models, given how long a model may be silent.
pub(super) fn complete_timeouts(
    models: &mut BTreeMap<String, NamedModel>,
    silence: Duration,
    mistakes: &mut Vec<String>,
) {
    for (name, model) in models {
        let n_upstreams = model.upstreams.len();
        model.timeouts.complete(&child("models", name), n_upstreams, silence, mistakes);
    }
}

impl NamedModel {
    fn passes_names_on(&self) -> bool {
        self.upstreams.iter().all(|upstream| upstream.model.is_none())
    }
}

pub(super) fn named_models(
    models: Table,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, NamedModel> {
    let mut named = BTreeMap::new();
    for (name, value) in models {
        let path = child("models", &name);
        if name == SCRIPTED {
            let why = "this name is taken by the demo; give it another name";
            mistakes.push(format!("{path}: {why}"));
        }
        if let Some(table) = table_of(&path, Some(value), mistakes) {
            named.insert(name, named_model(&path, table, mistakes));
        }
    }
    named
}

fn named_model(path: &str, table: Table, mistakes: &mut Vec<String>) -> NamedModel {
    let raw: RawModel = read_table(path, table, mistakes);
    let RawModel { kind, base_url, model, api_key_env, upstreams, .. } = raw;
    let timeouts = ModelTimeouts {
        connect: raw.connect_timeout_sec.map(seconds),
        first_content: raw.first_content_timeout_sec.map(seconds),
        max_wait: raw.max_wait_ms.map(Duration::from_millis),
    };
    let at = format!("{path}.tool_calling");
    let tool_calling = raw
        .tool_calling
        .and_then(|word| meaning_of(&at, "there is no way", &word, &ToolCalling::NAMES, mistakes));
    let at = format!("{path}.custom_tools");
    let custom_tools = raw
        .custom_tools
        .and_then(|word| meaning_of(&at, "there is no way", &word, &CUSTOM_TOOLS, mistakes));
    let access = access_of(path, raw.tenants, raw.scopes, mistakes);
    let price = raw.price.and_then(|price| price.read(path, mistakes));
    let unsupported = parameters_of(path, &raw.unsupported_parameters, mistakes);
    let kind = kind_of(path, kind.as_deref(), mistakes);
    check_url(&format!("{path}.base_url"), base_url.as_deref(), EXAMPLE_URL, mistakes);
    let only = NamedUpstream::only(base_url, model, api_key_env);
    let upstreams = named_upstreams(path, only, upstreams, mistakes);
    let custom_tools = custom_tools.unwrap_or_else(|| kind.usual_custom_tools());
    if custom_tools == CustomTools::Native && kind.api() == Api::AnthropicMessages {
        let why = "this kind knows only functions; it is one of `functions`, `refused`";
        mistakes.push(format!("{path}.custom_tools: {why}"));
    }
    NamedModel {
        kind,
        upstreams,
        timeouts,
        tool_calling: tool_calling.unwrap_or_default(),
        custom_tools,
        brings_tools: raw.brings_tools == Some(true),
        access,
        price,
        unsupported,
    }
}

/// Reads the kind. For a missing or unknown one another is returned, so that the rest can be
/// checked: one that needs no `base_url`.
fn kind_of(path: &str, word: Option<&str>, mistakes: &mut Vec<String>) -> Kind {
    let path = format!("{path}.kind");
    let Some(word) = word else {
        let kinds = Kind::APIS.map(|(name, _)| name);
        missing(&path, &format!("missing; {}", one_of(&kinds)), mistakes);
        return Kind::OpenAiResponses;
    };
    let kind = meaning_of(&path, "there is no kind", word, &Kind::names(), mistakes);
    kind.unwrap_or(Kind::OpenAiResponses)
}

fn seconds(seconds: NonZeroU64) -> Duration {
    Duration::from_secs(seconds.get())
}

fn parameters_of(path: &str, words: &[String], mistakes: &mut Vec<String>) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for (n, word) in words.iter().enumerate() {
        let known = Parameter::ALL.iter().find(|parameter| parameter.as_str() == word);
        if let Some(parameter) = known {
            parameters.push(*parameter);
        } else {
            let advice = did_you_mean(word, &parameter_names());
            mistakes.push(format!(
                "{path}.unsupported_parameters[{n}]: there is no parameter `{word}`; {advice}"
            ));
        }
    }
    parameters
}

/// The command for which a model is chosen. It decides which hint helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForCommand {
    Run,
    Serve,
}

/// Returns the selected model and its name.
///
/// For the default model, `OPENAI_BASE_URL` takes precedence over the file. A model selected by
/// name keeps its own URL.
pub(super) fn choose(
    models: &BTreeMap<String, NamedModel>,
    environment: &Environment,
    choice: Option<&str>,
    command: ForCommand,
) -> Result<(Provider, String)> {
    let named = choice.and_then(|choice| models.get_key_value(choice));
    if let Some((name, model)) = named {
        return Ok((provider(name, model, environment)?, name.clone()));
    }
    let name = choice.unwrap_or(DEFAULT_MODEL).to_owned();
    if let Some((its_name, model)) = default_of(models, environment) {
        let provider = provider(its_name, model, environment)?;
        // An unknown name is passed on to the server.
        return Ok(match choice {
            Some(_) => (provider.passing_names_on(), name),
            None => (provider, its_name.clone()),
        });
    }
    let is_named = choice.is_some();
    match provider_of_environment(environment)? {
        Some(provider) if is_named || environment.is_set("OPENAI_BASE_URL") => Ok((provider, name)),
        _ if !models.is_empty() => Err(which_model(choice, models)),
        Some(_) => Err(no_model_name()),
        None => Err(no_model(command)),
    }
}

/// Returns the default model in the file.
fn default_of<'a>(
    models: &'a BTreeMap<String, NamedModel>,
    environment: &Environment,
) -> Option<(&'a String, &'a NamedModel)> {
    match (models.get_key_value(DEFAULT_MODEL), models.len()) {
        (Some(default), _) => Some(default),
        (None, 1) if !environment.is_set("OPENAI_BASE_URL") => models.iter().next(),
        (None, _) => None,
    }
}

fn provider(name: &str, named: &NamedModel, environment: &Environment) -> Result<Provider> {
    let upstreams = named.upstreams.iter().map(|upstream| {
        let is_default = name == DEFAULT_MODEL && upstream.is_only();
        let usual = from_environment(named.kind, environment)?;
        upstream.with_environment(
            &child("models", name),
            named.kind,
            is_default,
            usual.as_ref(),
            environment,
        )
    });
    Ok(Provider {
        kind: named.kind,
        upstreams: upstreams.collect::<Result<_>>()?,
        timeouts: named.timeouts,
        tool_calling: named.tool_calling,
        custom_tools: named.custom_tools,
        unsupported: named.unsupported.clone(),
        price: named.price,
    })
}

/// Returns the provider from the variables of OpenAI and Anthropic.
fn provider_of_environment(environment: &Environment) -> Result<Option<Provider>> {
    let key = |name| environment.get(name).map(Secret::from);
    let provider = |kind: Kind, base_url: String, api_key| Provider {
        kind,
        upstreams: vec![UpstreamSettings::at(base_url, api_key)],
        timeouts: ModelTimeouts::default(),
        tool_calling: ToolCalling::default(),
        custom_tools: kind.usual_custom_tools(),
        unsupported: Vec::new(),
        price: None,
    };
    let openai_key = key("OPENAI_API_KEY");
    if let Some(base_url) = openai_base_url(environment)? {
        return Ok(Some(provider(Kind::ChatCompletions, base_url, openai_key)));
    }
    if openai_key.is_some() {
        return Ok(Some(provider(Kind::OpenAiResponses, OPENAI_URL.to_owned(), openai_key)));
    }
    let anthropic_key = key("ANTHROPIC_API_KEY");
    Ok(anthropic_key
        .map(|key| provider(Kind::AnthropicMessages, ANTHROPIC_URL.to_owned(), Some(key))))
}

/// Returns `OPENAI_BASE_URL` for a model of that API.
fn from_environment(kind: Kind, environment: &Environment) -> Result<Option<String>> {
    Ok(openai_base_url(environment)?.filter(|_| kind.speaks_openai()))
}

fn openai_base_url(environment: &Environment) -> Result<Option<String>> {
    match environment.get("OPENAI_BASE_URL") {
        Some(url) if is_http_url(url) => Ok(Some(url.to_owned())),
        Some(url) => {
            Err(Problem::usage(format!("OPENAI_BASE_URL: {}", not_a_url(url, EXAMPLE_URL))))
        }
        None => Ok(None),
    }
}

/// Returns the speed of the demo, with `usual` as default.
pub(super) fn demo(usual: Demo, environment: &Environment, mistakes: &mut Vec<String>) -> Demo {
    let mut millis = |name: &str, usual: Duration| {
        let Some(text) = environment.get(name) else { return usual };
        let Ok(millis) = text.parse() else {
            mistakes.push(format!("{name}: `{text}` is not a number of milliseconds"));
            return usual;
        };
        Duration::from_millis(millis)
    };
    Demo {
        pace: millis("TURNWIRE_DEMO_PACE_MS", usual.pace),
        tool_time: millis("TURNWIRE_DEMO_TOOL_MS", usual.tool_time),
    }
}

fn no_model(command: ForCommand) -> Problem {
    let (demo, command) = match command {
        ForCommand::Run => (
            "turnwire run --model scripted \"multiply 5 and 4\"",
            "turnwire run --model qwen3:8b \"…\"",
        ),
        ForCommand::Serve => ("turnwire serve --demo", "turnwire serve --model qwen3:8b"),
    };
    Problem::usage("no model is configured")
        .hint(format!("to try it without one: {demo}"))
        .hint(format!(
            "to name a server: OPENAI_BASE_URL={EXAMPLE_URL} {command}, or set OPENAI_API_KEY or \
             ANTHROPIC_API_KEY"
        ))
        .hint(format!(
            "to keep it, write into turnwire.toml:\n\n    [models.default]\n    kind = \
             \"chat_completions\"\n    base_url = \"{EXAMPLE_URL}\"\n    model = \"qwen3:8b\"\n"
        ))
}

fn no_model_name() -> Problem {
    Problem::usage("there is a key, but no model is named")
        .hint("name one with --model NAME or TURNWIRE_MODEL=NAME")
}

fn which_model(choice: Option<&str>, models: &BTreeMap<String, NamedModel>) -> Problem {
    let names: Vec<&str> = models.keys().map(String::as_str).collect();
    match choice {
        Some(choice) => Problem::usage(format!("there is no model `{choice}` in the settings"))
            .hint(did_you_mean(choice, &names))
            .hint("a name for the server to know needs a [models.default] in the settings"),
        None => Problem::usage("the settings have several models, and none is the default")
            .hint(format!("choose one with --model: {}", one_of(&names)))
            .hint("or call one of them [models.default]"),
    }
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
