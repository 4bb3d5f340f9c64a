//! Files and vector stores, as official clients use them.
use std::{
    io, iter,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use futures::stream;
use serde_json::{Value, json};
use tower::ServiceExt;
use turnwire_contract::{
    Attachment, Attachments, CollectionNotes, CollectionRecord, Collections, FileRecord, Files,
    TenantId, Timestamp,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_gateway::{App, AppOptions, HttpLimits, server::router};
use turnwire_stores::{Store, StoreLibrary};
use turnwire_tools::{DefaultAnalyzer, DocumentReader, Indexer};

const BOUNDARY: &str = "turnwire-boundary";
const UPLOAD_LIMIT: usize = 1_000;
/// How much a form may have beside the file.
const FORM_BYTES: usize = 64 * 1_024;

/// A gateway without a socket, and the library behind it.
struct Desk {
    router: Router,
    library: Arc<StoreLibrary>,
    indexer: Indexer,
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The status, and the code and the param of a refusal.
    fn refusal(&self) -> (u16, Value, Value) {
        let body = self.json();
        let of = |name: &str| body.pointer(&format!("/error/{name}")).cloned().unwrap();
        (self.status.as_u16(), of("code"), of("param"))
    }
}

impl Desk {
    async fn new() -> Self {
        let reader = Arc::new(DefaultAnalyzer::default());
        let library = Arc::new(Store::in_memory().await.unwrap().library(reader.clone()));
        let indexer = Indexer::new(library.clone(), reader, DocumentReader::in_process());
        let options = AppOptions { upload_limit: UPLOAD_LIMIT, ..AppOptions::default() };
        let app = App::new(Runs::new(EngineParts::default()), library.clone(), options);
        Self { router: router(&app, &HttpLimits::default()), library, indexer }
    }

    /// Reads all files that wait for it.
    async fn read_all(&self) {
        self.indexer.work_off().await.unwrap();
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: Body) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, content_type)
            .body(body)
            .unwrap();
        self.call(request).await
    }

    async fn call(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "text/plain", Body::empty()).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "text/plain", Body::empty()).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, "application/json", Body::from(body.to_string())).await
    }

    async fn upload(&self, form: impl Into<Body>) -> Answer {
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        self.send(Method::POST, "/v1/files", &content_type, form.into()).await
    }

    /// Hands in a file and returns its id.
    async fn file(&self, name: &str, content: &[u8]) -> String {
        id_of(&self.upload(form(&[purpose("assistants"), file(name, content)])).await)
    }

    /// Opens a vector store and returns its id.
    async fn store(&self, file_ids: &[&str]) -> String {
        id_of(&self.post("/v1/vector_stores", json!({ "file_ids": file_ids })).await)
    }
}

fn too_large() -> (u16, Value, Value) {
    (413, json!("file_too_large"), json!("file"))
}

fn id_of(answer: &Answer) -> String {
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json().get("id").unwrap().as_str().unwrap().to_owned()
}

/// The ids of a list.
fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    let body = answer.json();
    let data = body.get("data").unwrap().as_array().unwrap();
    data.iter().map(|entry| entry.get("id").unwrap().as_str().unwrap().to_owned()).collect()
}

/// A part of a form.
fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn purpose(purpose: &str) -> Vec<u8> {
    part("name=\"purpose\"", purpose.as_bytes())
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    part(&format!("name=\"file\"; filename=\"{name}\""), content)
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), format!("--{BOUNDARY}--\r\n").into_bytes()].concat()
}

/// `value` without the fields that depend on the clock and on chance.
fn settled(mut value: Value, names: &[&str]) -> Value {
    for name in names {
        let field = value.get_mut(*name).unwrap();
        assert!(field.is_string() || field.as_i64().is_some_and(|moment| moment > 0), "{field}");
        *field = json!("…");
    }
    value
}

#[tokio::test]
async fn a_file_comes_back_as_it_was_handed_in() {
    let desk = Desk::new().await;
    let content = b"\0\xff<script>\r\n--turn\r\n";
    let answer = desk.upload(form(&[purpose("user_data"), file("a.bin", content)])).await;
    let id = id_of(&answer);
    assert!(id.starts_with("file"), "{id}");
    let expected = json!({
        "id": "…", "object": "file", "bytes": content.len(), "created_at": "…",
        "filename": "a.bin", "purpose": "user_data", "status": "processed", "expires_at": null,
    });
    assert_eq!(settled(answer.json(), &["id", "created_at"]), expected);
    assert_eq!(desk.get(&format!("/v1/files/{id}")).await.json(), answer.json());

    let answer = desk.get(&format!("/v1/files/{id}/content")).await;
    assert_eq!(&*answer.body, content);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/octet-stream");
    assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(answer.headers[header::CONTENT_DISPOSITION], "attachment");

    let gone = desk.delete(&format!("/v1/files/{id}")).await;
    assert_eq!(gone.json(), json!({ "id": id, "object": "file", "deleted": true }));
    for path in [format!("/v1/files/{id}"), format!("/v1/files/{id}/content")] {
        assert_eq!(desk.get(&path).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(desk.delete(&format!("/v1/files/{id}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_file_goes_when_its_time_has_come() {
    let desk = Desk::new().await;
    let upload = async |seconds: &str, anchor: &str| {
        let seconds = part("name=\"expires_after[seconds]\"", seconds.as_bytes());
        let anchor = part("name=\"expires_after[anchor]\"", anchor.as_bytes());
        desk.upload(form(&[purpose("batch"), anchor, seconds, file("a.txt", b"x")])).await
    };
    let kept = upload("3600", "created_at").await.json();
    let of = |name: &str| kept.get(name).unwrap().as_i64().unwrap();
    assert_eq!(of("expires_at"), of("created_at") + 3_600);
    for seconds in ["3599", "2592001", "soon", ""] {
        let refusal = upload(seconds, "created_at").await.refusal();
        assert_eq!(refusal, (400, json!("invalid_value"), json!("expires_after[seconds]")));
    }
    let refusal = upload("3600", "last_active_at").await.refusal();
    assert_eq!(refusal, (400, json!("invalid_value"), json!("expires_after[anchor]")));
    assert_eq!(ids(&desk.get("/v1/files").await).len(), 1);
}

/// A15: a name is shown and never used as a path.
#[tokio::test]
async fn a_file_keeps_only_the_last_part_of_its_name() {
    let desk = Desk::new().await;
    for name in ["../../etc/passwd", "C:/Users/me/passwd", "/passwd"] {
        let answer = desk.upload(form(&[purpose("assistants"), file(name, b"x")])).await;
        assert_eq!(answer.json().get("filename"), Some(&json!("passwd")));
    }
}

#[tokio::test]
async fn files_are_listed_by_purpose_and_page() {
    let desk = Desk::new().await;
    let mut all = Vec::new();
    for (name, of) in [("a", "assistants"), ("b", "batch"), ("c", "assistants")] {
        all.push(id_of(&desk.upload(form(&[purpose(of), file(name, b"x")])).await));
    }
    let [a, b, c] = <[String; 3]>::try_from(all).unwrap();
    assert_eq!(ids(&desk.get("/v1/files").await), [&*c, &*b, &*a]);
    assert_eq!(ids(&desk.get("/v1/files?order=asc&limit=10000").await), [&*a, &*b, &*c]);
    assert_eq!(ids(&desk.get("/v1/files?purpose=assistants").await), [&*c, &*a]);
    assert_eq!(ids(&desk.get(&format!("/v1/files?after={c}&limit=1")).await), [&*b]);
    let first = desk.get("/v1/files?limit=2").await.json();
    assert_eq!(first.get("has_more"), Some(&json!(true)));

    for query in ["limit=0", "limit=10001", "limit=many", "order=up", "after=file_x"] {
        let (status, code, _) = desk.get(&format!("/v1/files?{query}")).await.refusal();
        assert_eq!((status, code), (400, json!("invalid_value")), "{query}");
    }
}

/// A13: a file as big as the limit is taken, and one with a byte more is not.
#[tokio::test]
async fn a_file_has_a_limit() {
    let desk = Desk::new().await;
    let content = vec![b'x'; UPLOAD_LIMIT];
    let answer = desk.upload(form(&[file("a.txt", &content), purpose("assistants")])).await;
    assert_eq!(answer.json().get("bytes"), Some(&json!(UPLOAD_LIMIT)));
    let content = vec![b'x'; UPLOAD_LIMIT + 1];
    let answer = desk.upload(form(&[file("a.txt", &content), purpose("assistants")])).await;
    assert_eq!(answer.refusal(), too_large());
    assert_eq!(ids(&desk.get("/v1/files").await).len(), 1);
}

/// A body that begins as told and never ends, and how many bytes of it have been read since.
fn endless(begin: Vec<u8>) -> (Body, Arc<AtomicUsize>) {
    let n_read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_read);
    let more = iter::repeat_with(move || {
        counter.fetch_add(1_024, Ordering::Relaxed);
        Bytes::from_static(&[b'x'; 1_024])
    });
    let chunks = iter::once(Bytes::from(begin)).chain(more).map(Ok::<_, io::Error>);
    (Body::from_stream(stream::iter(chunks)), n_read)
}

/// A13: an endless body is not read much further than the limit, wherever in the form it hides.
#[tokio::test]
async fn an_endless_form_is_cut() {
    let desk = Desk::new().await;
    let begins = [
        part("name=\"file\"; filename=\"a\"", b""),
        part("name=\"other\"", b""),
        b"no boundary at all".to_vec(),
        format!("--{BOUNDARY}\r\nX-Endless: ").into_bytes(),
    ];
    for begin in begins {
        // Without the line break, so that the part goes on.
        let begin = begin.strip_suffix(b"\r\n").unwrap_or(&begin).to_vec();
        let (body, n_read) = endless(begin);
        assert_eq!(desk.upload(body).await.refusal(), too_large());
        let n_read = n_read.load(Ordering::Relaxed);
        assert!(n_read < UPLOAD_LIMIT + FORM_BYTES + 4 * 1_024, "{n_read}");
    }
}

/// A13: a body that announces itself as too big is not read at all.
#[tokio::test]
async fn a_form_that_is_too_big_is_not_begun() {
    let desk = Desk::new().await;
    let announced = |n_bytes: usize, body: Body| {
        Request::post("/v1/files")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))
            .header(header::CONTENT_LENGTH, n_bytes)
            .body(body)
            .unwrap()
    };
    let (body, n_read) = endless(Vec::new());
    let answer = desk.call(announced(UPLOAD_LIMIT + FORM_BYTES + 1, body)).await;
    assert_eq!(answer.refusal(), too_large());
    assert_eq!(n_read.load(Ordering::Relaxed), 0);

    let fits = form(&[purpose("assistants"), file("a", b"x")]).into();
    let answer = desk.call(announced(UPLOAD_LIMIT + FORM_BYTES, fits)).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_form_that_makes_no_sense_is_refused() {
    let desk = Desk::new().await;
    let missing = json!("missing_required_parameter");
    let invalid = json!("invalid_value");
    let cut = part("name=\"file\"; filename=\"a\"", b"begun");
    let forms = [
        (form(&[file("a", b"x")]), missing.clone(), json!("purpose")),
        (form(&[purpose("assistants")]), missing.clone(), json!("file")),
        (form(&[]), missing, json!("file")),
        (form(&[purpose(""), file("a", b"x")]), invalid.clone(), json!("purpose")),
        (form(&[purpose(&"x".repeat(1_025)), file("a", b"x")]), invalid.clone(), json!("purpose")),
        (form(&[purpose("a"), file("a", b"x"), file("b", b"y")]), invalid, json!("file")),
        (cut, json!("invalid_form"), Value::Null),
    ];
    for (form, code, param) in forms {
        assert_eq!(desk.upload(form).await.refusal(), (400, code, param));
    }
    let longest = purpose(&"x".repeat(1_024));
    assert_eq!(desk.upload(form(&[longest, file("a", b"x")])).await.status, StatusCode::OK);
    let answer = desk.post("/v1/files", json!({ "purpose": "assistants" })).await;
    assert_eq!(answer.refusal(), (400, json!("invalid_form"), Value::Null));
}

#[tokio::test]
async fn a_vector_store_lives_from_its_opening_to_its_deletion() {
    let desk = Desk::new().await;
    let (a, b) = (desk.file("a.txt", b"four").await, desk.file("b.txt", b"seven!!").await);
    let opened = desk
        .post(
            "/v1/vector_stores",
            json!({
                "name": "Manuals", "file_ids": [a, b, a], "metadata": { "team": "docs" },
                "expires_after": { "anchor": "last_active_at", "days": 1 },
                "chunking_strategy": { "type": "auto" },
            }),
        )
        .await;
    let id = id_of(&opened);
    let shown = |status: &str, bytes: u64, in_progress: u64, completed: u64| {
        json!({
            "id": "…", "object": "vector_store", "created_at": "…", "name": "Manuals",
            "usage_bytes": bytes,
            "file_counts": {
                "in_progress": in_progress, "completed": completed, "failed": 0, "cancelled": 0,
                "total": 2,
            },
            "status": status, "expires_after": { "anchor": "last_active_at", "days": 1 },
            "expires_at": "…", "last_active_at": "…", "metadata": { "team": "docs" },
        })
    };
    let by_chance = ["id", "created_at", "last_active_at", "expires_at"];
    assert_eq!(settled(opened.json(), &by_chance), shown("in_progress", 0, 2, 0));
    let of = |name: &str| opened.json().get(name).unwrap().as_i64().unwrap();
    assert_eq!(of("expires_at"), of("last_active_at") + 24 * 3_600);
    desk.read_all().await;
    let path = format!("/v1/vector_stores/{id}");
    let read = desk.get(&path).await.json();
    assert_eq!(settled(read, &by_chance), shown("completed", 11, 0, 2));

    let renamed = desk.post(&path, json!({ "name": "Books" })).await.json();
    assert_eq!(renamed.get("name"), Some(&json!("Books")));
    assert_eq!(renamed.get("metadata"), Some(&json!({ "team": "docs" })));
    assert_eq!(renamed.pointer("/expires_after/days"), Some(&json!(1)), "it stays");
    let kept = desk.post(&path, json!({ "expires_after": null })).await.json();
    assert_eq!(
        (kept.get("expires_after"), kept.get("expires_at")),
        (Some(&Value::Null), Some(&Value::Null))
    );
    let refusal =
        desk.post(&path, json!({ "expires_after": { "anchor": "last_active_at" } })).await;
    assert_eq!(refusal.refusal(), (400, json!("invalid_value"), json!("expires_after.days")));
    let annotated = desk.post(&path, json!({ "name": null, "metadata": {} })).await;
    assert_eq!(annotated.json().get("name"), Some(&json!("Books")));
    assert_eq!(annotated.json().get("metadata"), Some(&json!({})));
    assert_eq!(desk.get(&path).await.json(), annotated.json());

    let other = desk.store(&[]).await;
    assert_eq!(ids(&desk.get("/v1/vector_stores").await), [&*other, &*id]);
    assert_eq!(ids(&desk.get("/v1/vector_stores?order=asc&limit=1").await), [&*id]);

    let gone = desk.delete(&path).await.json();
    assert_eq!(gone, json!({ "id": id, "object": "vector_store.deleted", "deleted": true }));
    assert_eq!(desk.get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(desk.get(&format!("/v1/files/{a}")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_store_is_not_opened_with_a_file_that_is_not_there() {
    let desk = Desk::new().await;
    let a = desk.file("a.txt", b"x").await;
    let answer = desk.post("/v1/vector_stores", json!({ "file_ids": [a, "file_x"] })).await;
    assert_eq!(answer.refusal(), (404, json!("not_found"), Value::Null));
    assert!(ids(&desk.get("/v1/vector_stores").await).is_empty());
}

#[tokio::test]
async fn a_file_is_attached_changed_and_detached() {
    let desk = Desk::new().await;
    let (id, store) = (desk.file("a.txt", b"hello").await, desk.store(&[]).await);
    let (files, path) = (
        format!("/v1/vector_stores/{store}/files"),
        format!("/v1/vector_stores/{store}/files/{id}"),
    );
    let body = json!({
        "file_id": id, "attributes": { "year": 2024 },
        "chunking_strategy": { "type": "static", "static": {
            "max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400 } },
    });
    let attached = desk.post(&files, body).await.json();
    let expected = |status: &str, bytes: u64| {
        json!({
            "id": id, "object": "vector_store.file", "created_at": "…", "usage_bytes": bytes,
            "vector_store_id": store, "status": status, "last_error": null,
            "attributes": { "year": 2024 },
            "chunking_strategy": { "type": "static", "static": {
                "max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400 } },
        })
    };
    assert_eq!(settled(attached.clone(), &["created_at"]), expected("in_progress", 0));
    assert_eq!(desk.get(&path).await.json(), attached);
    let nothing = desk.get(&format!("{path}/content")).await.json();
    assert_eq!(nothing.get("data"), Some(&json!([])), "it is not read yet");
    desk.read_all().await;
    let read = desk.get(&path).await.json();
    assert_eq!(settled(read, &["created_at"]), expected("completed", 5));

    let changed = desk.post(&path, json!({ "attributes": { "year": 2025 } })).await.json();
    assert_eq!(changed.get("attributes"), Some(&json!({ "year": 2025 })));
    assert_eq!(changed.get("created_at"), attached.get("created_at"));
    assert_eq!(desk.get(&path).await.json(), changed);

    let text = json!([{ "type": "text", "text": "hello" }]);
    let content = json!({
        "object": "vector_store.file_content.page", "data": text,
        "has_more": false, "next_page": null,
    });
    assert_eq!(desk.get(&format!("{path}/content")).await.json(), content);

    let other = desk.file("b.txt", b"other").await;
    let waiting = desk.post(&files, json!({ "file_id": other })).await;
    let auto = json!({ "type": "static", "static": {
        "max_chunk_size_tokens": 256, "chunk_overlap_tokens": 32 } });
    assert_eq!(waiting.json().get("chunking_strategy"), Some(&auto));
    assert_eq!(ids(&desk.get(&format!("{files}?filter=in_progress")).await), [&*other]);
    desk.read_all().await;
    assert_eq!(ids(&desk.get(&files).await), [&*other, &*id]);
    assert_eq!(ids(&desk.get(&format!("{files}?filter=completed&limit=1")).await), [&*other]);
    for status in ["failed", "in_progress", "cancelled"] {
        assert!(ids(&desk.get(&format!("{files}?filter={status}")).await).is_empty());
    }
    let (status, code, _) = desk.get(&format!("{files}?filter=lost")).await.refusal();
    assert_eq!((status, code), (400, json!("invalid_value")));

    let gone = desk.delete(&path).await.json();
    assert_eq!(gone, json!({ "id": id, "object": "vector_store.file.deleted", "deleted": true }));
    for method in [Method::GET, Method::DELETE] {
        let answer = desk.send(method, &path, "text/plain", Body::empty()).await;
        assert_eq!(answer.refusal(), (404, json!("not_found"), Value::Null));
    }
    let answer = desk.post(&path, json!({ "attributes": {} })).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "a change does not attach it again");
    assert_eq!(desk.get(&format!("/v1/files/{id}")).await.status, StatusCode::OK);
}

/// A file that cannot be read says why.
#[tokio::test]
async fn a_file_that_is_not_text_fails_with_its_reason() {
    let desk = Desk::new().await;
    let id = desk.file("a.bin", b"\xff\xfe\x00\xff").await;
    let store = desk.store(&[&id]).await;
    desk.read_all().await;
    let files = format!("/v1/vector_stores/{store}/files");
    let failed = desk.get(&format!("{files}/{id}")).await.json();
    assert_eq!(failed.get("status"), Some(&json!("failed")));
    assert_eq!(failed.get("usage_bytes"), Some(&json!(0)));
    assert_eq!(failed.pointer("/last_error/code"), Some(&json!("unsupported_file")));
    let message = failed.pointer("/last_error/message").unwrap().as_str().unwrap();
    assert!(message.contains("a.bin") && message.ends_with('.'), "{message}");
    assert_eq!(ids(&desk.get(&format!("{files}?filter=failed")).await), [&*id]);
    let counts =
        json!({ "in_progress": 0, "completed": 0, "failed": 1, "cancelled": 0, "total": 1 });
    let opened = desk.get(&format!("/v1/vector_stores/{store}")).await.json();
    assert_eq!(opened.get("file_counts"), Some(&counts));
    assert_eq!(opened.get("status"), Some(&json!("completed")));
    desk.delete(&format!("/v1/files/{id}")).await;
    assert_eq!(desk.get(&format!("{files}/{id}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_batch_can_be_cancelled_before_it_is_read() {
    let desk = Desk::new().await;
    let (a, b) = (desk.file("a.txt", b"a").await, desk.file("b.txt", b"b").await);
    let store = desk.store(&[]).await;
    let path = format!("/v1/vector_stores/{store}/file_batches");
    let cut = json!({ "type": "static", "static": {
        "max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50 } });
    let body = json!({ "file_ids": [a, b], "attributes": { "x": 1 }, "chunking_strategy": cut });
    let batch = desk.post(&path, body).await;
    assert_eq!(batch.json().get("status"), Some(&json!("in_progress")));
    let path = format!("{path}/{}", id_of(&batch));
    let cancelled = desk.post(&format!("{path}/cancel"), json!({})).await.json();
    let counts =
        json!({ "in_progress": 0, "completed": 0, "failed": 0, "cancelled": 2, "total": 2 });
    assert_eq!(cancelled.get("status"), Some(&json!("cancelled")));
    assert_eq!(cancelled.get("file_counts"), Some(&counts));
    desk.read_all().await;
    assert_eq!(desk.get(&path).await.json(), cancelled);
    let files = desk.get(&format!("{path}/files?filter=cancelled")).await;
    assert_eq!(ids(&files), [&*b, &*a]);
    assert_eq!(files.json().pointer("/data/0/chunking_strategy"), Some(&cut));
    assert_eq!(files.json().pointer("/data/0/attributes"), Some(&json!({ "x": 1 })));
}

/// A store that nobody has used for long enough is of no use any more, and says so.
#[tokio::test]
async fn an_expired_store_is_not_searched() {
    let desk = Desk::new().await;
    let (tenant, at) = (TenantId::default(), Timestamp::from_micros(1));
    let notes = CollectionNotes { expires_after_days: Some(1), ..CollectionNotes::default() };
    let record =
        CollectionRecord { id: "vs_old".into(), created_at: at, last_active_at: at, notes };
    desk.library.open_collection(&tenant, record).await.unwrap();
    let shown = desk.get("/v1/vector_stores/vs_old").await.json();
    assert_eq!(shown.get("status"), Some(&json!("expired")));
    let refused = desk.post("/v1/vector_stores/vs_old/search", json!({ "query": "x" })).await;
    assert_eq!(refused.refusal(), (400, json!("file_refused"), Value::Null));
}

#[tokio::test]
async fn a_batch_is_done_when_its_files_are() {
    let desk = Desk::new().await;
    let (a, b) = (desk.file("a.txt", b"a").await, desk.file("b.txt", b"b").await);
    let broken = desk.file("c.bin", b"\xff").await;
    let store = desk.store(&[]).await;
    let path = format!("/v1/vector_stores/{store}/file_batches");
    let body = json!({ "files": [
        { "file_id": a, "attributes": { "year": 1 } }, { "file_id": broken }, { "file_id": b },
        { "file_id": a },
    ] });
    let batch = desk.post(&path, body).await;
    let id = id_of(&batch);
    let expected = |status: &str, in_progress: u64, completed: u64, failed: u64| {
        json!({
            "id": "…", "object": "vector_store.files_batch", "created_at": "…",
            "vector_store_id": store, "status": status,
            "file_counts": {
                "in_progress": in_progress, "completed": completed, "failed": failed,
                "cancelled": 0, "total": 3,
            },
        })
    };
    let by_chance = ["id", "created_at"];
    assert_eq!(settled(batch.json(), &by_chance), expected("in_progress", 3, 0, 0));
    let path = format!("{path}/{id}");
    assert_eq!(desk.get(&path).await.json(), batch.json());
    desk.read_all().await;
    let batch = desk.get(&path).await;
    assert_eq!(settled(batch.json(), &by_chance), expected("completed", 0, 2, 1));
    assert_eq!(desk.post(&format!("{path}/cancel"), json!({})).await.json(), batch.json());

    let files = desk.get(&format!("{path}/files?order=asc")).await;
    assert_eq!(ids(&files), [&*a, &*broken, &*b]);
    assert_eq!(files.json().pointer("/data/0/attributes"), Some(&json!({ "year": 1 })));
    assert_eq!(files.json().pointer("/data/1/status"), Some(&json!("failed")));
    assert_eq!(ids(&desk.get(&format!("{path}/files?filter=failed")).await), [&*broken]);
    assert_eq!(ids(&desk.get(&format!("{path}/files?filter=completed")).await), [&*b, &*a]);

    desk.delete(&format!("/v1/vector_stores/{store}/files/{a}")).await;
    assert_eq!(ids(&desk.get(&format!("{path}/files?filter=completed")).await), [&*b]);

    let elsewhere = desk.store(&[]).await;
    let answer = desk.get(&format!("/v1/vector_stores/{elsewhere}/file_batches/{id}")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    desk.delete(&format!("/v1/vector_stores/{store}")).await;
    assert_eq!(desk.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_batch_with_a_file_that_is_not_there_changes_nothing() {
    let desk = Desk::new().await;
    let (a, store) = (desk.file("a.txt", b"a").await, desk.store(&[]).await);
    let path = format!("/v1/vector_stores/{store}");
    let body = json!({ "file_ids": [a, "file_x"] });
    let answer = desk.post(&format!("{path}/file_batches"), body).await;
    assert_eq!(answer.refusal(), (404, json!("not_found"), Value::Null));
    assert!(ids(&desk.get(&format!("{path}/files")).await).is_empty());
}

#[tokio::test]
async fn a_search_finds_passages() {
    let desk = Desk::new().await;
    let store = desk.store(&[]).await;
    let path = format!("/v1/vector_stores/{store}");
    for (name, content, year) in
        [("a.txt", "apples are red", 2023), ("b.txt", "pears are green and red", 2024)]
    {
        let id = desk.file(name, content.as_bytes()).await;
        let body = json!({ "file_id": id, "attributes": { "year": year } });
        desk.post(&format!("{path}/files"), body).await;
    }
    desk.read_all().await;
    let found = async |body: Value| {
        let answer = desk.post(&format!("{path}/search"), body).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        answer.json()
    };
    let names = |page: &Value| -> Vec<String> {
        let data = page.get("data").unwrap().as_array().unwrap();
        data.iter().map(|one| one.get("filename").unwrap().as_str().unwrap().to_owned()).collect()
    };

    let page = found(json!({ "query": "apples", "rewrite_query": true })).await;
    assert_eq!(names(&page), ["a.txt"]);
    let result = page.pointer("/data/0").unwrap();
    let points = result.get("score").unwrap().as_f64().unwrap();
    assert!((0.0..=1.0).contains(&points), "{points}");
    let text = json!([{ "type": "text", "text": "apples are red" }]);
    assert_eq!(result.get("content"), Some(&text));
    assert_eq!(result.get("attributes"), Some(&json!({ "year": 2023 })));
    assert!(result.get("file_id").unwrap().as_str().unwrap().starts_with("file"));
    let mut around = page.clone();
    around.as_object_mut().unwrap().shift_remove("data");
    let expected = json!({
        "object": "vector_store.search_results.page", "search_query": ["apples"],
        "has_more": false, "next_page": null, "turnwire": { "ignored": ["rewrite_query"] },
    });
    assert_eq!(around, expected);

    let both = found(json!({ "query": ["apples", "pears"] })).await;
    assert_eq!(both.get("search_query"), Some(&json!(["apples", "pears"])));
    assert_eq!(names(&both).len(), 2);
    let one = found(json!({ "query": ["apples", "pears"], "max_num_results": 1 })).await;
    assert_eq!(names(&one).len(), 1);
    let newer = json!({ "type": "gte", "key": "year", "value": 2024 });
    assert_eq!(names(&found(json!({ "query": "red", "filters": newer })).await), ["b.txt"]);
    let ranking = json!({ "score_threshold": 1.0 });
    assert!(names(&found(json!({ "query": "red", "ranking_options": ranking })).await).is_empty());
    assert!(names(&found(json!({ "query": "bananas" })).await).is_empty());

    let answer = desk.post(&format!("{path}/search"), json!({ "query": "a", "filters": 1 })).await;
    assert_eq!(answer.refusal(), (400, json!("invalid_value"), json!("filters")));
}

/// A1: whatever route somebody tries with somebody else's id, the answer is the one for an id
/// that nobody has, and nothing is changed.
#[tokio::test]
async fn what_belongs_to_others_is_not_there() {
    let desk = Desk::new().await;
    let (theirs, now) = (TenantId::from("somebody else"), Timestamp::from_micros(1));
    let file = FileRecord {
        id: "file_theirs".into(),
        name: "secret.txt".to_owned(),
        bytes: 6,
        purpose: "assistants".to_owned(),
        created_at: now,
        expires_at: None,
    };
    let notes = CollectionNotes { name: "secret".to_owned(), ..CollectionNotes::default() };
    let store =
        CollectionRecord { id: "vs_theirs".into(), created_at: now, last_active_at: now, notes };
    let attachment = Attachment::new(file.id.clone(), now);
    let library = &desk.library;
    library.add_file(&theirs, file.clone(), b"secret".as_slice().into()).await.unwrap();
    library.open_collection(&theirs, store.clone()).await.unwrap();
    library.attach(&theirs, &store.id, None, vec![attachment.clone()]).await.unwrap();
    desk.read_all().await;
    let store = library.collection(&theirs, &store.id).await.unwrap();
    let attachment = library.attachment(&theirs, &store.id, &attachment.file_id).await.unwrap();

    let (my_file, my_store) = (desk.file("a.txt", b"x").await, desk.store(&[]).await);
    let none = Value::Null;
    let attempts = [
        (Method::GET, "/v1/files/FILE".to_owned(), none.clone()),
        (Method::GET, "/v1/files/FILE/content".to_owned(), none.clone()),
        (Method::DELETE, "/v1/files/FILE".to_owned(), none.clone()),
        (Method::POST, "/v1/vector_stores".to_owned(), json!({ "file_ids": ["FILE"] })),
        (Method::GET, "/v1/vector_stores/STORE".to_owned(), none.clone()),
        (Method::POST, "/v1/vector_stores/STORE".to_owned(), json!({ "name": "mine" })),
        (Method::DELETE, "/v1/vector_stores/STORE".to_owned(), none.clone()),
        (Method::POST, "/v1/vector_stores/STORE/search".to_owned(), json!({ "query": "secret" })),
        (Method::GET, "/v1/vector_stores/STORE/files".to_owned(), none.clone()),
        (Method::POST, "/v1/vector_stores/STORE/files".to_owned(), json!({ "file_id": my_file })),
        (Method::GET, "/v1/vector_stores/STORE/files/FILE".to_owned(), none.clone()),
        (Method::GET, "/v1/vector_stores/STORE/files/FILE/content".to_owned(), none.clone()),
        (
            Method::POST,
            "/v1/vector_stores/STORE/files/FILE".to_owned(),
            json!({ "attributes": {} }),
        ),
        (Method::DELETE, "/v1/vector_stores/STORE/files/FILE".to_owned(), none.clone()),
        (
            Method::POST,
            "/v1/vector_stores/STORE/file_batches".to_owned(),
            json!({ "file_ids": [my_file] }),
        ),
        (Method::GET, "/v1/vector_stores/STORE/file_batches/vsfb_1".to_owned(), none.clone()),
        (Method::POST, "/v1/vector_stores/STORE/file_batches/vsfb_1/cancel".to_owned(), json!({})),
        (Method::GET, "/v1/vector_stores/STORE/file_batches/vsfb_1/files".to_owned(), none.clone()),
        (Method::POST, format!("/v1/vector_stores/{my_store}/files"), json!({ "file_id": "FILE" })),
        (Method::GET, format!("/v1/vector_stores/{my_store}/files/FILE"), none.clone()),
        (
            Method::POST,
            format!("/v1/vector_stores/{my_store}/file_batches"),
            json!({ "file_ids": ["FILE"] }),
        ),
    ];
    for (method, path, body) in attempts {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answers = Vec::new();
        for (file, store) in [("file_theirs", "vs_theirs"), ("file_nobody", "vs_nobody")] {
            let named = |text: &str| text.replace("FILE", file).replace("STORE", store);
            let body = Body::from(named(&body));
            let path = named(&path);
            let answer = desk.send(method.clone(), &path, "application/json", body).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            answers.push(text.replace(file, "FILE").replace(store, "STORE"));
        }
        assert_eq!(answers.first(), answers.last(), "{method} {path}");
    }

    assert_eq!(ids(&desk.get("/v1/files").await), [&*my_file]);
    assert_eq!(ids(&desk.get("/v1/vector_stores").await), [&*my_store]);
    assert_eq!(library.file(&theirs, &file.id).await, Ok(file.clone()));
    assert_eq!(library.collection(&theirs, &store.id).await, Ok(store.clone()));
    assert_eq!(library.attachments(&theirs, &store.id).await, Ok(vec![attachment]));
}
