//! Export of spans and metrics, if there is a receiver.

use std::sync::Arc;

use turnwire_contract::{MetricExportCounts, SpanCounts};
use turnwire_engine::Runs;
use turnwire_gateway::App;
use turnwire_otel::{
    ExportError, MeasuredProcess, MetricExport, Providers, SharedProviders, SpanExport,
};

use crate::{
    exit::{Problem, Result},
    settings::{Kind, ModelSettings, OtherNames, ServeSettings, ServedModels},
};

/// Observes the runs with what exports their spans, if there is a receiver.
pub(super) fn traces(
    settings: &ServeSettings,
    runs: &Runs,
    providers: &SharedProviders,
    counts: &Arc<SpanCounts>,
) -> Result<Option<SpanExport>> {
    let Some(options) = &settings.traces else { return Ok(None) };
    let export = SpanExport::new(options, providers.clone(), Arc::clone(counts));
    let (export, observer) = export.map_err(not_set_up)?;
    runs.observe_with(Arc::new(observer));
    Ok(Some(export))
}

/// Exports the metrics of the app, if there is a receiver. `instance` is the name of this process.
pub(super) fn metrics(
    settings: &ServeSettings,
    app: &App,
    instance: &str,
    providers: &SharedProviders,
    counts: &Arc<MetricExportCounts>,
) -> Result<Option<MetricExport>> {
    let Some(options) = settings.metrics.clone() else { return Ok(None) };
    let (measured, clock) = (app.clone(), app.runs().clone());
    let process = MeasuredProcess {
        instance: instance.to_owned(),
        metrics: Arc::new(move || measured.metrics_text()),
        now: Arc::new(move || clock.now()),
    };
    let export = MetricExport::new(options, process, providers.clone(), Arc::clone(counts));
    export.map(Some).map_err(not_set_up)
}

fn not_set_up(error: ExportError) -> Problem {
    Problem::failure(error.to_string())
}

/// Names the providers of the models, as the semantic conventions do: by the API that they speak.
pub(super) fn providers(models: &ServedModels) -> Providers {
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
        // The names of the semantic conventions, where they differ from ours.
        Kind::Vendor(vendor) => match vendor.name {
            "azure" => "azure.ai.openai",
            "gemini" => "gcp.gemini",
            "mistral" => "mistral_ai",
            "xai" => "x_ai",
            name => name,
        },
    }
}
