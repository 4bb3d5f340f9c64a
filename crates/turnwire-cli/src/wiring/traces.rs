//! Export of spans, if there is a receiver.

use std::sync::Arc;

use turnwire_contract::SpanCounts;
use turnwire_engine::Runs;
use turnwire_otel::{Providers, SpanExport};

use crate::{
    exit::Problem,
    settings::{Kind, ModelSettings, OtherNames, ServeSettings, ServedModels},
};

/// Observes the runs with what exports their spans, if there is a receiver.
pub(super) fn traces(
    settings: &ServeSettings,
    runs: &Runs,
    counts: &Arc<SpanCounts>,
) -> Result<Option<SpanExport>, Problem> {
    let Some(options) = &settings.traces else { return Ok(None) };
    let providers = providers(&settings.models);
    let (export, observer) = SpanExport::new(options, providers, Arc::clone(counts))
        .map_err(|error| Problem::failure(error.to_string()))?;
    runs.observe_with(Arc::new(observer));
    Ok(Some(export))
}

/// Names the providers of the models, as the semantic conventions do: by the API that they speak.
fn providers(models: &ServedModels) -> Providers {
    let name = |settings: &ModelSettings| match settings {
        ModelSettings::Scripted(_) => "scripted",
        ModelSettings::Provider(provider) => provider_name(provider.kind),
    };
    let named = models.named.iter().map(|(model, settings)| (model.clone(), name(settings).into()));
    let others = match &models.others {
        OtherNames::PassedOn(provider) => provider_name(provider.kind),
        OtherNames::AnsweredBy(model) => models.named.get(model).map_or("", name),
        OtherNames::Refused => "",
    };
    Providers { named: named.collect(), others: others.into() }
}

fn provider_name(kind: Kind) -> &'static str {
    match kind {
        Kind::ChatCompletions | Kind::OpenAiResponses => "openai",
        Kind::AnthropicMessages => "anthropic",
    }
}
