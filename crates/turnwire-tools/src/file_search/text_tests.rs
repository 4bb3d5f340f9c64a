use bm25::Tokenizer;

use super::{MAX_PASSAGE, Words, passages, text_of};

#[test]
fn plain_text_stays_as_it_is() {
    let text = "# Title\n\nOne < two & three.\n";
    assert_eq!(text_of("notes.md", text.as_bytes()).as_deref(), Some(text));
    assert_eq!(text_of("bom.txt", b"\xef\xbb\xbfhi").as_deref(), Some("hi"));
}

#[test]
fn what_is_no_text_is_left_alone() {
    assert_eq!(text_of("picture.png", b"\x89PNG\r\n"), None);
    assert_eq!(text_of("zeros.txt", b"a\0b"), None);
}

#[test]
fn a_page_is_read_without_its_markup() {
    let page = "<!DOCTYPE html><html><head><title>Sea</title><style>p{a:b}</style>\
                <SCRIPT>if (1 < 2) {}</SCRIPT></head><body><!-- <p>secret</p> -->\
                <h1>Walrus</h1><p>It <b>sleeps</b> &amp; eats.\n  A lot.</p></body></html> rest <open";
    let expected = "Sea\nWalrus\nIt sleeps & eats.\nA lot.\nrest";
    assert_eq!(text_of("page", page.as_bytes()).as_deref(), Some(expected));
    assert_eq!(text_of("x.HTML", b"<p>hi</p>").as_deref(), Some("hi"));
}

#[test]
fn short_texts_are_one_passage() {
    assert_eq!(passages("One.\n\nTwo.\nThree."), ["One.\nTwo.\nThree."]);
    assert!(passages(" \n\n ").is_empty());
}

#[test]
fn long_texts_are_cut_where_they_pause() {
    let paragraph = "word ".repeat(200);
    let text = format!("{paragraph}\n\n{paragraph}\n\n{paragraph}");
    let found = passages(&text);
    assert_eq!(found.len(), 3, "one paragraph each");
    let endless = "é".repeat(MAX_PASSAGE * 2 + 1);
    let lengths: Vec<usize> =
        passages(&endless).iter().map(|passage| passage.chars().count()).collect();
    assert_eq!(lengths, [MAX_PASSAGE, MAX_PASSAGE, 1]);
    let wide = "word ".repeat(1_000);
    let found = passages(&wide);
    assert!(found.iter().all(|passage| passage.chars().count() <= MAX_PASSAGE));
    assert_eq!(found.join(" ").split_whitespace().count(), 1_000, "no word is cut or lost");
}

#[test]
fn words_are_found_in_any_writing() {
    assert_eq!(
        Words.tokenize("The WALRUS's naïve 2nd café!"),
        ["the", "walrus", "s", "naïve", "2nd", "café"]
    );
    assert_eq!(Words.tokenize("東京へgo"), ["東", "京", "へ", "go"]);
    assert!(Words.tokenize("?! …").is_empty());
}
