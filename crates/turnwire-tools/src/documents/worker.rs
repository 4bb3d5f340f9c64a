//! What a reader does with one document.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read, Write},
};

use turnwire_contract::{Chunking, ExtractionFailure};

use super::{
    chunking::Chunks,
    finding, frames,
    page::readable,
    request::{Limits, PageText, Request, Task, Unread, invalid},
    text::{Kind, without_markup},
    words,
};

/// Maximum size of the request before the document.
const MAX_REQUEST: u64 = 1024 * 1024;
/// Maximum size of the text of a PDF.
const MAX_PDF_TEXT: usize = 16 * 1024 * 1024;
/// Maximum number of characters of a title.
const MAX_TITLE: usize = 1_000;

/// Extracts the text of a PDF; none if it is damaged.
type PdfText<'a> = &'a dyn Fn(&[u8]) -> Option<String>;

/// Answers one request: the whole life of a child of
/// [`DocumentReader::program`](super::DocumentReader::program). `limit` is called before the first
/// byte of the document is read. An error means that there is nobody to answer.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    limit: impl FnOnce(Limits) -> io::Result<()>,
    pdf: impl Fn(&[u8]) -> Option<String>,
) -> io::Result<()> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_REQUEST).read_until(b'\n', &mut line)?;
    let Request { task, bytes, limits } = serde_json::from_slice(&line)?;
    limit(limits)?;
    let mut content = Vec::with_capacity(bytes);
    input.take(u64::try_from(bytes).unwrap_or(u64::MAX)).read_to_end(&mut content)?;
    if content.len() < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    answer(&task, &content, Some(&pdf), &mut output)?;
    output.flush()
}

/// Writes the answer to a task.
pub(super) fn answer(
    task: &Task,
    content: &[u8],
    pdf: Option<PdfText<'_>>,
    output: &mut dyn Write,
) -> io::Result<()> {
    match task {
        Task::File { name, chunking } => file(name, *chunking, content, pdf, output),
        Task::Page { url, content_type, pattern, most } => {
            match readable(content, content_type.as_deref(), url) {
                Ok(page) => {
                    let page = PageText {
                        title: page.title.chars().take(MAX_TITLE).collect(),
                        text: page.text.chars().take(*most).collect(),
                        n_characters: page.text.chars().count(),
                        matches: finding::find(&page.text, pattern.as_deref().unwrap_or_default()),
                    };
                    frames::page(output, &page)
                }
                Err(why) => frames::unread(output, &invalid(why.to_string())),
            }
        }
    }
}

fn file(
    name: &str,
    chunking: Chunking,
    content: &[u8],
    pdf: Option<PdfText<'_>>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let (text, is_markdown) = match (Kind::of(name, content), pdf) {
        (Kind::Text(text), _) => (Cow::Borrowed(text), false),
        (Kind::Markdown(text), _) => (Cow::Borrowed(text), true),
        (Kind::Page(page), _) => (Cow::Owned(without_markup(page)), false),
        (Kind::Pdf, Some(pdf)) => {
            let Some(text) = pdf(content).filter(|text| text.len() <= MAX_PDF_TEXT) else {
                let reason = format!("`{name}` is damaged, or not a PDF that can be read");
                return frames::unread(output, &invalid(reason));
            };
            (Cow::Owned(text.replace('\0', " ")), false)
        }
        (Kind::Pdf, None) | (Kind::Unknown, _) => {
            return frames::unread(output, &unsupported(name));
        }
    };
    for chunk in Chunks::of(&text, is_markdown, chunking) {
        frames::chunk(output, chunk, &words::of_chunk(chunk))?;
    }
    frames::end(output)
}

fn unsupported(name: &str) -> Unread {
    let reason = format!(
        "`{name}` cannot be searched: only text in UTF-8, Markdown, HTML and PDF can be read"
    );
    Unread { why: ExtractionFailure::Unsupported, reason }
}
