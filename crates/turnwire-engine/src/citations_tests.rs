use serde_json::{Value, json};
use turnwire_contract::{ToolKind, ToolOutput};

use super::{Sources, citations, place_of};

fn noted(lists: &[(ToolKind, Value)]) -> Sources {
    let mut sources = Sources::default();
    for (kind, found) in lists {
        sources
            .note(*kind, &ToolOutput { structured: Some(found.clone()), ..ToolOutput::default() });
    }
    sources
}

fn pages(urls: &[&str]) -> (ToolKind, Value) {
    let source = |url: &&str| json!({ "url": url, "title": format!("Title of {url}") });
    let sources: Vec<Value> = urls.iter().map(source).collect();
    (ToolKind::WebSearch, json!({ "action": "search", "sources": sources }))
}

fn files() -> (ToolKind, Value) {
    let file = |id: &str, name: &str| json!({ "file_id": id, "filename": name, "text": "…" });
    let results = [file("file_1", "a.md"), file("file_1", "a.md"), file("file_2", "b.pdf")];
    (ToolKind::FileSearch, json!({ "queries": ["x"], "results": results }))
}

const A: &str = "https://a.example/x";
const B: &str = "https://b.example/";

/// Cuts each citation out of the text, as a Python client does, and names its source.
fn cited(text: &str, sources: &Sources) -> Vec<(String, String)> {
    let letters: Vec<char> = text.chars().collect();
    let cut = |annotation: turnwire_contract::Annotation| {
        assert_eq!(annotation.kind, "url_citation");
        let seq = |key: &str| usize::try_from(annotation.source[key].as_u64().unwrap()).unwrap();
        let part = letters[seq("start_index")..seq("end_index")].iter().collect();
        (part, annotation.source["url"].as_str().unwrap().to_owned())
    };
    citations(text, sources).into_iter().map(cut).collect()
}

fn check(text: &str, expected: &[(&str, &str)]) {
    let owned = |(part, url): &(&str, &str)| ((*part).to_owned(), (*url).to_owned());
    let expected: Vec<(String, String)> = expected.iter().map(owned).collect();
    assert_eq!(cited(text, &noted(&[pages(&[A, B])])), expected, "{text}");
}

#[test]
fn links_cite_what_was_found() {
    check("See [this page](https://a.example/x).", &[("[this page](https://a.example/x)", A)]);
    check("See ([b](https://B.example)).", &[("[b](https://B.example)", B)]);
    check("See <https://a.example/x>.", &[("<https://a.example/x>", A)]);
    check(
        "See [x](https://a.example/x#part \"T\")!",
        &[("[x](https://a.example/x#part \"T\")", A)],
    );
    check("See [c](https://c.example/) and nothing.", &[]);
    check("**[x](https://a.example/x)**", &[("[x](https://a.example/x)", A)]);
    check("- one\n- [x](https://a.example/x)\n", &[("[x](https://a.example/x)", A)]);
}

#[test]
fn bare_addresses_cite_too() {
    check("See https://a.example/x.", &[("https://a.example/x", A)]);
    check(
        "(https://a.example/x), https://b.example",
        &[("https://a.example/x", A), ("https://b.example", B)],
    );
    check("See https://a.example/xy and https://a.example/x/y.", &[]);
    check("siehe https://a.example/x。", &[("https://a.example/x", A)]);
    let animal = "https://w.example/Walrus_(animal)";
    let sources = noted(&[pages(&[animal])]);
    let text = format!("(see {animal}).");
    assert_eq!(cited(&text, &sources), [(animal.to_owned(), animal.to_owned())]);
}

#[test]
fn numbers_in_brackets_cite() {
    check("Yes [1].", &[("[1]", A)]);
    check("Yes[2], no [3].", &[("[2]", B)]);
    check("Yes [1][2].", &[("[1]", A), ("[2]", B)]);
    check("Yes [2, 1].", &[("[2, 1]", B), ("[2, 1]", A)]);
    check("Yes 【2】 and 【1†source】.", &[("【2】", B), ("【1†source】", A)]);
    check("Yes [^1].", &[("[^1]", A)]);
    check("No [0], [], [ ], [x], [-1], [1 2], [1.", &[]);
    // A mark with a link is one citation.
    check("Yes [1](https://a.example/x).", &[("[1](https://a.example/x)", A)]);
    // A link definition in the text takes precedence over the list.
    check("Yes [1].\n\n[1]: https://b.example/", &[("[1]", B), ("https://b.example/", B)]);
}

#[test]
fn code_and_pictures_cite_nothing() {
    check("`a[1]` and `https://a.example/x`", &[]);
    check("```\na[1] = https://a.example/x\n```\nYes [1].", &[("[1]", A)]);
    check("    indented[1]\n", &[]);
    check("![x](https://a.example/x)", &[]);
    check("<a href=\"https://a.example/x\">", &[]);
}

/// Positions count code points, as in Python, whatever precedes them.
#[test]
fn places_are_counted_in_code_points() {
    let text = "🦭🦭 Grüße — सील e\u{301} [1] 👩‍👩‍👧 https://b.example/ ende";
    check(text, &[("[1]", A), ("https://b.example/", B)]);
    let found = citations(text, &noted(&[pages(&[A, B])]));
    let start = text.chars().position(|c| c == '[').unwrap();
    assert_eq!(found[0].source["start_index"], json!(start));
    assert_eq!(
        found[0].source,
        json!({ "start_index": start, "end_index": start + 3, "url": A,
                "title": format!("Title of {A}") })
    );
    assert_ne!(start, text.find('[').unwrap(), "not bytes");
    assert_ne!(start, text.encode_utf16().position(|c| c == u16::from(b'[')).unwrap());
}

/// An ambiguous number cites nothing. A link still cites its page.
#[test]
fn ambiguous_numbers_cite_nothing() {
    let sources = noted(&[pages(&[A, B]), pages(&[B])]);
    assert_eq!(cited("[1] and [2]", &sources), [("[2]".to_owned(), B.to_owned())]);
    let same = noted(&[pages(&[A, B]), pages(&[A])]);
    assert_eq!(cited("[1]", &same), [("[1]".to_owned(), A.to_owned())]);
    let mixed = noted(&[pages(&[A]), files()]);
    assert_eq!(citations("[1]", &mixed), []);
}

#[test]
fn an_opened_page_can_be_linked_but_has_no_number() {
    let opened = json!({ "action": "open_page", "sources": [{ "url": B, "title": "B" }] });
    let sources = noted(&[pages(&[A]), (ToolKind::WebSearch, opened)]);
    let expected =
        [("[1]".to_owned(), A.to_owned()), ("[b](https://b.example)".to_owned(), B.to_owned())];
    assert_eq!(cited("[1] [b](https://b.example)", &sources), expected);
}

#[test]
fn files_are_cited_by_number_name_and_id() {
    let sources = noted(&[files()]);
    let found = citations("Yes [2], [b.pdf], 【file_1】, [c.md].", &sources);
    let at = |index: usize, id: &str, name: &str| json!({ "index": index, "file_id": id, "filename": name });
    let expected = [at(4, "file_1", "a.md"), at(9, "file_2", "b.pdf"), at(18, "file_1", "a.md")];
    assert_eq!(found.iter().map(|a| a.kind.as_str()).collect::<Vec<_>>(), ["file_citation"; 3]);
    assert_eq!(found.into_iter().map(|a| a.source).collect::<Vec<_>>(), expected);
}

/// A file name may contain a comma.
#[test]
fn a_name_with_a_comma_is_one_name() {
    let results = json!([{ "file_id": "file_1", "filename": "me, you.md" }]);
    let sources = noted(&[(ToolKind::FileSearch, json!({ "results": results }))]);
    assert_eq!(citations("See [me, you.md].", &sources).len(), 1);
}

/// Only search tools have sources. Other tools may return the same shape.
#[test]
fn other_tools_have_no_sources() {
    for kind in [ToolKind::Function, ToolKind::Client, ToolKind::Mcp] {
        let sources = noted(&[(kind, pages(&[A]).1)]);
        assert_eq!(citations("[1] https://a.example/x", &sources), []);
    }
}

#[test]
fn the_same_page_is_the_same_page() {
    let same = |a: &str, b: &str| place_of(a) == place_of(b);
    assert!(same("https://A.Example/", "https://a.example#top"));
    assert!(same("HTTPS://a.example/x/", "https://a.example/x"));
    assert!(!same("https://a.example/X", "https://a.example/x"));
    assert!(!same("https://a.example/?q=1", "https://a.example/?q=2"));
    assert!(!same("http://a.example/", "https://a.example/"));
}

/// For any model output, every citation lies inside the text and the search terminates.
#[test]
fn hostile_texts_do_no_harm() {
    let sources = noted(&[pages(&[A, B]), files()]);
    let texts = [
        "[".repeat(20_000),
        "]".repeat(20_000),
        "[1]".repeat(5_000),
        "[a](".repeat(5_000),
        "http".repeat(10_000),
        "【".repeat(5_000),
        "![".repeat(5_000),
        "`".repeat(20_001),
    ];
    for text in texts {
        let length = text.chars().count();
        for annotation in citations(&text, &sources) {
            let end = annotation.source.get("end_index").or(annotation.source.get("index"));
            assert!(end.unwrap().as_u64().unwrap() <= length as u64);
        }
    }
}
