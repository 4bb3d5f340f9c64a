use futures::StreamExt;
use serde_json::json;
use turnwire_contract::{Finish, Model, ModelPart};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{body_partial_json, header, method, path},
};

use super::{OpenAiResponses, OpenAiResponsesOptions};
use crate::sample_prompt::sample_prompt;

#[tokio::test]
async fn the_request_is_sent_and_the_answer_translated() {
    let server = MockServer::start().await;
    let answer = include_str!("../../fixtures/openai_responses/calls.sse");
    Mock::given(method("POST"))
        .and(path("/v1/responses"))
        .and(header("authorization", "Bearer sk-canary"))
        .and(body_partial_json(json!({ "model": "m", "stream": true, "store": false })))
        .respond_with(ResponseTemplate::new(200).set_body_raw(answer, "text/event-stream"))
        .expect(1)
        .mount(&server)
        .await;
    let options = OpenAiResponsesOptions {
        base_url: format!("{}/v1", server.uri()),
        api_key: Some("sk-canary".into()),
        model: Some("m".to_owned()),
        ..OpenAiResponsesOptions::default()
    };
    let model = OpenAiResponses::new(options).unwrap();
    let parts: Vec<_> = model.stream(sample_prompt("")).await.unwrap().collect().await;
    assert_eq!(parts.last(), Some(&Ok(ModelPart::Finished(Finish::CalledTools))));
}
