//! `turnwire read-pdf`, which reads what nobody should.

use std::{
    io::{Read, Write},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What becomes of a PDF: how the child ended, what it said, and how long it took.
struct Reading {
    status: ExitStatus,
    text: String,
    took: Duration,
}

fn read(content: &[u8]) -> Reading {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_turnwire"))
        .arg("read-pdf")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let content = content.to_vec();
    let writing = thread::spawn(move || {
        // A child that has died reads no more.
        let _ = stdin.write_all(&content);
    });
    let mut text = Vec::new();
    stdout.read_to_end(&mut text).unwrap();
    let status = child.wait().unwrap();
    writing.join().unwrap();
    Reading { status, text: String::from_utf8_lossy(&text).into_owned(), took: began.elapsed() }
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
    let reading = read(&walruses());
    assert!(reading.status.success(), "{:?}", reading.status);
    assert_eq!(reading.text.trim(), "Walruses sleep on ice");
}

#[test]
fn what_is_no_pdf_fails() {
    for content in [b"".as_slice(), b"walrus", b"%PDF-1.7", b"%PDF-1.7\n%%EOF"] {
        let reading = read(content);
        assert!(!reading.status.success(), "{:?}", String::from_utf8_lossy(content));
        assert_eq!(reading.text, "");
    }
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
        let reading = read(&content);
        assert!(reading.took < Duration::from_secs(30), "{what}: {:?}", reading.took);
        assert!(reading.text.len() <= 16 * 1024 * 1024, "{what}: {}", reading.text.len());
    }
}
