//! What is done with every vendor.

use serde_json::json;
use turnwire_contract::{CallId, Content, Item, Role, RunOutcome, ToolChoice};
use turnwire_testkit::{
    Behaviour, FakeTool,
    vendors::{
        Dialect, Vendor,
        cache::{Tokens, cost, least_cost},
        plan,
        rules::Rules,
    },
};

use super::world::World;

macro_rules! scenarios {
    ($($name:ident)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Scenario { $($name),* }

        impl Scenario {
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

scenarios! {
    Text Tools Parallel Thinking ThinkingBetween Images Structured JsonObject Parameters ForeignTools
    NamedTool RequiredTool LateSystem Steering Cancel BlankText TextFile OddEnd
    RateLimit Money SpendLimit Overloaded BadKey ContextTooLong Filter MalformedCall CutStream
    ErrorInStream
    Usage TwentyTurns ShortenedResults ChangeAccount ChangeModel ChangeVendor
}

impl Scenario {
    /// The class of the error that the scenario is about, and whether a request with it is to be
    /// sent again.
    fn error(self) -> Option<(&'static str, bool)> {
        Some(match self {
            Self::RateLimit => ("rate_limit", true),
            Self::Money => ("money", false),
            Self::SpendLimit => ("spend_limit", false),
            Self::Overloaded => ("overloaded", true),
            Self::BadKey => ("key", false),
            Self::ContextTooLong => ("context", false),
            Self::Filter => ("filter", false),
            Self::MalformedCall => ("malformed_call", true),
            _ => return None,
        })
    }

    /// Whether the vendor has what the scenario needs.
    pub(super) fn is_for(self, vendor: Vendor) -> bool {
        match self {
            // Its server knows no forced choice.
            Self::NamedTool | Self::RequiredTool => vendor != Vendor::Ollama,
            Self::JsonObject => Rules::of(vendor).dialect != Dialect::Messages,
            // Its models see nothing.
            Self::OddEnd => !Rules::of(vendor).odd_end.is_empty(),
            Self::Images => vendor != Vendor::DeepSeek,
            _ => self.error().is_none_or(|(class, _)| vendor.has_error(class)),
        }
    }
}

/// Plays the scenario, and notes what does not go as it should.
pub(super) async fn play(world: &mut World, scenario: Scenario) {
    if let Some((class, again)) = scenario.error() {
        return error(world, class, again).await;
    }
    world.request.generation.reasoning_effort = effort(scenario);
    match scenario {
        Scenario::Text => {
            world.request.tools.clear();
            for _ in 0..3 {
                world.ask(&plan(&[&["say"]])).await;
            }
        }
        Scenario::Tools => {
            world.ask(&plan(&[&["work"], &["say", "work"], &["say"]])).await;
            world.expect(world.was_called("work"), "not called");
            world.ask(&plan(&[&["work"], &["say"]])).await;
        }
        Scenario::Parallel => {
            world.ask(&plan(&[&["work", "work", "work"], &["say"]])).await;
            world.ask(&plan(&[&["say", "work", "work"], &["say"]])).await;
        }
        Scenario::Thinking => {
            for _ in 0..3 {
                world
                    .ask(&plan(&[&["think", "work"], &["think", "work"], &["think", "say"]]))
                    .await;
            }
        }
        Scenario::ThinkingBetween => {
            for _ in 0..3 {
                let answers = plan(&[&["think", "work", "think", "work"], &["think", "say"]]);
                world.ask(&answers).await;
            }
        }
        Scenario::Images => world.ask(&plan(&[&["draw", "work"], &["say"]])).await,
        Scenario::Structured => structured(world).await,
        Scenario::JsonObject => {
            world.request.generation.json_object = true;
            world.ask(&plan(&[&["say:{\"n\":1}"]])).await;
        }
        Scenario::Parameters => parameters(world).await,
        Scenario::ForeignTools => foreign_tools(world).await,
        Scenario::NamedTool => {
            world.request.tool_choice = ToolChoice::Named { name: "work".to_owned() };
            forced(world).await;
        }
        Scenario::RequiredTool => {
            world.request.tool_choice = ToolChoice::Required;
            forced(world).await;
        }
        Scenario::LateSystem => late_system(world).await,
        Scenario::Steering => steering(world).await,
        Scenario::Cancel => cancel(world).await,
        Scenario::BlankText => world.ask(&plan(&[&["say: \n", "work"], &["say"]])).await,
        Scenario::TextFile => text_file(world).await,
        Scenario::OddEnd => odd_end(world).await,
        Scenario::CutStream => again(world, "cut").await,
        Scenario::ErrorInStream => again(world, "break").await,
        Scenario::Usage => usage(world).await,
        Scenario::TwentyTurns => many_turns(world, 20).await,
        Scenario::ShortenedResults => {
            // As the gateway asks for it, unless it is told otherwise.
            world.request.limits.whole_results_for = Some(3);
            many_turns(world, 10).await;
        }
        Scenario::ChangeAccount => {
            let (vendor, answers) = (world.vendor, plan(&[&["think", "work"], &["think", "say"]]));
            for key in ["key-1", "key-2", "key-1"] {
                world.change_to(vendor, key).await;
                world.ask(&answers).await;
            }
        }
        Scenario::ChangeModel => {
            let answers = plan(&[&["think", "work"], &["think", "say"]]);
            let [first, second] = Rules::of(world.vendor).models;
            for model in [first, second, first] {
                model.clone_into(&mut world.request.model);
                world.ask(&answers).await;
            }
        }
        Scenario::ChangeVendor => {
            let answers = plan(&[&["think", "work"], &["think", "say"]]);
            let is_openai = Rules::of(world.vendor).dialect == Dialect::Responses;
            let other = if is_openai { Vendor::Anthropic } else { Vendor::OpenAi };
            for vendor in [other, world.vendor, other, world.vendor] {
                world.change_to(vendor, "key-1").await;
                world.ask(&answers).await;
            }
        }
        Scenario::RateLimit
        | Scenario::Money
        | Scenario::SpendLimit
        | Scenario::Overloaded
        | Scenario::BadKey
        | Scenario::ContextTooLong
        | Scenario::Filter
        | Scenario::MalformedCall => {}
    }
}

/// The effort in scenarios where the model thinks.
fn effort(scenario: Scenario) -> Option<String> {
    let thinks = matches!(
        scenario,
        Scenario::Thinking
            | Scenario::ThinkingBetween
            | Scenario::LateSystem
            | Scenario::Usage
            | Scenario::ChangeAccount
            | Scenario::ChangeModel
            | Scenario::ChangeVendor
    );
    thinks.then(|| "medium".to_owned())
}

async fn error(world: &mut World, class: &str, is_retried: bool) {
    world.request.tools.clear();
    if is_retried {
        return again(world, &format!("error:{class}")).await;
    }
    let outcome = world.say(vec![Item::user(plan(&[&[&format!("error:{class}"), "say"]]))]).await;
    world.expect(outcome != RunOutcome::Completed, "completed");
    world.expect(world.double().requests().len() == 1, "asked again");
    let is_this_error = world.broken().next().is_none();
    world.expect(is_this_error || !world.refuses, "refused for something else");
}

/// What fails at first succeeds in the second attempt.
async fn again(world: &mut World, failure: &str) {
    world.ask(&plan(&[&[failure, "say"]])).await;
    world.expect(world.double().requests().len() == 2, "not asked again");
}

async fn structured(world: &mut World) {
    world.request.generation.answer_schema = Some(json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "minimum": 0 } },
        "required": ["n"],
        "additionalProperties": false,
    }));
    world.ask(&plan(&[&["say:{\"n\":1}"]])).await;
    world.ask(&plan(&[&["work"], &["say:{\"n\":2}"]])).await;
}

async fn parameters(world: &mut World) {
    let generation = &mut world.request.generation;
    generation.temperature = Some(0.5);
    generation.top_p = Some(0.9);
    generation.max_output_tokens = Some(1000);
    generation.seed = Some(7);
    generation.user = Some("somebody".to_owned());
    generation.stop = vec!["END".to_owned()];
    generation.frequency_penalty = Some(0.5);
    world.request.tools.clear();
    world.ask(&plan(&[&["say"]])).await;
}

/// Tools as servers of others have them: a name that begins with a digit, a union at the top.
async fn foreign_tools(world: &mut World) {
    let tool = FakeTool::new("3d_view", Behaviour::Draws).with(|spec| {
        spec.parameters = json!({
            "type": "object",
            "properties": { "x": { "type": "number" }, "y": { "type": "number" } },
            "anyOf": [{ "required": ["x"] }, { "required": ["y"] }],
        });
    });
    let spec = turnwire_contract::Tool::spec(&tool).clone();
    world.request.tools.push(std::sync::Arc::new(spec));
    world.ask(&plan(&[&["work"], &["say"]])).await;
}

async fn forced(world: &mut World) {
    world.ask(&plan(&[&["work"], &["say"]])).await;
    world.expect(world.was_called("work"), "not called");
}

async fn late_system(world: &mut World) {
    world.ask(&plan(&[&["think", "work"], &["think", "say"]])).await;
    let formal = Content::text("From now on, be formal.");
    let system = Item::Message { role: Role::System, content: vec![formal] };
    let answers = Item::user(plan(&[&["think", "work"], &["think", "say"]]));
    let outcome = world.say(vec![system, answers]).await;
    world.expect(outcome == RunOutcome::Completed, "not completed");
}

/// The user speaks after the result of a call, without an answer between.
async fn steering(world: &mut World) {
    let result = Item::CallResult {
        call_id: CallId::new("call00001"),
        output: "seen".to_owned(),
        images: Vec::new(),
        failed: false,
        custom: false,
    };
    let outcome = world
        .say(vec![
            Item::user("Look."),
            Item::call("call00001", "work", r#"{"n":1}"#),
            result,
            Item::user(plan(&[&["work"], &["say"]])),
        ])
        .await;
    world.expect(outcome == RunOutcome::Completed, "not completed");
}

async fn cancel(world: &mut World) {
    let outcome = world.say_and_watch(vec![Item::user(plan(&[&["say", "hang"]]))], true).await;
    world.expect(outcome == RunOutcome::Cancelled, "not cancelled");
    world.ask(&plan(&[&["work"], &["say"]])).await;
}

async fn text_file(world: &mut World) {
    let url = "data:text/plain;base64,SGVsbG8=".to_owned();
    let file = Content::File { name: "hello.txt".to_owned(), url };
    let content = vec![Content::text(plan(&[&["say"]])), file];
    let outcome = world.say(vec![Item::Message { role: Role::User, content }]).await;
    world.expect(outcome == RunOutcome::Completed, "not completed");
}

/// An answer that the vendor broke off is not taken as complete.
async fn odd_end(world: &mut World) {
    world.request.tools.clear();
    let outcome = world.say(vec![Item::user(plan(&[&["say", "odd"]]))]).await;
    let is_again = world.double().requests().len() == 2;
    world.expect(outcome != RunOutcome::Completed || is_again, "taken as answered");
    let is_this = world.broken().next().is_none();
    world.expect(is_this || !world.refuses, "refused for something else");
}

async fn usage(world: &mut World) {
    for _ in 0..2 {
        world.ask(&plan(&[&["think", "say"]])).await;
    }
    let given = world.double().tokens();
    let sum = |of: fn(&Tokens) -> u64| given.iter().map(of).sum::<u64>();
    let used = world.used;
    world.expect(used.input_tokens == sum(|tokens| tokens.input), "input miscounted");
    world.expect(used.cached_tokens == sum(|tokens| tokens.cached), "cached miscounted");
    world.expect(used.output_tokens == sum(|tokens| tokens.output), "output miscounted");
    let tells_reasoning = !matches!(
        world.vendor,
        Vendor::Mistral
            | Vendor::Groq
            | Vendor::Ollama
            | Vendor::Vllm
            | Vendor::LlamaCpp
            | Vendor::LmStudio
    );
    let counted = used.reasoning_tokens == sum(|tokens| tokens.reasoning);
    world.expect(counted || !tells_reasoning, "reasoning miscounted");
}

/// A long conversation costs little more than what each turn adds.
async fn many_turns(world: &mut World, n_turns: usize) {
    for _ in 0..n_turns {
        world.ask(&plan(&[&["think", "work"], &["think", "say"]])).await;
    }
    let tokens = world.double().tokens();
    let (paid, least) = (cost(&tokens), least_cost(&tokens));
    eprintln!("{:?}: {} answers cost {paid:.0}, at least {least:.0}", world.vendor, tokens.len());
    world.expect(paid < 1.2 * least, "costs more than it adds");
}
