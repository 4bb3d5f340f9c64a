//! Builds the models of the settings. After a reload, what did not change is used again: a model as a
//! whole, or the upstreams of one that changed, with their connections and their health.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use turnwire::Model;
use turnwire_contract::CustomTools;
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    CustomToolsAsFunctions, DEFAULT_CONNECT_TIMEOUT, JsonSchemaCalls, OpenAiResponses,
    OpenAiResponsesOptions, Priced, Upstream, Upstreams, UpstreamsOptions, WithoutParameters,
    vendors::Api,
};

use crate::{
    demo,
    exit::{Problem, Result},
    settings::{
        Kind, ModelSettings, OtherNames, Provider, ServedModels, ToolCalling, UpstreamSettings,
    },
};

/// The models of a server, with what they were built from.
#[derive(Clone, Default)]
pub(super) struct BuiltModels {
    named: BTreeMap<String, BuiltModel>,
    /// The model for all other names, if they are passed on.
    others: Option<BuiltModel>,
}

#[derive(Clone)]
struct BuiltModel {
    settings: ModelSettings,
    model: Arc<dyn Model>,
    /// None of the demo.
    pool: Option<BuiltPool>,
}

#[derive(Clone)]
struct BuiltPool {
    kind: Kind,
    connect_timeout: Duration,
    /// What each upstream was built from.
    upstreams: Vec<(UpstreamSettings, Arc<dyn Model>)>,
    pool: Upstreams,
}

impl BuiltModels {
    /// Builds the models of `settings`, with what `self` has in common with them.
    pub(super) fn next(&self, settings: &ServedModels) -> Result<Self> {
        let named = settings.named.iter().map(|(name, settings)| {
            Ok((name.clone(), BuiltModel::new(settings, self.named.get(name))?))
        });
        let named = named.collect::<Result<_>>()?;
        let others = match &settings.others {
            OtherNames::PassedOn(to) => {
                let settings = ModelSettings::Provider(to.clone());
                Some(BuiltModel::new(&settings, self.others.as_ref())?)
            }
            OtherNames::Refused | OtherNames::AnsweredBy(_) => None,
        };
        Ok(Self { named, others })
    }

    /// The models by name.
    pub(super) fn named(&self) -> BTreeMap<String, Arc<dyn Model>> {
        let named = self.named.iter();
        named.map(|(name, built)| (name.clone(), Arc::clone(&built.model))).collect()
    }

    /// The model for all other names, if they are passed on.
    pub(super) fn others(&self) -> Option<Arc<dyn Model>> {
        self.others.as_ref().map(|built| Arc::clone(&built.model))
    }
}

impl BuiltModel {
    fn new(settings: &ModelSettings, before: Option<&Self>) -> Result<Self> {
        if let Some(same) = before.filter(|before| before.settings == *settings) {
            return Ok(same.clone());
        }
        let provider = match settings {
            ModelSettings::Provider(provider) => provider,
            ModelSettings::Scripted(demo) => {
                let model = Arc::new(demo::model(*demo));
                return Ok(Self { settings: settings.clone(), model, pool: None });
            }
        };
        let pool = BuiltPool::new(provider, before.and_then(|before| before.pool.as_ref()))?;
        let model = wrapped(Arc::new(pool.pool.clone()), provider);
        Ok(Self { settings: settings.clone(), model, pool: Some(pool) })
    }
}

impl BuiltPool {
    fn new(provider: &Provider, before: Option<&Self>) -> Result<Self> {
        let (kind, timeouts) = (provider.kind, &provider.timeouts);
        let connect_timeout = timeouts.connect.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        let usual = UpstreamsOptions::default();
        let options = UpstreamsOptions {
            first_content_timeout: timeouts.first_content,
            max_wait: timeouts.max_wait.unwrap_or(usual.max_wait),
        };
        let alike = before
            .filter(|before| (before.kind, before.connect_timeout) == (kind, connect_timeout));
        let mut upstreams = Vec::new();
        for settings in &provider.upstreams {
            let known = alike.and_then(|before| before.model_of(settings));
            let model = match known {
                Some(known) => known,
                None => model_at(kind, settings.clone(), connect_timeout)?,
            };
            upstreams.push((settings.clone(), model));
        }
        let pool = upstreams.iter().map(|(settings, model)| Upstream {
            name: settings.name.clone(),
            model: Arc::clone(model),
            weight: settings.weight,
            max_concurrency: settings.max_concurrency,
        });
        let pool = Upstreams::new(pool.collect(), options);
        let pool = match before {
            Some(before) => pool.succeeding(&before.pool),
            None => pool,
        };
        Ok(Self { kind, connect_timeout, upstreams, pool })
    }

    /// The model of an upstream with the same address, key and name of the model.
    fn model_of(&self, wanted: &UpstreamSettings) -> Option<Arc<dyn Model>> {
        let is_it = |known: &UpstreamSettings| {
            known.base_url == wanted.base_url
                && known.api_key == wanted.api_key
                && known.model == wanted.model
        };
        let (_, model) = self.upstreams.iter().find(|(known, _)| is_it(known))?;
        Some(Arc::clone(model))
    }
}

/// Builds a single model.
pub(super) fn model(settings: &ModelSettings) -> Result<Arc<dyn Model>> {
    BuiltModel::new(settings, None).map(|built| built.model)
}

/// Adds what the provider needs around its upstreams.
fn wrapped(model: Arc<dyn Model>, provider: &Provider) -> Arc<dyn Model> {
    let model: Arc<dyn Model> = match provider.price {
        Some(price) => Arc::new(Priced::new(model, price)),
        None => model,
    };
    let model: Arc<dyn Model> = match provider.unsupported.as_slice() {
        [] => model,
        _ => Arc::new(WithoutParameters::new(model, provider.unsupported.clone())),
    };
    let (model, custom_tools): (Arc<dyn Model>, _) =
        match (provider.tool_calling, provider.custom_tools) {
            (ToolCalling::Native, custom_tools) => (model, custom_tools),
            // Tools that are described in text are always functions.
            (ToolCalling::JsonSchema, CustomTools::Refused) => {
                (Arc::new(JsonSchemaCalls::new(model)), CustomTools::Refused)
            }
            (ToolCalling::JsonSchema, CustomTools::Native | CustomTools::AsFunctions) => {
                (Arc::new(JsonSchemaCalls::new(model)), CustomTools::AsFunctions)
            }
        };
    match custom_tools {
        CustomTools::Native => model,
        CustomTools::AsFunctions => Arc::new(CustomToolsAsFunctions::new(model)),
        CustomTools::Refused => Arc::new(CustomToolsAsFunctions::refusing(model)),
    }
}

/// Builds the model of one upstream.
fn model_at(
    kind: Kind,
    settings: UpstreamSettings,
    connect_timeout: Duration,
) -> Result<Arc<dyn Model>> {
    let UpstreamSettings { base_url, api_key, model, .. } = settings;
    let vendor = kind.vendor();
    let model: Result<Arc<dyn Model>, _> = match kind.api() {
        Api::ChatCompletions => {
            let usual = ChatCompletionsOptions::new(base_url);
            let options =
                ChatCompletionsOptions { api_key, model, connect_timeout, vendor, ..usual };
            ChatCompletions::new(options).map(|model| Arc::new(model) as _)
        }
        Api::OpenAiResponses => {
            let usual = OpenAiResponsesOptions { base_url, ..OpenAiResponsesOptions::default() };
            let options =
                OpenAiResponsesOptions { api_key, model, connect_timeout, vendor, ..usual };
            OpenAiResponses::new(options).map(|model| Arc::new(model) as _)
        }
        Api::AnthropicMessages => {
            let options = AnthropicMessagesOptions { base_url, api_key, model, connect_timeout };
            AnthropicMessages::new(options).map(|model| Arc::new(model) as _)
        }
    };
    model.map_err(|error| {
        Problem::usage(format!("the model cannot be used: {error}"))
            .hint("check its address and its key in the settings")
    })
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
