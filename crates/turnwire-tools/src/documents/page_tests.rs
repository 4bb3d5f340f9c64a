use super::{Readable, Unreadable, readable};

const URL: &str = "https://a.example/page";

fn article(paragraphs: usize) -> String {
    let paragraph = "<p>Walruses live in the Arctic, on ice and in shallow water, and they eat \
                     clams, which they find with their <b>whiskers</b>, <a href=\"/clams\">one by \
                     one</a>.</p>";
    format!(
        "<html><head><title>Walruses - A Site</title><style>p {{ color: red }}</style></head>\
         <body><nav><a href=\"/\">Home</a><a href=\"/shop\">Shop</a></nav><article><h1>Walruses\
         </h1>{}</article><script>alert(1)</script><footer>All rights reserved</footer></body>",
        paragraph.repeat(paragraphs)
    )
}

#[test]
fn an_article_is_read_without_what_is_around_it() {
    let page = article(8);
    let Readable { title, text } = readable(page.as_bytes(), Some("text/html"), URL).unwrap();
    assert!(title.starts_with("Walruses"), "{title}");
    assert!(text.contains("clams, which they find with their **whiskers**"), "{text}");
    assert!(text.contains("[one by one](https://a.example/clams)"), "{text}");
    for noise in ["Shop", "alert", "color: red", "All rights"] {
        assert!(!text.contains(noise), "{noise}: {text}");
    }
}

#[test]
fn a_page_that_is_no_article_is_read_as_it_is() {
    let page = "<title>List</title><body><ul><li>One</li><li>Two</li></ul><script>x</script>";
    let Readable { title, text } = readable(page.as_bytes(), Some("text/html"), URL).unwrap();
    assert_eq!(title, "List");
    assert!(text.contains("One") && text.contains("Two") && !text.contains('x'), "{text}");
}

#[test]
fn plain_text_stays_as_it_is() {
    let page = readable("a < b\n* c".as_bytes(), Some("text/plain; charset=utf-8"), URL).unwrap();
    assert_eq!(page, Readable { title: String::new(), text: "a < b\n* c".to_owned() });
    let json = readable(br#"{"a": 1}"#, Some("application/vnd.api+json"), URL).unwrap();
    assert_eq!(json.text, r#"{"a": 1}"#);
}

#[test]
fn encodings_are_honoured() {
    let latin: Vec<u8> = [b"<p>Gr\xfc\xdfe, viele Gr\xfc\xdfe</p>".as_slice()].concat();
    let told = readable(&latin, Some("text/html; charset=ISO-8859-1"), URL).unwrap();
    assert_eq!(told.text, "Grüße, viele Grüße");
    let head = [b"<meta charset=\"windows-1252\">".as_slice(), &latin].concat();
    assert_eq!(readable(&head, Some("text/html"), URL).unwrap().text, "Grüße, viele Grüße");
    let (sjis, _, _) = encoding_rs::SHIFT_JIS.encode("<p>セイウチ</p>");
    let told = readable(&sjis, Some("text/html; charset=shift_jis"), URL).unwrap();
    assert_eq!(told.text, "セイウチ");
    let broken = readable(b"<p>\xff\xfe\xfdx</p>", Some("text/html; charset=utf-8"), URL);
    assert!(broken.is_ok(), "{broken:?}");
}

#[test]
fn what_is_no_text_is_told_so() {
    let kind = |kind: &str| readable(b"x", Some(kind), URL);
    let pdf = Unreadable::Kind("application/pdf".to_owned());
    assert_eq!(kind("application/pdf"), Err(pdf.clone()));
    assert_eq!(pdf.to_string(), "the page is application/pdf, which cannot be read as text");
    assert!(kind("image/svg+xml").is_err() && kind("application/octet-stream").is_err());
    let empty = readable(b"<html><script>x</script>", Some("text/html"), URL);
    assert_eq!(empty, Err(Unreadable::Empty));
}

/// A15: a page that is nested a hundred thousand times is refused without a crash.
#[test]
fn a_page_without_bottom_is_refused() {
    for tag in ["div", "b", "ul><li", "span", "blockquote"] {
        for times in [1_000, 100_000] {
            let page = format!("<{tag}>").repeat(times);
            let refused = readable(page.as_bytes(), Some("text/html"), URL);
            assert_eq!(refused, Err(Unreadable::TooDeep), "{tag} {times} times");
        }
    }
    let deep = format!("{}<p>{}</p>", "<div>".repeat(300), "Words. ".repeat(50));
    assert!(readable(deep.as_bytes(), Some("text/html"), URL).is_ok());
    let flat = format!("<script>{}</script><p>{}</p>", "a<b;".repeat(9_000), "Words. ".repeat(50));
    assert!(readable(flat.as_bytes(), Some("text/html"), URL).is_ok());
    let list = format!("<ul>{}</ul>", "<li>An entry<br>".repeat(9_000));
    assert!(readable(list.as_bytes(), Some("text/html"), URL).is_ok());
}
