//! Entry points for fuzzing: documents, read as a child reads them, without its limits.

use std::io::sink;

use turnwire_contract::Chunking;

use super::{request::Task, worker};

/// Small chunks, which share much with their neighbours.
const SMALL: Chunking = Chunking::Static { max_tokens: 100, overlap_tokens: 50 };

/// Text and CSV.
pub fn document_text(bytes: &[u8]) {
    read_file("a.csv", bytes);
}

/// Markdown.
pub fn document_markdown(bytes: &[u8]) {
    read_file("a.md", bytes);
}

/// An HTML file.
pub fn document_html(bytes: &[u8]) {
    read_file("a.html", bytes);
}

fn read_file(name: &str, bytes: &[u8]) {
    for chunking in [Chunking::Auto, SMALL] {
        let task = Task::File { name: name.to_owned(), chunking };
        let _ = worker::answer(&task, bytes, None, &mut sink());
    }
}

/// A web page, in which the first line is looked for.
pub fn web_page(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let task = Task::Page {
        url: "https://a.example/b?c".to_owned(),
        content_type: None,
        pattern: Some(String::from_utf8_lossy(line).chars().take(1_000).collect()),
        most: 10_000,
    };
    let _ = worker::answer(&task, bytes, None, &mut sink());
}

/// A PDF, whose text `pdf` extracts.
pub fn document_pdf(bytes: &[u8], pdf: impl Fn(&[u8]) -> Option<String>) {
    let task = Task::File { name: "a.pdf".to_owned(), chunking: Chunking::Auto };
    let _ = worker::answer(&task, bytes, Some(&pdf), &mut sink());
}
