use super::{NAME_LENGTH, clean};

/// A15: of a name that is a path only the last part is kept.
#[test]
fn a_name_is_not_a_path() {
    let names = [
        ("notes.txt", "notes.txt"),
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("C:\\Users\\me\\notes.txt", "notes.txt"),
        ("a/b\\c", "c"),
        ("..", "upload"),
        ("a/.", "upload"),
        ("folder/", "upload"),
        ("", "upload"),
        (" \t ", "upload"),
        ("a\0b\r\nc\u{1b}[31m.txt", "abc[31m.txt"),
        ("Übersicht für März.txt", "Übersicht für März.txt"),
    ];
    for (given, kept) in names {
        assert_eq!(clean(given), kept, "{given:?}");
    }
}

#[test]
fn a_long_name_keeps_its_end() {
    let longest = "ä".repeat(NAME_LENGTH - 4) + ".txt";
    assert_eq!(clean(&longest), longest);
    assert_eq!(clean(&format!("b{longest}")), longest);
}
