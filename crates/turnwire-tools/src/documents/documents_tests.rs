use std::sync::Arc;

use turnwire_contract::{Chunking, ExtractionFailure, NewChunk, TenantId};

use super::{DocumentReader, MAX_BYTES_IN_PROCESS, Task};

fn bytes(content: &[u8]) -> Arc<[u8]> {
    content.into()
}

fn file(name: &str) -> Task {
    Task::File { name: name.to_owned(), chunking: Chunking::Auto }
}

fn page(pattern: Option<&str>) -> Task {
    Task::Page {
        url: "https://a.example/".to_owned(),
        content_type: None,
        pattern: pattern.map(str::to_owned),
        most: 3,
    }
}

#[tokio::test]
async fn a_file_is_read_in_this_process() {
    let (reader, tenant) = (DocumentReader::in_process(), TenantId::default());
    let content = bytes(b"<p>Walruses &amp; <b>fish</b>");
    let chunks = reader.chunks(&tenant, file("a.html"), &content).await;
    let chunk = NewChunk { text: "Walruses & fish".to_owned(), words: "walrus fish".to_owned() };
    assert_eq!(chunks, Ok(vec![chunk]));
    let unread = reader.chunks(&tenant, file("a.pdf"), &bytes(b"%PDF-1.7")).await.unwrap_err();
    assert_eq!(unread.why, ExtractionFailure::Unsupported);
}

/// A20: what nothing can end is read only if it is small.
#[tokio::test]
async fn a_long_file_is_not_read_in_this_process() {
    let (reader, tenant) = (DocumentReader::in_process(), TenantId::default());
    let content = vec![b'a'; MAX_BYTES_IN_PROCESS + 1];
    let unread = reader.chunks(&tenant, file("a.txt"), &content.into()).await.unwrap_err();
    assert_eq!(unread.why, ExtractionFailure::Invalid);
    assert_eq!(unread.reason, "`a.txt` has more than 4 MiB");
}

#[tokio::test]
async fn a_page_is_read_and_searched_in_this_process() {
    let (reader, tenant) = (DocumentReader::in_process(), TenantId::default());
    let content = "<title>Sea</title><p>A walrus, a wälrus, a WALRUS.".as_bytes();
    let read = reader.page(&tenant, page(Some("walrus")), &content.into()).await.unwrap();
    assert_eq!((read.title.as_str(), read.text.as_str(), read.n_characters), ("Sea", "A w", 29));
    assert_eq!(read.matches.total, 2);
    let read = reader.page(&tenant, page(None), &content.into()).await.unwrap();
    assert_eq!(read.matches.total, 0);
    let unread = reader.page(&tenant, page(None), &bytes(b"<p>")).await.unwrap_err();
    assert_eq!(unread.reason, "there is no text on the page");
}
