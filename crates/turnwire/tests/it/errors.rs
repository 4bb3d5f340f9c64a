//! What a program is told when something is wrong, in words that say how to go on.

use serde_json::json;
use turnwire::{Agent, AgentBuilder, Error, JournalError, ToolboxError};
use turnwire_contract::ModelError;
use turnwire_models::Turn;

use crate::helpers::{Notes, returns, scripted};

fn mistake(builder: AgentBuilder) -> Error {
    match builder.build() {
        Ok(agent) => panic!("{agent:?} should not exist"),
        Err(error) => error,
    }
}

async fn failed(turn: Turn) -> (String, String, Vec<String>) {
    let agent = scripted([turn.clone(), turn.clone(), turn]).build().expect("it can be made");
    let tokens = Notes::<String>::new();
    let book = tokens.clone();
    let error = match agent.stream_chat("Go.").on_token(move |token| book.write(token)).await {
        Ok(reply) => panic!("{reply:?} came instead"),
        Err(error) => error,
    };
    let words = error.to_string();
    match error {
        Error::Failed { run_id, failure } => {
            let words = words.replace(run_id.as_str(), "run_1");
            (failure.code, words, tokens.take())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_needs_a_model() {
    let error = mistake(Agent::builder().tool(returns("look", "3 notes")));
    assert!(matches!(error, Error::NoModel));
    assert_eq!(error.to_string(), "the agent has no model; give it one with `.model(…)`");
}

#[test]
fn two_tools_cannot_have_one_name() {
    let error = mistake(scripted([]).tool(returns("look", "1")).tool(returns("look", "2")));
    assert_eq!(error.to_string(), "there are two tools named `look`; rename one of them");
    assert!(matches!(error, Error::Tool(ToolboxError::Duplicate(name)) if name == "look"));
}

#[test]
fn a_tool_needs_a_name() {
    let error = mistake(scripted([]).tool(returns("", "1")));
    assert_eq!(error.to_string(), "a tool needs a name");
}

#[test]
fn a_tool_needs_a_schema_that_is_one() {
    let odd = returns("odd", "1").with(|spec| spec.parameters = json!({ "type": "objekt" }));
    let words = mistake(scripted([]).tool(odd)).to_string();
    let beginning = "the parameters of tool `odd` are not a valid JSON Schema: ";
    assert!(words.starts_with(beginning), "{words}");
    assert!(words.contains("objekt"), "{words}");
}

/// The first mistake is the one that is told.
#[test]
fn a_good_tool_after_a_bad_one_does_not_hide_it() {
    let builder = scripted([]).tool(returns("", "1")).tool(returns("look", "2"));
    assert_eq!(mistake(builder).to_string(), "a tool needs a name");
}

#[tokio::test]
async fn a_failed_run_is_an_error_with_a_code() {
    let refused = ModelError::Rejected { message: "the key is not valid".to_owned() };
    let (code, words, tokens) = failed(Turn::fails(refused)).await;
    assert_eq!(code, "model_rejected");
    let expected = "run `run_1` failed: the model's provider rejected the request; see the log";
    assert_eq!((words.as_str(), tokens.len()), (expected, 0));
}

#[tokio::test]
async fn what_was_said_before_a_failure_was_told() {
    let (code, words, tokens) = failed(Turn::new().text("Well, ").breaks("cable")).await;
    assert_eq!(code, "model_broke_off");
    assert_eq!(words, "run `run_1` failed: the model's answer ended unexpectedly");
    assert_eq!(tokens, ["Well, "]);
}

/// A run whose journal is lost has no end to wait for: the reply says so instead of waiting.
#[tokio::test]
async fn a_lost_journal_is_an_error_and_not_a_wait() {
    struct Failing(turnwire_engine::MemoryJournal);
    #[async_trait::async_trait]
    impl turnwire::Journal for Failing {
        async fn append(
            &self,
            tenant: &turnwire_contract::TenantId,
            batch: Vec<std::sync::Arc<turnwire::RecordedEvent>>,
        ) -> Result<(), JournalError> {
            if batch.first().is_some_and(|first| first.seq > turnwire::Seq(3)) {
                return Err(JournalError::Unavailable("gone".to_owned()));
            }
            self.0.append(tenant, batch).await
        }
        async fn read(
            &self,
            tenant: &turnwire_contract::TenantId,
            run_id: &turnwire::RunId,
            after: turnwire::Seq,
        ) -> Result<turnwire::EventStream, JournalError> {
            self.0.read(tenant, run_id, after).await
        }
        async fn head(
            &self,
            tenant: &turnwire_contract::TenantId,
            run_id: &turnwire::RunId,
        ) -> Result<turnwire::JournalHead, JournalError> {
            self.0.head(tenant, run_id).await
        }
        async fn delete(
            &self,
            tenant: &turnwire_contract::TenantId,
            run_id: &turnwire::RunId,
        ) -> Result<(), JournalError> {
            self.0.delete(tenant, run_id).await
        }
    }
    let log = Failing(turnwire_engine::MemoryJournal::default());
    let agent = Agent::builder()
        .model(turnwire_models::Scripted::new([Turn::new().text("a")]))
        .event_log(std::sync::Arc::new(log))
        .build()
        .unwrap();
    let lost = agent.stream_chat("Go.").on_token(|_| {}).await.unwrap_err();
    let Error::Failed { failure, .. } = lost else { panic!("{lost:?}") };
    assert_eq!(failure.code, "journal_lost");
}
