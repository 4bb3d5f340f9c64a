use serde_json::json;
use turnwire_testkit::{Reply, StubServer};

use super::{ModelListFormat, ProbeError, models_at};
use crate::Secret;

#[tokio::test]
async fn the_list_of_models_is_read_from_both_kinds() {
    let body = |names: &[&str]| {
        let data: Vec<_> =
            names.iter().map(|name| json!({ "id": name, "object": "model" })).collect();
        Reply::new(200).json(&json!({ "object": "list", "data": data }))
    };
    let (openai, anthropic) = (body(&["a", "b"]), body(&["c"]));
    let server = StubServer::start(move |asked| {
        let is_anthropic = asked.header("x-api-key") == Some("k")
            && asked.header("anthropic-version") == Some("2023-06-01");
        let is_openai = asked.header("authorization") == Some("Bearer k");
        if is_openai && asked.is("GET", "/openai/models") {
            openai.clone()
        } else if is_anthropic && asked.is("GET", "/anthropic/v1/models") {
            anthropic.clone()
        } else {
            Reply::new(404)
        }
    })
    .await;
    let key = Secret::from("k");
    let openai =
        models_at(&format!("{}/openai/", server.uri()), Some(&key), ModelListFormat::OpenAi).await;
    assert_eq!(openai, Ok(vec!["a".to_owned(), "b".to_owned()]));
    let anthropic = format!("{}/anthropic", server.uri());
    let anthropic = models_at(&anthropic, Some(&key), ModelListFormat::Anthropic).await;
    assert_eq!(anthropic, Ok(vec!["c".to_owned()]));
}

#[tokio::test]
async fn what_is_wrong_is_told_apart() {
    let nobody = models_at("http://127.0.0.1:9", None, ModelListFormat::OpenAi).await;
    assert_eq!(nobody, Err(ProbeError::OutOfReach));
    for (status, expected) in [
        (401, ProbeError::KeyRefused(401)),
        (403, ProbeError::KeyRefused(403)),
        (404, ProbeError::NoList(404)),
        (200, ProbeError::NoList(200)),
    ] {
        let server = StubServer::answering(Reply::new(status)).await;
        assert_eq!(models_at(&server.uri(), None, ModelListFormat::OpenAi).await, Err(expected));
    }
}

/// A19: a list is read up to 4 MiB.
#[tokio::test]
async fn a_list_that_is_too_long_is_none() {
    for (n_bytes, expected) in [
        (4 * 1024 * 1024, Ok(vec!["a".to_owned()])),
        (4 * 1024 * 1024 + 1, Err(ProbeError::NoList(200))),
    ] {
        let list = r#"{"data":[{"id":"a"}]}"#;
        let body = format!("{list}{}", " ".repeat(n_bytes - list.len()));
        let server = StubServer::answering(Reply::new(200).body(body, "application/json")).await;
        assert_eq!(models_at(&server.uri(), None, ModelListFormat::OpenAi).await, expected);
    }
}
