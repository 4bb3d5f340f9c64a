use futures::StreamExt;
use serde_json::json;
use turnwire_contract::{Finish, Model, ModelError, ModelPart};
use turnwire_testkit::{Reply, StubServer};

use super::{AnthropicMessages, AnthropicMessagesOptions};
use crate::sample_prompt::{plain_prompt, sample_prompt};

fn adapter(server: &StubServer) -> AnthropicMessages {
    let options = AnthropicMessagesOptions {
        base_url: server.uri(),
        api_key: Some("sk-ant-canary".into()),
        ..AnthropicMessagesOptions::default()
    };
    AnthropicMessages::new(options).unwrap()
}

#[tokio::test]
async fn the_request_is_sent_and_the_answer_translated() {
    let answer = include_str!("../../fixtures/anthropic_messages/text.sse");
    let server = StubServer::answering(Reply::new(200).body(answer, "text/event-stream")).await;
    let stream = adapter(&server).stream(sample_prompt("")).await.unwrap();
    let parts: Vec<_> = stream.collect().await;
    assert_eq!(parts.last(), Some(&Ok(ModelPart::Finished(Finish::Answered))));
    let asked = server.only_request();
    assert!(asked.is("POST", "/v1/messages"), "{asked:?}");
    assert_eq!(asked.header("x-api-key"), Some("sk-ant-canary"));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked.json()["model"], "prompt-model");
    assert_eq!(asked.json()["stream"], true);
}

#[tokio::test]
async fn an_overloaded_server_is_unavailable() {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let server = StubServer::answering(Reply::new(529).json(&body)).await;
    let Err(error) = adapter(&server).stream(plain_prompt()).await else {
        panic!("529 is no answer")
    };
    let message = "the provider is overloaded (HTTP 529)".to_owned();
    assert_eq!(error, ModelError::Unavailable { message, retry_after: None });
}
