//! Who may come in, and how much they may bring.

use std::fmt::Write;

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turnwire_gateway::{App, AppOptions, AuthOptions, HttpLimits, Server, ServerError};
use turnwire_models::Turn;

use crate::world::{Plan, World};

fn locked() -> Plan {
    Plan::new([Turn::new().text("Hi.")]).options(|options| {
        options.auth = AuthOptions {
            api_keys: vec!["tw_secret".to_owned()],
            origins: vec!["https://chat.example.com".to_owned()],
            ..AuthOptions::default()
        };
    })
}

/// Every path of the document, with an id where one is wanted.
fn routes() -> Vec<(Method, String)> {
    let document = serde_json::to_value(turnwire_gateway::openapi::document()).unwrap();
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes());
            routes.extend(method.ok().map(|method| (method, path.join("/"))));
        }
    }
    routes
}

fn is_public(path: &str) -> bool {
    // A share link takes the place of a key: `shares.rs`.
    matches!(path, "/healthz" | "/readyz") || path.starts_with("/v1/shared/")
}

/// A1, A2: no route answers without a key, with a wrong one, or with one in a place where none
/// belongs; every route of the document is tried.
#[tokio::test]
async fn no_route_without_a_key() {
    let world = locked().start().await;
    let attempts: [&[(&str, &str)]; 8] = [
        &[],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Basic tw_secret")],
        &[("authorization", "tw_secret")],
        &[("authorization", "Bearer ")],
        &[("x-api-key", "tw_secret")],
        &[("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1")],
        &[("authorization", "Bearer tw_secret2"), ("x-tenant", "default")],
    ];
    let mut n_tried = 0;
    for (method, path) in routes() {
        if is_public(&path) {
            continue;
        }
        for headers in attempts {
            let mut request = world.request(method.clone(), &path).json(&json!({}));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method} {path} {headers:?}");
            assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
            if method != Method::HEAD {
                let error: Value = response.json().await.unwrap();
                assert_eq!(error["error"]["type"], "authentication_error");
            }
            n_tried += 1;
        }
    }
    assert!(n_tried >= 300, "{n_tried}");
    let response = world
        .request(Method::POST, "/v1/responses")
        .header("Authorization", "Bearer tw_secret")
        .json(&json!({ "input": "?" }));
    assert_eq!(response.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(world.get("/readyz").await.0, StatusCode::OK);
    world.close().await;
}

async fn status_with(world: &World, method: Method, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = world.request(method, "/v1/models");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status()
}

/// A9: a foreign web page and a foreign name are turned away, on every kind of route.
#[tokio::test]
async fn foreign_pages_and_names() {
    let world = Plan::new([]).start().await;
    let port = world.address.port();
    for origin in [
        "https://evil.example".to_owned(),
        "null".to_owned(),
        "http://localhost.evil.example".to_owned(),
        format!("http://127.0.0.1:{}", port.wrapping_add(1)),
        "http://127.0.0.1".to_owned(),
        "file://".to_owned(),
        String::new(),
    ] {
        let status = status_with(&world, Method::GET, &[("origin", &origin)]).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{origin:?}");
        for path in ["/ws/chat", "/v1/responses"] {
            let upgrade = world
                .request(Method::GET, path)
                .header("origin", &origin)
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            assert_eq!(
                upgrade.send().await.unwrap().status(),
                StatusCode::FORBIDDEN,
                "{path} {origin:?}"
            );
        }
    }
    let own = format!("http://127.0.0.1:{port}");
    assert_eq!(status_with(&world, Method::GET, &[("origin", &own)]).await, StatusCode::OK);
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "10.0.0.1"] {
        let status = status_with(&world, Method::GET, &[("host", host)]).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{host}");
    }
    for host in ["localhost", "localhost:1234", "[::1]:80", "app.localhost", "127.0.0.1"] {
        let status = status_with(&world, Method::GET, &[("host", host)]).await;
        assert_eq!(status, StatusCode::OK, "{host}");
    }
    world.close().await;
}

/// A9: a page that the operator named may read the answers, with the headers that its client needs,
/// and asks first. Cookies are not sent: there are none.
#[tokio::test]
async fn a_named_page_may_read() {
    let world = locked().start().await;
    let preflight = world
        .request(Method::OPTIONS, "/v1/responses")
        .header("origin", "https://chat.example.com")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization, content-type");
    let answer = preflight.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    let allowed = &answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN];
    assert_eq!(allowed, "https://chat.example.com");
    assert!(!answer.headers().contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
    let request = world.request(Method::GET, "/v1/models");
    let answer = request.header("origin", "https://chat.example.com").send().await.unwrap();
    let exposed = answer.headers()[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
    let names =
        ["retry-after", "turnwire-run-id", "x-request-id", "x-should-retry", "x-workflow-run-id"];
    for name in names {
        assert!(exposed.split(", ").any(|exposed| exposed == name), "{name} in {exposed}");
    }
    assert_eq!(answer.headers()[header::VARY], "Origin");
    world.close().await;
}

/// Every response names its request, also a refusal; a client may choose the name.
#[tokio::test]
async fn a_request_has_an_id() {
    let world = locked().start().await;
    let id_of = async |request: reqwest::RequestBuilder| {
        request.send().await.unwrap().headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    let first = id_of(world.request(Method::GET, "/v1/models")).await;
    let second = id_of(world.request(Method::GET, "/nowhere")).await;
    assert!(!first.is_empty() && first != second);
    let named = world.request(Method::GET, "/v1/models").header("x-request-id", "mine-7");
    assert_eq!(id_of(named).await, "mine-7");
    world.close().await;
}

/// A9: a page on another port of this machine is told about `origins`: its browser lets it ask, and
/// read the refusal. What it asked for is not done, and a page of another machine reads nothing.
#[tokio::test]
async fn a_page_on_another_local_port_is_told_about_origins() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    for page in ["http://localhost:5173", "http://127.0.0.1:5173", "http://[::1]:5173"] {
        let preflight = world
            .request(Method::OPTIONS, "/chat")
            .header("origin", page)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type");
        let answer = preflight.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{page}");
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], page);
        let message = json!({ "message": "?" });
        let asked = world.request(Method::POST, "/chat").header("origin", page).json(&message);
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{page}");
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], page);
        let error: Value = answer.json().await.unwrap();
        assert_eq!(error["error"]["code"], "foreign_origin");
        let said = error["error"]["message"].as_str().unwrap();
        assert!(said.contains(&format!("`--origin {page}`")), "{said}");
        assert!(said.contains("`origins` under [server]"), "{said}");
    }
    let (_, runs) = world.get("/v1/runs").await;
    assert_eq!(runs["data"], json!([]), "nothing was done");
    for page in ["https://evil.example", "http://localhost.evil.example:5173", "null"] {
        for method in [Method::OPTIONS, Method::POST] {
            let request = world.request(method, "/chat").header("origin", page);
            let request = request.header("access-control-request-method", "POST");
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{page}");
            assert!(!answer.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{page}");
        }
    }
    world.close().await;
}

/// A9: with `hosts`, probes may still use the address; nothing else may, and neither may they use
/// another name.
#[tokio::test]
async fn hosts_do_not_break_probes_by_address() {
    let named = Plan::new([]).options(|options| {
        options.auth.hosts = vec!["chat.example.com".to_owned()];
    });
    let world = named.start().await;
    let status = async |host: &str, path: &str| {
        let request = world.request(Method::GET, path).header("host", host);
        request.send().await.unwrap().status()
    };
    for host in ["10.1.2.3:7878", "10.1.2.3", "[fd00::1]:7878"] {
        for probe in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(status(host, probe).await, StatusCode::OK, "{host} {probe}");
        }
        for other in ["/v1/models", "/healthz/", "/openapi.json"] {
            assert_eq!(status(host, other).await, StatusCode::FORBIDDEN, "{host} {other}");
        }
    }
    assert_eq!(status("evil.example", "/healthz").await, StatusCode::FORBIDDEN);
    assert_eq!(status("chat.example.com", "/v1/models").await, StatusCode::OK);
    world.close().await;
}

/// A1: the metrics token opens `/metrics` and nothing else; keys of clients open it as well.
#[tokio::test]
async fn the_metrics_token_opens_the_metrics_alone() {
    let scraped = |keys: &[&str]| {
        let api_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Plan::new([]).options(move |options| {
            options.auth.api_keys = api_keys;
            options.auth.metrics_token = Some("tw_metrics".to_owned());
        })
    };
    let world = scraped(&["tw_secret"]).start().await;
    let code = async |world: &World, key: &str, path: &str| {
        let request = world.request(Method::GET, path).bearer_auth(key);
        request.send().await.unwrap().status().as_u16()
    };
    for (key, path, expected) in [
        ("tw_metrics", "/metrics", 200),
        ("tw_secret", "/metrics", 200),
        ("wrong", "/metrics", 401),
        ("tw_metrics", "/v1/models", 401),
        ("tw_metrics", "/v1/runs", 401),
        ("tw_secret", "/v1/models", 200),
    ] {
        assert_eq!(code(&world, key, path).await, expected, "{key} {path}");
    }
    let without = world.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(without.status(), StatusCode::UNAUTHORIZED);
    world.close().await;

    // Without keys of clients, too, the metrics are for whoever has the token.
    let world = scraped(&[]).start().await;
    assert_eq!(code(&world, "tw_metrics", "/metrics").await, 200);
    assert_eq!(code(&world, "wrong", "/metrics").await, 401);
    let without = world.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(without.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(code(&world, "wrong", "/v1/models").await, 200);
    world.close().await;
}

/// A9: only loopback without a key.
#[tokio::test]
async fn other_addresses_need_a_key() {
    let world = Plan::new([]).start().await;
    let bind = async |keys: Vec<String>| {
        let auth = AuthOptions { api_keys: keys, ..AuthOptions::default() };
        let options = AppOptions { auth, ..AppOptions::default() };
        let app = App::new(world.app.runs().clone(), world.app.library().clone(), options);
        Server::bind("0.0.0.0:0".parse().unwrap(), app, HttpLimits::default()).await
    };
    assert!(matches!(bind(Vec::new()).await, Err(ServerError::NeedsKey(_))));
    assert!(bind(vec!["tw_key".to_owned()]).await.is_ok());
    world.close().await;
}

/// A13: bodies, depth and keys have limits, tried at the limit and one past it.
#[tokio::test]
async fn limits_of_a_body() {
    let world = Plan::new([]).options(|options| options.body_limit = 10_000).start().await;
    let post = async |body: String| {
        let request = world
            .request(Method::POST, "/v1/conversations")
            .header("content-type", "application/json")
            .body(body);
        let response = request.send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        (status.as_u16(), body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let sized = |length: usize| {
        let frame = r#"{"metadata":{}}"#.len();
        format!(r#"{{"metadata":{{}}{}}}"#, " ".repeat(length - frame))
    };
    assert_eq!(post(sized(10_000)).await, (200, String::new()));
    assert_eq!(post(sized(10_001)).await, (413, "body_too_large".to_owned()));
    let deep =
        |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert_eq!(post(deep(64)).await, (400, "unknown_parameter".to_owned()), "it was read");
    assert_eq!(post(deep(65)).await, (400, "json_too_deep".to_owned()));
    assert_eq!(post("{".to_owned()).await, (400, "invalid_json".to_owned()));
    world.close().await;
    let world = Plan::new([]).start().await;
    for (n_keys, expected) in [(10_000, "unknown_parameter"), (10_001, "json_too_many_keys")] {
        // One of the keys is `x` itself.
        let keys: Value = (1..n_keys).map(|n| (format!("k{n}"), Value::Null)).collect();
        let (_, answer) = world.post("/v1/conversations", json!({ "x": keys })).await;
        assert_eq!(answer["error"]["code"], expected, "{n_keys} keys");
    }
    world.close().await;
}

/// A13: so do headers.
#[tokio::test]
async fn limits_of_headers() {
    let world = Plan::new([]).start().await;
    let status_of = async |n_headers: usize, length: usize| {
        let mut request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n", world.address);
        for n in 0..n_headers {
            let _ = write!(request, "x-{n}: {}\r\n", "y".repeat(length));
        }
        request.push_str("connection: close\r\n\r\n");
        let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // The server may close before everything is read.
        let _ = stream.read_to_string(&mut answer).await;
        answer.split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    assert_eq!(status_of(98, 1).await, "200");
    assert_eq!(status_of(99, 1).await, "431");
    assert_eq!(status_of(10, 3_000).await, "200");
    assert_eq!(status_of(10, 4_000).await, "431");
    world.close().await;
}
