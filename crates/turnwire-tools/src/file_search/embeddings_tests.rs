use std::{sync::Arc, time::Duration};

use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::post};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use turnwire_contract::EmbeddingError;

use super::{AT_ONCE, Embeddings, EmbeddingsError, EmbeddingsOptions};

type Answer = Arc<dyn Fn(&Value, Option<&str>) -> axum::response::Response + Send + Sync>;

/// Starts a server that replies with `answer`.
async fn server(answer: Answer) -> EmbeddingsOptions {
    let handler = move |headers: axum::http::HeaderMap, Json(body): Json<Value>| {
        let key = headers.get("authorization").and_then(|key| key.to_str().ok());
        let response = answer(&body, key);
        async move { response }
    };
    let router = Router::new().route("/v1/embeddings", post(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    EmbeddingsOptions::new(url, "mini")
}

/// Returns vectors whose first component is the length of the text.
fn lengths(body: &Value) -> Value {
    let texts = body["input"].as_array().unwrap();
    let vector = |(n, text): (usize, &Value)| json!({ "object": "embedding", "index": n, "embedding": [text.as_str().unwrap().len(), 1] });
    // A server may return the vectors in any order.
    let mut data: Vec<Value> = texts.iter().enumerate().map(vector).collect();
    data.reverse();
    json!({ "object": "list", "data": data, "model": "mini" })
}

async fn ask(answer: Answer, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    Embeddings::new(server(answer).await).unwrap().vectors(texts).await
}

#[tokio::test]
async fn vectors_come_in_the_order_of_their_texts_and_have_length_1() {
    let answer: Answer = Arc::new(|body, key| {
        assert_eq!((&body["model"], &body["encoding_format"]), (&json!("mini"), &json!("float")));
        assert_eq!(key, None);
        assert!(body["input"].as_array().unwrap().len() <= AT_ONCE);
        Json(lengths(body)).into_response()
    });
    let texts: Vec<String> = (0..AT_ONCE * 2 + 3).map(|n| "x".repeat(n)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = ask(answer, &texts).await.unwrap();
    assert_eq!(vectors.len(), texts.len());
    assert_eq!(vectors[0], [0.0, 1.0]);
    assert!(vectors.windows(2).all(|pair| pair[0][0] < pair[1][0]), "each text is longer");
    for vector in vectors {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
}

#[tokio::test]
async fn the_key_is_sent_and_not_shown() {
    let answer: Answer = Arc::new(|body, key| {
        let status =
            if key == Some("Bearer k3y") { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        (status, Json(lengths(body))).into_response()
    });
    let mut options = server(answer).await;
    let refused = Embeddings::new(options.clone()).unwrap().vectors(&["a"]).await;
    assert_eq!(
        refused,
        Err(EmbeddingError("the embeddings server returned 401 Unauthorized".to_owned()))
    );
    options.api_key = Some("k3y".into());
    let embeddings = Embeddings::new(options).unwrap();
    embeddings.vectors(&["a"]).await.unwrap();
    assert!(!format!("{embeddings:?}").contains("k3y"));
}

#[tokio::test]
async fn an_answer_that_is_none_gives_no_vectors() {
    let wrong = [
        json!({ "data": [] }),
        json!({ "data": [{ "index": 1, "embedding": [1.0] }] }),
        json!({ "data": [{ "index": 0, "embedding": [] }] }),
        json!({ "data": [{ "index": 0, "embedding": [0.0, 0.0] }] }),
        json!({ "data": [{ "index": 0, "embedding": "AAAA" }] }),
        json!({ "error": "?" }),
    ];
    for body in wrong {
        let answer: Answer = {
            let body = body.clone();
            Arc::new(move |_, _| Json(body.clone()).into_response())
        };
        assert!(ask(answer, &["a"]).await.is_err(), "{body}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_gives_no_vectors() {
    let mut options = EmbeddingsOptions::new("http://127.0.0.1:9/v1", "mini");
    options.timeout = Duration::from_secs(2);
    let away = Embeddings::new(options).unwrap().vectors(&["a"]).await.unwrap_err();
    assert!(away.0.starts_with("the embeddings server did not respond"), "{away}");
    assert!(!away.0.contains("127.0.0.1"), "an address is nobody's business: {away}");
}

#[test]
fn what_is_no_address_is_refused() {
    for url in ["", "localhost", "ftp://e/v1"] {
        let refused = Embeddings::new(EmbeddingsOptions::new(url, "mini")).unwrap_err();
        assert_eq!(refused, EmbeddingsError::BaseUrl(url.to_owned()));
    }
}
