//! An engine, a double and the conversation of one cell.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::json;
use turnwire_contract::{
    Capabilities, Event, Item, Model, ModelError, ModelStream, Prompt, RunId, RunOutcome,
    RunRequest, Usage,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    OpenAiResponses, OpenAiResponsesOptions, Secret,
};
use turnwire_testkit::{
    Behaviour, FakeTool,
    vendors::{Dialect, Vendor, VendorDouble, rules::Rules},
};

/// The adapter for a vendor, as an operator would configure it.
pub(super) fn model_for(vendor: Vendor, url: &str, key: &str) -> Arc<dyn Model> {
    let api_key = Some(Secret::new(key));
    let dialect = Rules::of(vendor).dialect;
    let vendor = turnwire_models::Vendor::named(name_of(vendor));
    match dialect {
        Dialect::Chat => {
            let usual = ChatCompletionsOptions::new(url);
            let options = ChatCompletionsOptions { api_key, vendor, ..usual };
            Arc::new(ChatCompletions::new(options).unwrap())
        }
        Dialect::Messages => Arc::new(
            AnthropicMessages::new(AnthropicMessagesOptions {
                base_url: url.to_owned(),
                api_key,
                ..AnthropicMessagesOptions::default()
            })
            .unwrap(),
        ),
        Dialect::Responses => Arc::new(
            OpenAiResponses::new(OpenAiResponsesOptions {
                base_url: url.to_owned(),
                api_key,
                vendor,
                ..OpenAiResponsesOptions::default()
            })
            .unwrap(),
        ),
    }
}

/// The name of a vendor in the settings.
fn name_of(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiChat => "openai",
        Vendor::Azure => "azure",
        Vendor::Anthropic | Vendor::AnthropicPreserved => "anthropic",
        Vendor::Gemini => "gemini",
        Vendor::Mistral => "mistral",
        Vendor::DeepSeek => "deepseek",
        Vendor::Xai => "xai",
        Vendor::Groq => "groq",
        Vendor::OpenRouter => "openrouter",
        Vendor::Ollama => "ollama",
        Vendor::Vllm => "vllm",
        Vendor::LlamaCpp => "llama_cpp",
        Vendor::LmStudio => "lm_studio",
    }
}

/// A model that is another one from one run to the next.
struct Switch(Mutex<Arc<dyn Model>>);

impl Switch {
    fn now(&self) -> Arc<dyn Model> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn turn_to(&self, model: Arc<dyn Model>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = model;
    }
}

#[async_trait]
impl Model for Switch {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        self.now().stream(prompt).await
    }

    fn capabilities(&self) -> Capabilities {
        self.now().capabilities()
    }
}

/// One conversation with one vendor, and perhaps with others.
pub(super) struct World {
    pub(super) vendor: Vendor,
    pub(super) refuses: bool,
    pub(super) doubles: Vec<VendorDouble>,
    pub(super) runs: Runs,
    /// What every run of the conversation asks for.
    pub(super) request: RunRequest,
    /// What did not go as it should.
    pub(super) faults: BTreeSet<&'static str>,
    pub(super) used: Usage,
    switch: Arc<Switch>,
    latest: Option<RunId>,
}

impl World {
    pub(super) async fn new(vendor: Vendor, refuses: bool) -> Self {
        let double = double(vendor, refuses).await;
        let model = model_for(vendor, &double.url(), "key-1");
        let switch = Arc::new(Switch(Mutex::new(model)));
        let mut tools = Toolbox::default();
        let long = "A result that is long enough to be worth shortening. ".repeat(10);
        for tool in [
            FakeTool::new("work", Behaviour::Returns(long))
                .with(|spec| spec.parameters = numbered()),
            FakeTool::new("draw", Behaviour::Draws).with(|spec| spec.parameters = numbered()),
        ] {
            tools.add(Arc::new(tool)).unwrap();
        }
        let mut request = RunRequest::new(Rules::of(vendor).models[0], Vec::new());
        request.tools = tools.specs();
        request.instructions = Some("You are a careful assistant. ".repeat(145));
        let any_model = Some(Arc::clone(&switch) as Arc<dyn Model>);
        let runs = Runs::new(EngineParts { tools, any_model, ..EngineParts::default() });
        Self {
            vendor,
            refuses,
            doubles: vec![double],
            runs,
            request,
            faults: BTreeSet::new(),
            used: Usage::default(),
            switch,
            latest: None,
        }
    }

    /// From now on the model is that of `vendor`, with this key.
    pub(super) async fn change_to(&mut self, vendor: Vendor, key: &str) {
        if !self.doubles.iter().any(|double| double.vendor() == vendor) {
            self.doubles.push(double(vendor, self.refuses).await);
        }
        let double = self.doubles.iter().find(|double| double.vendor() == vendor).unwrap();
        self.switch.turn_to(model_for(vendor, &double.url(), key));
        Rules::of(vendor).models[0].clone_into(&mut self.request.model);
    }

    /// Runs the next turn of the user to its end.
    pub(super) async fn say(&mut self, input: Vec<Item>) -> RunOutcome {
        self.say_and_watch(input, false).await
    }

    /// The same, and cancels the run at its first text if asked to.
    pub(super) async fn say_and_watch(&mut self, input: Vec<Item>, cancels: bool) -> RunOutcome {
        let continues = self.latest.clone();
        let request = RunRequest { continues, input, ..self.request.clone() };
        let run = self.runs.start(request).await.unwrap();
        let mut events = run.events().await.unwrap();
        while let Some(recorded) = events.next().await {
            match &recorded.unwrap().event {
                Event::TextAdded { .. } if cancels => run.cancel(),
                Event::TurnFinished { usage, .. } => self.used += *usage,
                _ => {}
            }
        }
        self.latest = Some(run.id().clone());
        run.outcome().await
    }

    /// The same, where the run has to complete.
    pub(super) async fn ask(&mut self, plan: &str) {
        let outcome = self.say(vec![Item::user(plan)]).await;
        self.expect(outcome == RunOutcome::Completed, "not completed");
    }

    pub(super) fn expect(&mut self, is_so: bool, fault: &'static str) {
        if !is_so {
            self.faults.insert(fault);
        }
    }

    /// The rules that were broken.
    pub(super) fn broken(&self) -> impl Iterator<Item = &'static str> {
        self.doubles.iter().flat_map(VendorDouble::broken).map(|broken| broken.rule)
    }

    /// The double that the conversation began with.
    pub(super) fn double(&self) -> &VendorDouble {
        self.doubles.first().unwrap()
    }

    /// Whether a tool of this name was called.
    pub(super) fn was_called(&self, name: &str) -> bool {
        let asked = self.double().requests();
        let name = json!(name).to_string();
        asked.last().is_some_and(|request| {
            let fields = ["messages", "input"].iter().filter_map(|field| request.get(field));
            fields
                .into_iter()
                .any(|messages| messages.to_string().contains(&format!("\"name\":{name}")))
        })
    }
}

async fn double(vendor: Vendor, refuses: bool) -> VendorDouble {
    VendorDouble::with_rules(vendor, Rules::of(vendor), refuses).await.unwrap()
}

/// The schema of a tool that takes a number.
fn numbered() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
        "additionalProperties": false,
    })
}
