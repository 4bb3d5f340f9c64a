//! Webhooks of the real binary: killed again and again, it sends every event.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Instant,
};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    serve::{DEMO, Gateway, quick},
    world::{PATIENCE, World},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How often the gateway is killed.
const KILLS: usize = 12;

/// A message that was accepted.
struct Message {
    webhook_id: String,
    event: Value,
}

/// Receives webhooks, and refuses the first attempt of each.
fn receiver() -> (u16, Receiver<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (accepted, messages) = mpsc::channel();
    thread::spawn(move || {
        let mut attempts = BTreeMap::new();
        for connection in listener.incoming() {
            // A gateway that is killed meanwhile leaves half a request.
            let _ = answer(connection.unwrap(), &mut attempts, &accepted);
        }
    });
    (port, messages)
}

fn answer(
    connection: TcpStream,
    attempts: &mut BTreeMap<String, u32>,
    accepted: &Sender<Message>,
) -> std::io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let header = |wanted: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let field = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        field.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut body)?;
    let webhook_id = header("webhook-id");
    assert!(header("webhook-signature").starts_with("v1,"), "{head}");
    let n_attempts = attempts.entry(webhook_id.clone()).or_default();
    *n_attempts += 1;
    let status = if *n_attempts == 1 { "503 Busy" } else { "204 No Content" };
    let mut connection = connection;
    write!(connection, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    if *n_attempts > 1 {
        let event = serde_json::from_slice(&body).unwrap();
        let _ = accepted.send(Message { webhook_id, event });
    }
    Ok(())
}

fn world(port: u16) -> World {
    let settings = format!(
        "[egress]\nopen_networks = [\"127.0.0.1/32\"]\nports = [{port}]\n\
         [[webhooks]]\nurl = \"http://127.0.0.1:{port}/hook\"\nsecret_env = \"HOOK_SECRET\"\n\
         timeout_sec = 3\n"
    );
    let world = quick().with_file("turnwire.toml", &settings).with("HOOK_SECRET", SECRET);
    let url = format!("sqlite://{}/runs.db", world.path().display());
    world.with("TURNWIRE_STORE_URL", &url)
}

/// A gateway that is killed while events wait and are being sent loses none, and what it sends
/// twice has the same ID. The list says what became of them.
#[tokio::test]
async fn a_killed_gateway_sends_every_event() {
    let (port, messages) = receiver();
    let world = world(port);
    let mut expected = BTreeSet::new();
    for _ in 0..KILLS {
        let mut gateway = Gateway::start(&world, &DEMO);
        for _ in 0..3 {
            let asked = gateway.post("/v1/responses", &json!({ "input": "Good day" }));
            let response: Value = asked.send().await.unwrap().json().await.unwrap();
            expected.insert(response["id"].as_str().expect("a response").to_owned());
        }
        gateway.signal("KILL");
        gateway.running().child.wait().unwrap();
    }
    let gateway = Gateway::start(&world, &DEMO);
    let (since, mut ids) = (Instant::now(), BTreeMap::new());
    let mut arrived = BTreeSet::new();
    while arrived != expected {
        let left = PATIENCE.saturating_sub(since.elapsed());
        let message = messages
            .recv_timeout(left)
            .unwrap_or_else(|why| panic!("{why}: {} of {} arrived", arrived.len(), expected.len()));
        assert_eq!(message.event["type"], "response.completed");
        assert_eq!(message.event["id"], message.webhook_id.as_str());
        let about = message.event["data"]["id"].as_str().unwrap().to_owned();
        let first = ids.entry(about.clone()).or_insert_with(|| message.webhook_id.clone());
        assert_eq!(*first, message.webhook_id, "a repeat has the same ID");
        arrived.insert(about);
    }
    assert_eq!(arrived.len(), 3 * KILLS);
    let listed = gateway.get("/v1/webhooks/deliveries?limit=100").send().await.unwrap();
    assert_eq!(listed.status(), StatusCode::OK);
    let list: Value = listed.json().await.unwrap();
    assert_eq!(list["data"].as_array().unwrap().len(), 3 * KILLS);
}
