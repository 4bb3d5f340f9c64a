//! A store can be copied: while a server works with it, and after the server was stopped.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    serve::{DEMO, Gateway, status_of},
    world::World,
};

fn world() -> World {
    World::new().with("TURNWIRE_DEMO_PACE_MS", "0").with("TURNWIRE_DEMO_TOOL_MS", "0")
}

/// A gateway whose runs are in this file.
fn kept_in(file: &Path) -> (World, Gateway) {
    let world = world().with("TURNWIRE_STORE_URL", &format!("sqlite://{}", file.display()));
    let gateway = Gateway::start(&world, &DEMO);
    (world, gateway)
}

/// Asks something, and returns where the answer can be fetched.
async fn answered(gateway: &Gateway) -> String {
    let body = json!({ "model": "scripted", "input": "multiply 5 and 4" });
    let response = gateway.post("/v1/responses", &body).send().await.unwrap();
    let response: Value = response.json().await.unwrap();
    assert_eq!(response["status"], "completed", "{response}");
    format!("/v1/responses/{}", response["id"].as_str().unwrap())
}

fn rights_of(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// What a gateway says to `paths` whose store is a copy of only this file.
async fn found_in_copy(file: &Path, paths: &[&str]) -> Vec<StatusCode> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    fs::copy(file, &copy).unwrap();
    let (_world, gateway) = kept_in(&copy);
    let mut found = Vec::new();
    for path in paths {
        found.push(status_of(gateway.get(path)).await);
    }
    found
}

/// C28: a copy that is made while the server works has everything that was finished before, and is
/// a store like any other. Only its owner can read it, and the store itself.
#[tokio::test]
async fn a_store_is_copied_while_it_is_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let (store, copy): (PathBuf, PathBuf) =
        (folder.path().join("runs.db"), folder.path().join("it's a copy.db"));
    let (world, gateway) = kept_in(&store);
    assert_eq!(rights_of(&store), 0o600);
    let before = answered(&gateway).await;

    let done = world.run(&["backup", copy.to_str().unwrap()]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    assert_eq!(done.stderr, format!("The store is in {}.\n", copy.display()));
    assert_eq!(rights_of(&copy), 0o600);
    let after = answered(&gateway).await;
    let found = found_in_copy(&copy, &[&before, &after]).await;
    assert_eq!(found, [StatusCode::OK, StatusCode::NOT_FOUND]);

    let done = world.run(&["backup", copy.to_str().unwrap()]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("already exists\nhint: name a file"), "{}", done.stderr);
    assert_eq!(found_in_copy(&copy, &[&before]).await, [StatusCode::OK], "it was left alone");
}

/// C28: after SIGTERM everything is in the one file; nothing of it is left in the `-wal` beside it.
#[tokio::test]
async fn after_a_clean_end_the_file_alone_is_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let (_world, mut gateway) = kept_in(&store);
    let path = answered(&gateway).await;
    gateway.signal("TERM");
    let done = gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(found_in_copy(&store, &[&path]).await, [StatusCode::OK]);
}

#[test]
fn what_cannot_be_copied_is_explained() {
    let world = world();
    let check = |url: &str, code: i32, expected: &str| {
        let done = World::new().with("TURNWIRE_STORE_URL", url).run(&["backup", "copy.db"]);
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        assert!(done.stderr.contains(expected), "{}", done.stderr);
    };
    check("sqlite://nowhere.db", 2, "there is no store at nowhere.db");
    check("postgres://localhost/runs", 2, "pg_dump");
    check("memory:", 2, "runs in memory are not kept");
    let done = world.run(&["backup"]);
    assert!(done.code == Some(2) && done.stderr.contains("<FILE>"), "{}", done.stderr);
    // What is no database is not taken for one, and no half copy stays.
    fs::write(world.path().join("turnwire.db"), "not a database, but long enough to look at it")
        .unwrap();
    let done = world.run(&["backup", "copy.db"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("the store was not copied"), "{}", done.stderr);
    assert!(!world.path().join("copy.db").exists());
}
