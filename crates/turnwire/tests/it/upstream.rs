//! A real model adapter against a server on this machine that sends what no server should.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use turnwire::{Agent, MessageCallbacks, Stage};
use turnwire_models::{ChatCompletions, ChatCompletionsOptions};

use crate::helpers::{Notes, returns};

/// A server that answers each request with the next of `answers`. The pieces of an answer
/// arrive as chunks of their own, wherever they are cut. Returns its address.
fn serve(answers: Vec<Vec<Vec<u8>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for answer in answers {
            let (connection, _) = listener.accept().expect("somebody calls");
            respond(connection, &answer).expect("somebody listens");
        }
    });
    format!("http://{address}/v1")
}

fn respond(mut connection: TcpStream, pieces: &[Vec<u8>]) -> std::io::Result<()> {
    let mut request = BufReader::new(connection.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    request.read_exact(&mut vec![0; length])?;
    connection.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )?;
    for piece in pieces {
        connection.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        connection.write_all(piece)?;
        connection.write_all(b"\r\n")?;
        connection.flush()?;
    }
    connection.write_all(b"0\r\n\r\n")
}

fn agent(answers: Vec<Vec<Vec<u8>>>) -> Agent {
    let model = ChatCompletions::new(ChatCompletionsOptions::new(serve(answers)));
    let model = model.expect("the address is one");
    Agent::builder().model(model).tool(returns("look", "3 notes")).build().expect("it can be made")
}

/// One frame with this JSON in its `delta`.
fn delta(delta: &str) -> Vec<u8> {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n").into_bytes()
}

fn finish(reason: &str) -> Vec<u8> {
    let frame =
        format!("{{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}");
    format!("data: {frame}\n\ndata: [DONE]\n\n").into_bytes()
}

fn content(text: &str) -> Vec<u8> {
    delta(&format!("{{\"content\":\"{text}\"}}"))
}

/// S4-5.
#[tokio::test]
async fn what_a_server_garbles_arrives_repaired() {
    let mut whole = content("grüß 🙂");
    // Cut in the middle of the last character's four bytes.
    let smile = whole.windows(4).position(|bytes| bytes == "🙂".as_bytes()).expect("it is there");
    let rest = whole.split_off(smile + 2);
    let mut invalid = content("a?b");
    let place = invalid.iter().position(|byte| *byte == b'?').expect("it is there");
    invalid[place] = 0xff;
    let pieces = vec![
        whole,
        rest,
        invalid,
        content(r"lone \ud83d!"),
        content(r"nul\u0000 "),
        content(r"\u001b[31mred\u001b[0m"),
        finish("stop"),
    ];
    let chunks = Notes::<String>::new();
    let book = chunks.clone();
    let callbacks =
        MessageCallbacks::new().on_assistant_content_updated(move |chunk, accumulated| {
            assert!(accumulated.ends_with(chunk));
            book.write(chunk);
        });
    let reply = agent(vec![pieces]).stream_chat("Go.").messages(callbacks).await;
    assert_eq!(chunks.take(), ["grüß 🙂", "a\u{fffd}b", "lone \u{fffd}!", "nul ", "red"]);
    assert_eq!(reply.expect("it answers").text, "grüß 🙂a\u{fffd}blone \u{fffd}!nul red");
}

/// S4-7: some servers send the id of a call first and its name later.
#[tokio::test]
async fn a_call_whose_name_comes_late_starts_once_with_id_and_name() {
    let call = |fields: &str| delta(&format!("{{\"tool_calls\":[{{\"index\":0,{fields}}}]}}"));
    let first = vec![
        call(r#""id":"call_late","type":"function","function":{}"#),
        call(r#""function":{"name":"look"}"#),
        call(r#""function":{"arguments":"{\"query\": \"ru"}"#),
        call(r#""function":{"arguments":"st\"}"}"#),
        finish("tool_calls"),
    ];
    let second = vec![content("Three notes."), finish("stop")];
    let seen = Notes::<(String, String, Stage, String)>::new();
    let book = seen.clone();
    let callbacks = MessageCallbacks::new().on_tool_block_updated(move |update| {
        let (id, name) = (update.id.to_owned(), update.name.to_owned());
        book.write((id, name, update.stage, update.compact_params.unwrap_or_default().to_owned()));
    });
    let agent = agent(vec![first, second]);
    let reply = agent.stream_chat("Go.").messages(callbacks).await.expect("it answers");
    assert_eq!(reply.text, "Three notes.");
    let expected = [
        (Stage::Start, ""),
        (Stage::Streaming, "ru"),
        (Stage::Streaming, "rust"),
        (Stage::Running, "rust"),
        (Stage::End, "rust"),
    ]
    .map(|(stage, compact)| ("call_late".to_owned(), "look".to_owned(), stage, compact.to_owned()));
    assert_eq!(seen.take(), expected);
}
