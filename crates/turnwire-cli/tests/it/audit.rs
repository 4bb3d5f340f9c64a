//! The audit log at the command line.

use std::fs;

use serde_json::{Value, json};

use crate::{
    serve::{DEMO, Gateway},
    world::World,
};

/// What a server and the command line did is listed and verified; what was changed is told.
#[tokio::test]
async fn the_log_of_a_store_is_listed_and_verified() {
    let world = World::new();
    let file = world.path().join("runs.db");
    let world = world.with("TURNWIRE_STORE_URL", &format!("sqlite://{}", file.display()));
    let missing = world.run(&["audit", "verify"]);
    assert_eq!(missing.code, Some(1), "{}", missing.stderr);
    assert!(missing.stderr.contains("there is no store"), "{}", missing.stderr);
    let created = world.run(&["keys", "create", "--tenant", "acme", "--name", "laptop"]);
    let key = created.stdout.trim().to_owned();
    let gateway = Gateway::start(&world, &DEMO);
    let asked = gateway.post("/v1/responses", &json!({ "input": "Hello" })).bearer_auth(&key);
    let answer: Value = asked.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["status"], "completed", "{answer:#}");
    let listed = world.run(&["audit", "list", "--json"]);
    let list: Value = serde_json::from_str(&listed.stdout).unwrap();
    let actions: Vec<&str> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["run.started", "server.started", "key.created"], "newest first");
    assert!(list["data"][0]["actor"]["key_id"].as_str().unwrap().starts_with("key_"), "{list}");
    let for_people = world.run(&["audit", "list", "--action", "run.started"]);
    assert!(for_people.stdout.contains("acme") && !for_people.stdout.contains("key.created"));
    let verified = world.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    assert!(verified.stdout.contains("3 entries in 2 chains"), "{}", verified.stdout);
    let ends = world.run(&["audit", "verify", "--json"]).stdout;
    let kept = world.path().join("ends.json");
    fs::write(&kept, &ends).unwrap();
    let against = ["audit", "verify", "--against", kept.to_str().unwrap()];
    assert_eq!(world.run(&against).code, Some(0));
    let mut other: Value = serde_json::from_str(&ends).unwrap();
    other["ends"][0]["hash"] = json!("0");
    fs::write(&kept, other.to_string()).unwrap();
    let changed = world.run(&against);
    assert_eq!(changed.code, Some(1), "{}", changed.stdout);
    assert!(changed.stderr.contains("the audit log was changed"), "{}", changed.stderr);
    fs::write(&kept, "no report").unwrap();
    assert_eq!(world.run(&against).code, Some(2));
}
