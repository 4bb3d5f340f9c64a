use serde_json::json;
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{any, header, method, path},
};

use super::{ModelListFormat, ProbeError, models_at};
use crate::Secret;

#[tokio::test]
async fn the_list_of_models_is_read_from_both_kinds() {
    let server = MockServer::start().await;
    let body = |names: &[&str]| {
        let data: Vec<_> =
            names.iter().map(|name| json!({ "id": name, "object": "model" })).collect();
        ResponseTemplate::new(200).set_body_json(json!({ "object": "list", "data": data }))
    };
    Mock::given(method("GET"))
        .and(path("/openai/models"))
        .and(header("authorization", "Bearer k"))
        .respond_with(body(&["a", "b"]))
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path("/anthropic/v1/models"))
        .and(header("x-api-key", "k"))
        .and(header("anthropic-version", "2023-06-01"))
        .respond_with(body(&["c"]))
        .mount(&server)
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
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(ResponseTemplate::new(status)).mount(&server).await;
        assert_eq!(models_at(&server.uri(), None, ModelListFormat::OpenAi).await, Err(expected));
    }
}
