//! What is fuzzed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use turnwire_cli::fuzzing as cli;
use turnwire_gateway::fuzzing as gateway;
use turnwire_models::fuzzing as models;
use turnwire_stores::fuzzing as stores;
use turnwire_surfaces::{CheckOptions, Checker, Cursor, PartialJson, WsRequest, clean};
use turnwire_tools::fuzzing as tools;

/// A function that reads a stranger's bytes. It must return, whatever they are.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Reads the bytes.
    pub run: fn(&[u8]),
    /// A folder with more inputs, beside the crates.
    more: Option<&'static str>,
    /// How many times what others may cost it may cost.
    pub(crate) multiple: u32,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::new("anthropic_messages", models::anthropic_messages)
        .with("turnwire-models/fixtures/anthropic_messages"),
    Target::new("chat_completions", models::chat_completions)
        .with("turnwire-models/fixtures/chat_completions"),
    Target::new("openai_responses", models::openai_responses)
        .with("turnwire-models/fixtures/openai_responses"),
    Target::new("error_body", models::error_body),
    Target::new("mcp_message", tools::mcp_message),
    Target::new("mcp_tools", tools::mcp_tools),
    Target::new("responses_body", gateway::responses_body),
    Target::new("chat_completions_body", gateway::chat_completions_body),
    Target::new("chat_body", gateway::chat_body),
    Target::new("ai_sdk_body", gateway::ai_sdk_body),
    Target::new("ag_ui_body", gateway::ag_ui_body),
    Target::new("vector_store_body", gateway::vector_store_body),
    Target::new("ws_chat_message", ws_chat_message),
    Target::new("cursor", cursor),
    Target::new("partial_json", partial_json),
    Target::new("terminal_text", terminal_text),
    Target::new("checked_stream", checked_stream),
    Target::new("journal_row", stores::journal_row),
    // Each mistake is worded, and looked for in the file.
    Target::new("settings", cli::settings).costing(4),
    // These are read twice, and every word is stemmed.
    Target::new("document_text", tools::document_text).costing(4),
    Target::new("document_markdown", tools::document_markdown).costing(4),
    Target::new("document_html", tools::document_html).costing(4),
    // What is compressed in it may be a thousand times as long.
    Target::new("document_pdf", cli::document_pdf).costing(16),
    // A library looks for the article in it in several ways, each in a tree of its own.
    Target::new("web_page", tools::web_page).costing(16),
];

impl Target {
    /// Creates a target without other folders.
    pub const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self { name, run, more: None, multiple: 1 }
    }

    const fn costing(mut self, multiple: u32) -> Self {
        self.multiple = multiple;
        self
    }

    const fn with(mut self, more: &'static str) -> Self {
        self.more = Some(more);
        self
    }

    /// The inputs in the corpus, in the order of their names.
    pub fn corpus(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = here.join("corpus").join(self.name);
        let more = self.more.map(|more| here.with_file_name(more));
        let mut paths = Vec::new();
        for folder in [Some(own), more].into_iter().flatten().filter(|folder| folder.is_dir()) {
            for entry in fs::read_dir(folder)? {
                paths.push(entry?.path());
            }
        }
        paths.retain(|path| path.is_file());
        paths.sort();
        paths.into_iter().map(|path| fs::read(&path).map(|bytes| (path, bytes))).collect()
    }
}

fn ws_chat_message(bytes: &[u8]) {
    drop(WsRequest::read(&String::from_utf8_lossy(bytes)));
}

fn cursor(bytes: &[u8]) {
    drop(String::from_utf8_lossy(bytes).parse::<Cursor>().map(|cursor| cursor.to_string()));
}

fn partial_json(bytes: &[u8]) {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let chars: Vec<char> = text.chars().collect();
    let mut json = PartialJson::new();
    for piece in chars.chunks(usize::from(size).max(1) * 8) {
        json.push(&piece.iter().collect::<String>());
        let _ = json.first_scalar();
    }
    drop(json.snapshot());
}

fn terminal_text(bytes: &[u8]) {
    drop(clean(&String::from_utf8_lossy(bytes)).into_owned());
}

fn checked_stream(bytes: &[u8]) {
    let mut checker = Checker::new(CheckOptions { is_resumed: false, is_sse: true });
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(event) => checker.event(None, &event),
            Err(error) => checker.unreadable(&error.to_string()),
        }
    }
    drop(checker.finish());
}
