use super::{Kind, without_markup};

#[test]
fn plain_text_stays_as_it_is() {
    let text = "# Title\n\nOne < two & three.\n";
    assert_eq!(Kind::of("notes.txt", text.as_bytes()), Kind::Text(text));
    assert_eq!(Kind::of("Notes.MD", text.as_bytes()), Kind::Markdown(text));
    assert_eq!(Kind::of("bom.txt", b"\xef\xbb\xbfhi"), Kind::Text("hi"));
}

/// A15: the type does not depend on the name of a file.
#[test]
fn what_is_no_text_is_left_alone() {
    assert_eq!(Kind::of("picture.png", b"\x89PNG\r\n"), Kind::Unknown);
    assert_eq!(Kind::of("picture.txt", b"\x89PNG\r\n"), Kind::Unknown);
    assert_eq!(Kind::of("zeros.txt", b"a\0b"), Kind::Unknown);
    assert_eq!(Kind::of("notes.txt", b"\n%PDF-1.7\n"), Kind::Pdf);
    assert_eq!(Kind::of("paper.pdf", b"no paper"), Kind::Text("no paper"));
}

#[test]
fn a_page_is_read_without_its_markup() {
    let page = "<!DOCTYPE html><html><head><title>Sea</title><style>p{a:b}</style>\
                <SCRIPT>if (1 < 2) {}</SCRIPT></head><body><!-- <p>secret</p> -->\
                <h1>Walrus</h1><p>It <b>sleeps</b> &amp; eats.\n  A lot.</p></body></html> rest <open";
    assert_eq!(Kind::of("page", page.as_bytes()), Kind::Page(page));
    assert_eq!(without_markup(page), "Sea\nWalrus\nIt sleeps & eats.\nA lot.\nrest");
    assert_eq!(Kind::of("x.HTML", b"<p>hi</p>"), Kind::Page("<p>hi</p>"));
}
