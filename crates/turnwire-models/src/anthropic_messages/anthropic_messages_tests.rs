use futures::StreamExt;
use serde_json::json;
use turnwire_contract::{Finish, Model, ModelError, ModelPart};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{body_partial_json, header, method, path},
};

use super::{AnthropicMessages, AnthropicMessagesOptions};
use crate::sample_prompt::{plain_prompt, sample_prompt};

fn adapter(server: &MockServer) -> AnthropicMessages {
    let options = AnthropicMessagesOptions {
        base_url: server.uri(),
        api_key: Some("sk-ant-canary".into()),
        ..AnthropicMessagesOptions::default()
    };
    AnthropicMessages::new(options).unwrap()
}

#[tokio::test]
async fn the_request_is_sent_and_the_answer_translated() {
    let server = MockServer::start().await;
    let answer = include_str!("../../fixtures/anthropic_messages/text.sse");
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", "sk-ant-canary"))
        .and(header("anthropic-version", "2023-06-01"))
        .and(body_partial_json(json!({ "model": "prompt-model", "stream": true })))
        .respond_with(ResponseTemplate::new(200).set_body_raw(answer, "text/event-stream"))
        .expect(1)
        .mount(&server)
        .await;
    let stream = adapter(&server).stream(sample_prompt("")).await.unwrap();
    let parts: Vec<_> = stream.collect().await;
    assert_eq!(parts.last(), Some(&Ok(ModelPart::Finished(Finish::Answered))));
}

#[tokio::test]
async fn an_overloaded_server_is_unavailable() {
    let server = MockServer::start().await;
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let busy = ResponseTemplate::new(529).set_body_json(body);
    Mock::given(method("POST")).respond_with(busy).mount(&server).await;
    let Err(error) = adapter(&server).stream(plain_prompt()).await else {
        panic!("529 is no answer")
    };
    let message = "the provider is overloaded (HTTP 529)".to_owned();
    assert_eq!(error, ModelError::Unavailable { message, retry_after: None });
}
