use futures::StreamExt;
use turnwire_contract::{Finish, Model, ModelPart};
use turnwire_testkit::{Reply, StubServer};

use super::{OpenAiResponses, OpenAiResponsesOptions};
use crate::sample_prompt::sample_prompt;

#[tokio::test]
async fn the_request_is_sent_and_the_answer_translated() {
    let answer = include_str!("../../fixtures/openai_responses/calls.sse");
    let server = StubServer::answering(Reply::new(200).body(answer, "text/event-stream")).await;
    let options = OpenAiResponsesOptions {
        base_url: format!("{}/v1", server.uri()),
        api_key: Some("sk-canary".into()),
        model: Some("m".to_owned()),
        ..OpenAiResponsesOptions::default()
    };
    let model = OpenAiResponses::new(options).unwrap();
    let parts: Vec<_> = model.stream(sample_prompt("")).await.unwrap().collect().await;
    assert_eq!(parts.last(), Some(&Ok(ModelPart::Finished(Finish::CalledTools))));
    let asked = server.only_request();
    assert!(asked.is("POST", "/v1/responses"), "{asked:?}");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-canary"));
    let body = asked.json();
    assert_eq!(body["model"], "m");
    assert_eq!(body["stream"], true);
    assert_eq!(body["store"], false);
}
