//! A17: encryption of what is stored, with real servers.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    serve::{DEMO, Gateway, json_of, quick, refusal_of},
    world::World,
};

const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEW: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
const STORE: &str = "[store]\nurl = \"sqlite://runs.db\"\n";

/// Settings with these keys; without encryption if there are none.
fn world(before: Option<World>, keys: &str) -> World {
    let section = if keys.is_empty() { "" } else { "[encryption]\nkey_env = \"KEYS\"\n" };
    let world = before.unwrap_or_else(quick).with("KEYS", keys);
    world.with_file("turnwire.toml", &format!("{STORE}{section}"))
}

fn stop(mut gateway: Gateway) -> String {
    gateway.signal("TERM");
    gateway.finish().stderr
}

fn stored(world: &World) -> Vec<u8> {
    let read = |name: &str| std::fs::read(world.path().join(name)).unwrap_or_default();
    [read("runs.db"), read("runs.db-wal")].concat()
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A17: what a server stores encrypted, one without the key answers with 503 and a code, and one
/// with it as before. Keys of both kinds are replaced at the command line.
#[tokio::test]
async fn stored_data_is_encrypted_and_its_keys_are_replaced() {
    let mut world = world(None, OLD);
    let gateway = Gateway::start(&world, &DEMO);
    let body = json!({ "model": "any-name", "input": "multiply 5 and 4 for cnry-serve" });
    let (status, response) = json_of(gateway.post("/v1/responses", &body)).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    let mut others = Vec::new();
    for _ in 0..2 {
        let (_, other) = json_of(gateway.post("/v1/responses", &body)).await;
        let noted = json!({ "metadata": { "note": "cnry-serve" } });
        let (_, talk) = json_of(gateway.post("/v1/conversations", &noted)).await;
        others.push([other, talk].map(|made| made["id"].as_str().unwrap().to_owned()));
    }
    stop(gateway);
    assert!(!has(&stored(&world), "cnry-serve"));
    assert!(!has(&stored(&world), "times 4"));

    for (keys, said) in [("", "no [encryption] in the settings"), (NEW, "is not in [encryption]")] {
        world = self::world(Some(world), keys);
        let gateway = Gateway::start(&world, &DEMO);
        let (status, code) = refusal_of(gateway.get(&path)).await;
        assert_eq!((status.as_u16(), code.as_str()), (503, "encryption_key_missing"), "{keys}");
        // Without being read, it can be deleted, and found in a list.
        let [other, talk] = others.pop().unwrap();
        for unread in [format!("/v1/responses/{other}"), format!("/v1/conversations/{talk}")] {
            let (status, gone) = json_of(gateway.delete(&unread)).await;
            assert_eq!(status, StatusCode::OK, "{unread} {gone}");
        }
        let (status, runs) = json_of(gateway.get("/v1/runs")).await;
        assert_eq!(status, StatusCode::OK, "{runs}");
        assert!(!runs.to_string().contains("~1:"), "{runs}");
        let said_all = stop(gateway);
        assert!(said_all.contains(said), "{keys} {said_all}");
        let status = world.run(&["encryption", "status"]);
        assert_eq!(status.code, Some(1), "{}", status.stderr);
        assert!(status.stderr.contains("keys are missing"), "{}", status.stderr);
    }

    // What has no contents needs no keys.
    world = self::world(Some(world), "none");
    assert_eq!(world.run(&["audit", "verify"]).code, Some(0));
    assert_eq!(world.run(&["encryption", "status"]).code, Some(2));

    world = self::world(Some(world), &format!("{NEW},{OLD}"));
    let rewrapped = world.run(&["encryption", "rewrap", "--json"]);
    assert_eq!(answer(&rewrapped.stdout), json!({ "rewrapped": 1 }), "{}", rewrapped.stderr);
    world = self::world(Some(world), NEW);
    let rotated = world.run(&["encryption", "rotate", "--json"]);
    assert_eq!(answer(&rotated.stdout), json!({ "rotated": 1 }), "{}", rotated.stderr);
    let status = world.run(&["encryption", "status", "--json"]);
    assert_eq!(answer(&status.stdout)["tenant_keys"][0]["keys"], 2, "{}", status.stderr);
    assert_eq!(world.run(&["encryption", "rotate", "--tenant", "nobody"]).code, Some(1));

    let gateway = Gateway::start(&world, &DEMO);
    let (status, again) = json_of(gateway.get(&path)).await;
    assert_eq!((status, &again["output"]), (StatusCode::OK, &response["output"]));
    stop(gateway);
}

fn answer(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap()
}
