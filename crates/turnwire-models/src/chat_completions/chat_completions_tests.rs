use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwire_contract::{Finish, Model, ModelError, ModelPart};
use turnwire_testkit::{Reply, StubServer};

use super::{ChatCompletions, ChatCompletionsOptions};
use crate::{
    sample_prompt::{plain_prompt, sample_prompt},
    secret::Secret,
};

const KEY: &str = "sk-canary-1234";

fn adapter(base_url: &str) -> ChatCompletions {
    let options = ChatCompletionsOptions {
        api_key: Some(Secret::new(KEY)),
        model: Some("their-model".to_owned()),
        ..ChatCompletionsOptions::new(base_url)
    };
    ChatCompletions::new(options).unwrap()
}

async fn error_of(reply: Reply) -> ModelError {
    let server = StubServer::answering(reply).await;
    match adapter(&server.uri()).stream(plain_prompt()).await {
        Err(error) => error,
        Ok(mut stream) => stream.next().await.unwrap().unwrap_err(),
    }
}

#[tokio::test]
async fn the_request_is_sent_and_the_answer_translated() {
    let answer = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
    );
    let server = StubServer::answering(Reply::new(200).body(answer, "text/event-stream")).await;
    let stream = adapter(&format!("{}/v1/", server.uri())).stream(sample_prompt("")).await;
    let parts: Vec<_> = stream.unwrap().collect().await;
    assert_eq!(
        parts,
        [Ok(ModelPart::Text("Hi.".to_owned())), Ok(ModelPart::Finished(Finish::Answered))]
    );
    let asked = server.only_request();
    assert!(asked.is("POST", "/v1/chat/completions"), "{asked:?}");
    assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
    let body = asked.json();
    assert_eq!(body["model"], "their-model");
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["tools"][0]["type"], "function");
    assert_eq!(body["tools"][0]["function"]["name"], "multiply");
}

#[tokio::test]
async fn no_key_means_no_header() {
    let server = StubServer::answering(Reply::new(400)).await;
    let model = ChatCompletions::new(ChatCompletionsOptions::new(server.uri())).unwrap();
    assert!(model.stream(plain_prompt()).await.is_err());
    assert_eq!(server.only_request().header("authorization"), None);
}

/// A12: an error of the provider that quotes the key, instead of an answer or within one.
#[tokio::test]
async fn a_complaint_becomes_an_error_that_never_shows_the_key() {
    let body = json!({ "error": { "message": format!("Incorrect API key provided: {KEY}.") } });
    let error = error_of(Reply::new(401).json(&body)).await;
    let message = "the provider rejected the key, or the account has no credit (HTTP 401)";
    assert_eq!(error, ModelError::Misconfigured { message: message.to_owned() });

    let stream = format!("data: {body}\n\n");
    let streamed = Reply::new(200).body(stream, "text/event-stream");
    for answer in [Reply::new(200).json(&body), streamed] {
        let error = error_of(answer).await;
        let message = "the provider reported an error".to_owned();
        assert_eq!(error, ModelError::Misconfigured { message });
    }
}

/// An unknown model from the settings is an error for the operator; one from the request is an
/// error for the client.
#[tokio::test]
async fn an_unknown_model_is_told_to_whoever_named_it() {
    let body = json!({ "error": { "message": "model 'x' not found", "type": "api_error" } });
    let unknown = Reply::new(404).json(&body);
    let error = error_of(unknown.clone()).await;
    assert!(matches!(error, ModelError::Misconfigured { .. }), "{error}");

    let server = StubServer::answering(unknown).await;
    let model = ChatCompletions::new(ChatCompletionsOptions::new(server.uri())).unwrap();
    let Err(error) = model.stream(plain_prompt()).await else { panic!("404 is no answer") };
    assert!(matches!(error, ModelError::UnknownModel { .. }), "{error}");
}

#[tokio::test]
async fn a_request_to_wait_is_passed_on() {
    let busy = Reply::new(429).header("retry-after", "7");
    let ModelError::RateLimited { retry_after, .. } = error_of(busy).await else {
        panic!("429 asks to slow down")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));

    let exact = Reply::new(429).header("retry-after", "7");
    let error = error_of(exact.header("retry-after-ms", "6543")).await;
    let ModelError::RateLimited { retry_after, .. } = error else { panic!("{error}") };
    assert_eq!(retry_after, Some(Duration::from_millis(6_543)));

    let past = "Thu, 01 Jan 1970 00:00:00 GMT";
    let error = error_of(Reply::new(503).header("retry-after", past)).await;
    let ModelError::Unavailable { retry_after, .. } = error else { panic!("503 is not final") };
    assert_eq!(retry_after, Some(Duration::ZERO));
}

/// A redirect must not forward the key to another host.
#[tokio::test]
async fn redirects_are_not_followed() {
    let moved = Reply::new(302).header("location", "http://127.0.0.1:1/");
    let error = error_of(moved).await;
    assert!(matches!(error, ModelError::Misconfigured { .. }), "{error}");
}

#[tokio::test]
async fn a_web_page_instead_of_an_answer_points_to_the_base_url() {
    let page = Reply::new(200).body("\n<html></html>", "text/html");
    let error = error_of(page).await;
    assert!(error.to_string().contains("check the base URL"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let Err(error) = adapter(&address).stream(plain_prompt()).await else {
        panic!("nobody listens")
    };
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const FIRST: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";

#[tokio::test]
async fn parts_come_at_once_and_dropping_the_stream_hangs_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 16 * 1024];
        assert_ne!(connection.read(&mut buffer).await.unwrap(), 0);
        connection.write_all(format!("{HEAD}{FIRST}").as_bytes()).await.unwrap();
        // Nothing more is sent, so this ends only when the client disconnects.
        while !matches!(connection.read(&mut buffer).await, Ok(0) | Err(_)) {}
    };
    let client = async {
        let mut stream = adapter(&address).stream(plain_prompt()).await.unwrap();
        let first = stream.next().await;
        assert_eq!(first, Some(Ok(ModelPart::Text("Hi".to_owned()))));
    };
    let both = async { tokio::join!(server, client) };
    tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_ends_with_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 16 * 1024];
        assert_ne!(connection.read(&mut buffer).await.unwrap(), 0);
        let head = HEAD.replace("\r\n\r\n", "\r\ncontent-length: 5000\r\n\r\n");
        connection.write_all(format!("{head}{FIRST}").as_bytes()).await.unwrap();
    };
    let client = async {
        let stream = adapter(&address).stream(plain_prompt()).await.unwrap();
        stream.collect::<Vec<_>>().await
    };
    let ((), parts) = tokio::join!(server, client);
    assert_eq!(parts[0], Ok(ModelPart::Text("Hi".to_owned())));
    assert!(matches!(parts[1..], [Err(ModelError::Broken { .. })]), "{parts:?}");
}
