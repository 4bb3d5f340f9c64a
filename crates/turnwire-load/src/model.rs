//! A model server that costs as little as possible.
//!
//! It speaks Chat Completions, for gateways that run the loop themselves, and the Responses API,
//! for those that pass it on. The name of the model says how it answers: `tool` calls the first
//! tool that the request offers, and says a word once it has the result.

use std::{rc::Rc, time::Duration};

use anyhow::Context;
use clap::Args;
use memchr::memmem;
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::spawn_local,
    time::{Instant, sleep_until},
};

use crate::{
    http::{LAST_CHUNK, push_chunk, read_request},
    tool_server,
    words::now_micros,
};

#[derive(Debug, Args)]
pub(crate) struct ModelOptions {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Words of the model `burst`, which says them at once.
    #[arg(long, default_value_t = 1000)]
    burst_words: usize,
    /// Words of the model `paced`.
    #[arg(long, default_value_t = 200)]
    paced_words: usize,
    /// Words of the model `paced` per second.
    #[arg(long, default_value_t = 50)]
    rate: u32,
}

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// Serves until it is killed.
#[expect(clippy::print_stdout, reason = "the first line says where it listens")]
pub(crate) async fn serve(options: ModelOptions) -> anyhow::Result<()> {
    let listener = TcpListener::bind(&options.listen).await.context("cannot listen")?;
    println!("{}", listener.local_addr()?);
    let options = Rc::new(options);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let options = Rc::clone(&options);
        // A client that disconnects is nothing to report.
        spawn_local(async move { drop(serve_connection(stream, &options).await) });
    }
}

async fn serve_connection(mut stream: TcpStream, options: &ModelOptions) -> anyhow::Result<()> {
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut buffer).await? {
        let dialect = match head.split(' ').nth(1) {
            Some(tool_server::PATH) => {
                stream.write_all(&tool_server::answer(&head, &body)).await?;
                continue;
            }
            Some(path) if path.ends_with("/chat/completions") => Dialect::Chat,
            Some(path) if path.ends_with("/responses") => Dialect::Responses,
            _ => {
                stream.write_all(MODELS).await?;
                continue;
            }
        };
        match Answer::of(&body, options) {
            Answer::AtOnce(n_words) => {
                let answer = whole_answer(dialect, n_words);
                stream.write_all(&answer).await?;
            }
            Answer::Paced { n_words, pause } => {
                paced_answer(&mut stream, dialect, n_words, pause).await?;
            }
            Answer::Call(tool) => {
                let mut answer = STREAM_HEAD.to_vec();
                push_chunk(&mut answer, dialect.call(&tool).as_bytes());
                answer.extend_from_slice(LAST_CHUNK);
                stream.write_all(&answer).await?;
            }
        }
    }
    Ok(())
}

const MODELS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
    content-length: 153\r\n\r\n{\"object\":\"list\",\"data\":[{\"id\":\"small\",\
    \"object\":\"model\"},{\"id\":\"burst\",\"object\":\"model\"},{\"id\":\"paced\",\
    \"object\":\"model\"},{\"id\":\"tool\",\"object\":\"model\"}]}";

/// How a model answers.
enum Answer {
    AtOnce(usize),
    Paced {
        n_words: usize,
        pause: Duration,
    },
    /// A call of the tool with this name.
    Call(String),
}

impl Answer {
    fn of(body: &[u8], options: &ModelOptions) -> Self {
        let names = |name: &[u8]| memmem::find(body, name).is_some();
        if names(b"\"tool\"")
            && let Some(answer) = Self::with_tool(body)
        {
            return answer;
        }
        if names(b"paced") {
            let pause = Duration::from_secs(1) / options.rate.max(1);
            return Self::Paced { n_words: options.paced_words, pause };
        }
        Self::AtOnce(if names(b"burst") { options.burst_words } else { 1 })
    }

    /// Returns how the model `tool` answers: without a tool and its right result it says nothing.
    fn with_tool(body: &[u8]) -> Option<Self> {
        let request: Value = serde_json::from_slice(body).ok()?;
        if request.get("model")? != "tool" {
            return None;
        }
        let messages = request.get("messages").or_else(|| request.get("input"))?;
        let result = messages.as_array().into_iter().flatten().find(|message| {
            message.get("role").is_some_and(|role| role == "tool")
                || message.get("type").is_some_and(|kind| kind == "function_call_output")
        });
        if let Some(result) = result {
            // An error is a result, too.
            let is_right = result.to_string().contains(tool_server::RESULT);
            return Some(Self::AtOnce(usize::from(is_right)));
        }
        let tool = request.pointer("/tools/0");
        let name = tool.and_then(|tool| tool.get("function").unwrap_or(tool).get("name")?.as_str());
        Some(name.map_or(Self::AtOnce(0), |name| Self::Call(name.to_owned())))
    }
}

fn whole_answer(dialect: Dialect, n_words: usize) -> Vec<u8> {
    let word = now_micros();
    let mut answer = STREAM_HEAD.to_vec();
    for frame in dialect.start() {
        push_chunk(&mut answer, frame.as_bytes());
    }
    for n in 0..n_words {
        push_chunk(&mut answer, dialect.word(word, n).as_bytes());
    }
    push_chunk(&mut answer, dialect.end(n_words).as_bytes());
    answer.extend_from_slice(LAST_CHUNK);
    answer
}

async fn paced_answer(
    stream: &mut TcpStream,
    dialect: Dialect,
    n_words: usize,
    pause: Duration,
) -> std::io::Result<()> {
    let mut bytes = STREAM_HEAD.to_vec();
    for frame in dialect.start() {
        push_chunk(&mut bytes, frame.as_bytes());
    }
    let mut due = Instant::now();
    for n in 0..n_words {
        push_chunk(&mut bytes, dialect.word(now_micros(), n).as_bytes());
        stream.write_all(&bytes).await?;
        bytes.clear();
        due += pause;
        sleep_until(due).await;
    }
    push_chunk(&mut bytes, dialect.end(n_words).as_bytes());
    bytes.extend_from_slice(LAST_CHUNK);
    stream.write_all(&bytes).await
}

/// The API that a request uses.
#[derive(Debug, Clone, Copy)]
enum Dialect {
    Chat,
    Responses,
}

impl Dialect {
    /// What comes before the first word.
    fn start(self) -> Vec<String> {
        match self {
            Self::Chat => vec![chat_chunk(r#"{"role":"assistant","content":""}"#, "null")],
            Self::Responses => vec![
                event(
                    "response.created",
                    0,
                    &format!(r#""response":{}"#, response("in_progress", "")),
                ),
                event(
                    "response.output_item.added",
                    1,
                    &format!(r#""output_index":0,"item":{}"#, message("in_progress", "")),
                ),
                event(
                    "response.content_part.added",
                    2,
                    r#""item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}"#,
                ),
            ],
        }
    }

    /// The word number `n`.
    fn word(self, word: u64, n: usize) -> String {
        match self {
            Self::Chat => chat_chunk(&format!(r#"{{"content":"{word} "}}"#), "null"),
            Self::Responses => event(
                "response.output_text.delta",
                n + 3,
                &format!(
                    r#""item_id":"msg_1","output_index":0,"content_index":0,"delta":"{word} ","logprobs":[]"#
                ),
            ),
        }
    }

    /// The whole answer, if it is a call of a tool.
    fn call(self, tool: &str) -> String {
        let arguments = r#"{\"a\":1,\"b\":41}"#;
        match self {
            Self::Chat => {
                let call = format!(
                    r#"{{"index":0,"id":"call_1","type":"function","function":{{"name":"{tool}","arguments":"{arguments}"}}}}"#
                );
                let delta =
                    format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
                let end = chat_chunk("{}", "\"tool_calls\"");
                format!("{}{end}{}data: [DONE]\n\n", chat_chunk(&delta, "null"), chat_usage(1))
            }
            Self::Responses => {
                let item = |status, arguments| {
                    format!(
                        r#"{{"id":"fc_1","type":"function_call","status":"{status}","call_id":"call_1","name":"{tool}","arguments":"{arguments}"}}"#
                    )
                };
                let created = format!(r#""response":{}"#, response("in_progress", ""));
                let added = format!(r#""output_index":0,"item":{}"#, item("in_progress", ""));
                let delta = format!(r#""item_id":"fc_1","output_index":0,"delta":"{arguments}""#);
                let whole = format!(
                    r#""item_id":"fc_1","output_index":0,"name":"{tool}","arguments":"{arguments}""#
                );
                let item = item("completed", arguments);
                let done = format!(r#""output_index":0,"item":{item}"#);
                let completed = format!(r#""response":{}"#, response("completed", &item));
                [
                    ("response.created", created),
                    ("response.output_item.added", added),
                    ("response.function_call_arguments.delta", delta),
                    ("response.function_call_arguments.done", whole),
                    ("response.output_item.done", done),
                    ("response.completed", completed),
                ]
                .iter()
                .enumerate()
                .map(|(n, (name, fields))| event(name, n, fields))
                .collect()
            }
        }
    }

    /// What comes after the last word.
    fn end(self, n_words: usize) -> String {
        match self {
            Self::Chat => {
                let end = chat_chunk("{}", "\"stop\"");
                format!("{end}{}data: [DONE]\n\n", chat_usage(n_words))
            }
            Self::Responses => {
                let item = message("completed", "said");
                let done = format!(r#""output_index":0,"item":{item}"#);
                let completed = format!(r#""response":{}"#, response("completed", &item));
                event("response.output_item.done", n_words + 3, &done)
                    + &event("response.completed", n_words + 4, &completed)
            }
        }
    }
}

fn chat_chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn chat_usage(n_tokens: usize) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{n_tokens},\
         \"total_tokens\":{}}}}}\n\n",
        n_tokens + 5
    )
}

fn event(name: &str, n: usize, fields: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{n},{fields}}}\n\n")
}

fn message(status: &str, text: &str) -> String {
    let part =
        format!(r#"{{"type":"output_text","text":"{text}","annotations":[],"logprobs":[]}}"#);
    let content = if text.is_empty() { String::new() } else { part };
    format!(
        r#"{{"id":"msg_1","type":"message","status":"{status}","role":"assistant","content":[{content}]}}"#
    )
}

fn response(status: &str, output: &str) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","created_at":1,"status":"{status}","model":"m","output":[{output}],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{{"input_tokens":5,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":5,"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":10}}}}"#
    )
}
