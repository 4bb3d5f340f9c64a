//! `turnwire read`, which reads what nobody should, and a gateway beside it.

use std::{
    io::{Read, Write},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    serve::{DEMO, Gateway, json_of, status_of},
    world::{PATIENCE, TURNWIRE, World},
};

const MIB: usize = 1024 * 1024;

/// What becomes of a document: how the child ended, what it answered, and how long it took.
struct Reading {
    status: ExitStatus,
    /// The kinds of the frames.
    kinds: String,
    chunks: Vec<String>,
    words: Vec<String>,
    /// The last frame in JSON.
    json: Value,
    took: Duration,
}

impl Reading {
    /// Whether the child told everything that it was to tell.
    fn is_whole(&self) -> bool {
        self.status.success() && self.kinds.ends_with(['e', 'p', 'u'])
    }

    fn reason(&self) -> &str {
        self.json["reason"].as_str().unwrap()
    }
}

fn read_file(name: &str, content: &[u8]) -> Reading {
    let memory = if content.starts_with(b"%PDF") { 1024 } else { 256 } * MIB;
    read(&json!({ "file": { "name": name, "chunking": "auto" } }), memory, content)
}

fn read(task: &Value, memory: usize, content: &[u8]) -> Reading {
    let limits = json!({ "memory": memory, "cpu_seconds": 5 });
    let request = json!({ "task": task, "bytes": content.len(), "limits": limits });
    let began = Instant::now();
    let mut child = Command::new(TURNWIRE)
        .arg("read")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let input = [request.to_string().as_bytes(), b"\n", content].concat();
    let writing = thread::spawn(move || {
        // A child that has died reads no more.
        let _ = stdin.write_all(&input);
    });
    let mut answer = Vec::new();
    stdout.read_to_end(&mut answer).unwrap();
    let status = child.wait().unwrap();
    writing.join().unwrap();
    let (mut kinds, mut chunks, mut words) = (String::new(), Vec::new(), Vec::new());
    let mut json = Value::Null;
    let mut rest = answer.as_slice();
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).unwrap();
        let Some((content, after)) = after.split_at_checked(length) else { break };
        rest = after;
        kinds.push(char::from(head[0]));
        let text = || String::from_utf8(content.to_vec()).unwrap();
        match head[0] {
            b'c' => chunks.push(text()),
            b'w' => words.push(text()),
            b'e' => {}
            _ => json = serde_json::from_slice(content).unwrap(),
        }
    }
    Reading { status, kinds, chunks, words, json, took: began.elapsed() }
}

/// A PDF made of these objects, of which the first is the catalogue.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut parts = vec!["%PDF-1.4\n".to_owned()];
    let mut places = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        places.push(parts.concat().len());
        parts.push(format!("{} 0 obj\n{object}\nendobj\n", n + 1));
    }
    let (xref, size) = (parts.concat().len(), objects.len() + 1);
    parts.push(format!("xref\n0 {size}\n0000000000 65535 f \n"));
    parts.extend(places.iter().map(|place| format!("{place:010} 00000 n \n")));
    parts.push(format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"));
    parts.concat().into_bytes()
}

fn page_with(content: &str, kids: &str) -> Vec<u8> {
    pdf(&[
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{kids}] /Count 1 >>"),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ])
}

fn walruses() -> Vec<u8> {
    page_with("BT /F1 24 Tf 72 720 Td (Walruses sleep on ice) Tj ET", "3 0 R")
}

#[test]
fn the_text_of_a_pdf_comes_out() {
    let reading = read_file("a.pdf", &walruses());
    assert!(reading.is_whole(), "{:?}", reading.status);
    assert_eq!(reading.chunks, ["Walruses sleep on ice"]);
    assert_eq!(reading.words, ["walrus sleep on ice"]);
}

#[test]
fn what_is_no_pdf_says_so() {
    for content in [b"%PDF-1.7".as_slice(), b"%PDF-1.7\n%%EOF"] {
        let reading = read_file("a.pdf", content);
        assert!(reading.is_whole(), "{:?}", String::from_utf8_lossy(content));
        assert_eq!(reading.reason(), "`a.pdf` is damaged, or not a PDF that can be read");
    }
}

#[test]
fn a_request_that_is_none_is_not_answered() {
    let mut child = Command::new(TURNWIRE)
        .arg("read")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(!child.wait().unwrap().success());
}

/// A15: whatever a file does to the process that reads it, that process ends, soon, and says
/// little.
#[test]
fn a_hostile_pdf_ends_its_reader_and_nothing_else() {
    let good = walruses();
    let nested = |open: &str, close: &str, deep: usize| {
        let object = open.repeat(deep) + &close.repeat(deep);
        pdf(&["<< /Type /Catalog /Pages 2 0 R >>".to_owned(), object])
    };
    let mut hostile = vec![
        ("deep lists", nested("[", "]", 200_000)),
        ("deep tables", nested("<< /A ", ">>", 200_000)),
        ("deep strings", nested("(", ")", 200_000)),
        ("pages that are their own children", page_with("BT ET", "2 0 R")),
        ("a page a million times", page_with("BT ET", &"3 0 R ".repeat(100_000))),
        ("a long page", page_with(&"BT /F1 9 Tf (walrus) Tj ET ".repeat(100_000), "3 0 R")),
        ("deep states", page_with(&"q ".repeat(1_000_000), "3 0 R")),
        ("deep lists on a page", page_with(&"[".repeat(300_000), "3 0 R")),
        ("a text without end", page_with(&format!("BT ({} Tj", "(".repeat(300_000)), "3 0 R")),
        ("numbers without end", page_with(&"9".repeat(1_000_000), "3 0 R")),
    ];
    for length in (0..good.len()).step_by(60) {
        hostile.push(("cut", good.get(..length).unwrap().to_vec()));
    }
    for n in 0..40_usize {
        let mut bytes = good.clone();
        for step in 0..=n % 5 {
            let place = (n * 7_919 + step * 104_729) % bytes.len();
            bytes[place] = bytes[place].wrapping_add(u8::try_from(n % 200).unwrap() + 1);
        }
        hostile.push(("changed", bytes));
    }
    assert!(hostile.len() >= 50, "{}", hostile.len());
    for (what, content) in hostile {
        let reading = read_file("a.pdf", &content);
        assert!(reading.took < Duration::from_secs(30), "{what}: {:?}", reading.took);
        let text: usize = reading.chunks.iter().map(String::len).sum();
        assert!(text <= 2 * 16 * MIB, "{what}: {text}");
    }
}

/// A20: a text without line breaks is read in bounded time.
#[test]
fn a_text_without_breaks_is_read() {
    let reading = read_file("a.txt", "a ".repeat(MIB / 2).as_bytes());
    assert!(reading.is_whole(), "{:?} after {:?}", reading.status, reading.took);
    // 256 tokens each, of which 32 are those of the chunk before.
    assert_eq!(reading.chunks.len(), (MIB / 2 - 32).div_ceil(256 - 32));
    assert_eq!(reading.chunks.len(), reading.words.len());
    assert_eq!(reading.words[0], ["a"; 256].join(" "));
}

/// A20: whatever a document is, its reader answers or ends, soon.
#[test]
fn a_hostile_text_ends_its_reader_and_nothing_else() {
    let page = json!({ "page": { "url": "https://a.example/", "most": 40_000 } });
    for (what, piece, n_bytes) in [
        ("deep elements", "<b>", MIB / 4),
        ("deep links", "<a href=x>", MIB / 4),
        ("formatting that is adopted", "<a><b></a>", MIB / 4),
        ("elements that are closed by others", "<span></x>", MIB / 4),
        ("tables in tables", "<table><tr><td>", MIB / 4),
        ("tags that do not end", "<", MIB / 4),
        ("comments that do not end", "<!--", MIB / 4),
        ("end tags", "</b>", MIB / 4),
        ("attributes", "<b a='", MIB / 4),
        ("many attributes", " a=b", MIB / 4),
        ("entities", "&amp;", MIB / 4),
        ("scripts", "<script>", MIB / 4),
        ("headings", "# a\n## a\n### a\n\n", MIB / 4),
        ("fences", "```\n", MIB / 4),
        ("one word", "a", MIB),
        ("many words", "a ", MIB),
        ("nothing but lines", "\n", MIB),
        ("nothing but spaces", " ", MIB),
        ("letters that grow", "İ", MIB),
    ] {
        let text = piece.repeat(n_bytes / piece.len());
        for reading in [
            read_file("a.html", text.as_bytes()),
            read_file("a.md", text.as_bytes()),
            read(&page, 256 * MIB, text.as_bytes()),
        ] {
            assert!(reading.took < Duration::from_mins(1), "{what}: {:?}", reading.took);
            let told: usize = reading.chunks.iter().chain(&reading.words).map(String::len).sum();
            assert!(told <= 4 * n_bytes, "{what}: {told} of {n_bytes}");
        }
    }
}

async fn file(gateway: &Gateway, key: &str, name: &str, content: &[u8]) -> Value {
    let head = format!(
        "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--x\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
    );
    let body = [head.as_bytes(), content, b"\r\n--x--\r\n"].concat();
    let upload = gateway.client.post(gateway.url("/v1/files")).bearer_auth(key);
    let upload = upload.header("content-type", "multipart/form-data; boundary=x").body(body);
    json_of(upload).await.1["id"].clone()
}

/// A store of a tenant with these files, which are being indexed.
async fn store(gateway: &Gateway, key: &str, files: &[Value]) -> String {
    let body = json!({ "name": "v", "file_ids": files });
    let (status, store) = json_of(gateway.post("/v1/vector_stores", &body).bearer_auth(key)).await;
    assert_eq!(status, StatusCode::OK, "{store}");
    store["id"].as_str().unwrap().to_owned()
}

/// Waits until all files of a store are indexed, or have failed, and returns their numbers.
async fn until_indexed(gateway: &Gateway, key: &str, store: &str) -> Value {
    let began = Instant::now();
    loop {
        let asked = gateway.get(&format!("/v1/vector_stores/{store}")).bearer_auth(key);
        let counts = json_of(asked).await.1["file_counts"].clone();
        if counts["in_progress"] == 0 {
            return counts;
        }
        assert!(began.elapsed() < PATIENCE, "{counts} after {:?}", began.elapsed());
        // Nothing tells it but asking.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A15, A20: what one tenant hands in keeps neither another one nor the server waiting: texts
/// without breaks, and pages of markup alone.
#[tokio::test]
async fn hostile_files_keep_nobody_waiting() {
    let world = World::new();
    let url = format!("sqlite://{}/runs.db", world.path().display());
    let world = world.with("TURNWIRE_STORE_URL", &url);
    let key = |tenant: &str| {
        let done = world.run(&["keys", "create", "--tenant", tenant, "--name", "laptop"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout.trim().to_owned()
    };
    let (greedy, modest) = (key("greedy"), key("modest"));
    let gateway = Gateway::start(&world, &DEMO);
    let mut files = Vec::new();
    let (text, markup) = ("a ".repeat(2 * MIB), "<b>".repeat(4 * MIB));
    for n in 0..4 {
        files.push(file(&gateway, &greedy, &format!("{n}.txt"), text.as_bytes()).await);
        files.push(file(&gateway, &greedy, &format!("{n}.html"), markup.as_bytes()).await);
    }
    store(&gateway, &greedy, &files).await;
    let small = file(&gateway, &modest, "small.txt", b"seals").await;
    let small = store(&gateway, &modest, &[small]).await;
    let health = async {
        loop {
            let began = Instant::now();
            assert_eq!(status_of(gateway.get("/healthz")).await, StatusCode::OK);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(5), "/healthz took {took:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = health => {}
        counts = until_indexed(&gateway, &modest, &small) => assert_eq!(counts["completed"], 1),
    }
}
