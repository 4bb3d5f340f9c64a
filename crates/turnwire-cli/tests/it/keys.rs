//! Keys of a store are made on the command line, and a server on the same store heeds them.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    serve::{DEMO, Gateway, status_of},
    world::World,
};

fn world() -> World {
    let world = World::new();
    let url = format!("sqlite://{}/runs.db", world.path().display());
    world.with("TURNWIRE_STORE_URL", &url)
}

/// The key, which is all that is printed to standard output.
fn create(world: &World, arguments: &[&str]) -> String {
    let done = world.run(&[&["keys", "create"], arguments].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("it is not shown again"), "{}", done.stderr);
    done.stdout.trim().to_owned()
}

fn listed(world: &World) -> Vec<Value> {
    let done = world.run(&["keys", "list", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let list: Value = serde_json::from_str(&done.stdout).unwrap();
    list["data"].as_array().unwrap().clone()
}

/// A16: a server that was open heeds the first key that is made beside it, and its revocation.
#[tokio::test]
async fn a_running_server_heeds_the_keys_of_its_store() {
    let world = world();
    let gateway = Gateway::start(&world, &DEMO);
    let models = |key: &str| gateway.get("/v1/models").bearer_auth(key);
    assert_eq!(status_of(gateway.get("/v1/models")).await, StatusCode::OK);
    let key = create(&world, &["--tenant", "acme", "--name", "laptop"]);
    assert_eq!(status_of(models(&key)).await, StatusCode::OK);
    assert_eq!(status_of(gateway.get("/v1/models")).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status_of(gateway.get("/metrics").bearer_auth(&key)).await, StatusCode::FORBIDDEN);
    let [line] = listed(&world).try_into().unwrap();
    assert_eq!((&line["tenant"], &line["valid"]), (&"acme".into(), &true.into()));
    assert!(!line.to_string().contains(&key), "{line}");
    let key_id = line["key_id"].as_str().unwrap();
    let done = world.run(&["keys", "rotate", key_id, "--overlap", "3600"]);
    let newer = done.stdout.trim().to_owned();
    assert_eq!(
        (status_of(models(&key)).await, status_of(models(&newer)).await),
        (StatusCode::OK, StatusCode::OK)
    );
    assert_eq!(world.run(&["keys", "revoke", key_id]).code, Some(0));
    let since = Instant::now();
    while status_of(models(&key)).await == StatusCode::OK {
        assert!(since.elapsed() < Duration::from_secs(10), "the revoked key goes on working");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status_of(models(&newer)).await, StatusCode::OK);
}

/// What cannot be done is said, with what to do.
#[test]
fn mistakes_about_keys_are_told() {
    let world = world();
    for command in [&["keys", "list"][..], &["keys", "revoke", "key_x"]] {
        let done = world.run(command);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(done.stderr.contains("there is no store"), "{}", done.stderr);
    }
    create(&world, &["--name", "first"]);
    let wrong = [
        (&["keys", "create", "--name", " "][..], 2, "--name must have 1 to 200 bytes"),
        (&["keys", "create", "--name", "x", "--scope", "root"], 2, "`root` is not a scope"),
        (&["keys", "create"], 2, "--name"),
        (&["keys", "revoke", "key_none"], 1, "there is no key key_none"),
        (&["keys", "rotate", "key_none"], 1, "there is no key key_none"),
    ];
    for (arguments, code, text) in wrong {
        let done = world.run(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains(text), "{arguments:?}: {}", done.stderr);
    }
    let done = World::new().with("TURNWIRE_STORE_URL", "memory:").run(&["keys", "list"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("keys cannot be kept in memory"), "{}", done.stderr);
}
