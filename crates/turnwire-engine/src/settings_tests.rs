use std::collections::BTreeSet;

use async_trait::async_trait;
use turnwire_contract::{Capabilities, ModelError, ModelStream, Prompt, Scope, TenantId};

use super::*;
use crate::access::Access;

/// A model that its provider calls by this name.
struct Named(&'static str);

#[async_trait]
impl Model for Named {
    fn upstream_model(&self, _name: &str) -> String {
        self.0.to_owned()
    }

    async fn stream(&self, _prompt: Prompt) -> Result<ModelStream, ModelError> {
        Ok(Box::pin(futures::stream::empty()))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

fn named(upstream: &'static str) -> Arc<dyn Model> {
    Arc::new(Named(upstream))
}

fn with(models: &[(&str, &Arc<dyn Model>)]) -> EngineSettings {
    let models = models.iter().map(|(name, model)| ((*name).to_owned(), Arc::clone(model)));
    EngineSettings { models: models.collect(), ..EngineSettings::default() }
}

/// The next turn of a run asks what the settings have now, and a run whose model was removed or
/// became another one keeps what it began with.
#[test]
fn a_run_follows_its_model_and_never_gets_another_one() {
    let (first, second, other) = (named("large"), named("large"), named("small"));
    let settings = CurrentSettings::new(with(&[("chat", &first)]));
    let model = RunModel::new(Arc::clone(&first), settings.clone());
    let is = |expected: &Arc<dyn Model>| Arc::ptr_eq(&model.for_turn("chat"), expected);
    assert!(is(&first));
    settings.replace(with(&[("chat", &second)]));
    assert!(is(&second), "the same model of its provider, perhaps with a new key");
    settings.replace(with(&[("chat", &other)]));
    assert!(is(&first), "another model of its provider");
    settings.replace(with(&[("more", &second)]));
    assert!(is(&first), "its name is gone");
    settings.replace(with(&[("chat", &second)]));
    assert!(is(&second), "its name is back");
}

/// A model that somebody may not use is not reached by the name that its provider has for it, where
/// other names are passed on.
#[test]
fn the_name_of_a_provider_is_no_way_around_a_scope() {
    let scope = "use:large".parse().unwrap();
    let only = Access { tenants: None, scopes: Some([scope].into()) };
    let access = AccessRules { models: [("big".to_owned(), only)].into(), ..Default::default() };
    let settings = EngineSettings {
        any_model: Some(named("any")),
        access: Arc::new(access),
        ..with(&[("big", &named("gpt-large"))])
    };
    let (tenant, none, held) = (TenantId::default(), BTreeSet::new(), [scope].into());
    let may = |scopes: &BTreeSet<Scope>, name: &str| {
        settings.may_use_model(Principal { tenant: &tenant, scopes }, name)
    };
    assert!(!may(&none, "big") && !may(&none, "gpt-large"));
    assert!(may(&none, "gpt-small"));
    assert!(may(&held, "big") && may(&held, "gpt-large"));
}
