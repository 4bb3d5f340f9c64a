use proptest::prelude::*;

use super::{Frame, MAX_FRAME_BYTES, MAX_LINE_BYTES, SseReader, TooLong};

fn frames_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Frame>, TooLong> {
    let mut reader = SseReader::default();
    let mut frames = Vec::new();
    for piece in pieces {
        reader.push(piece, &mut frames)?;
    }
    frames.extend(reader.finish()?);
    Ok(frames)
}

fn check(stream: &str, expected: &[(Option<&str>, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(event, data)| Frame { event: event.map(str::to_owned), data: (*data).to_owned() })
        .collect();
    assert_eq!(frames_of([stream.as_bytes()]).as_ref(), Ok(&expected), "whole");
    assert_eq!(frames_of(stream.as_bytes().chunks(1)).as_ref(), Ok(&expected), "byte by byte");
}

#[test]
fn all_line_endings_end_lines() {
    let expected = [(None, "a"), (None, "b")];
    check("data: a\n\ndata: b\n\n", &expected);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &expected);
    check("data: a\r\rdata: b\r\r", &expected);
    check("data: a\r\n\rdata: b\n\r\n", &expected);
}

#[test]
fn the_last_frame_needs_no_blank_line() {
    check("data: a\n\ndata: b\n", &[(None, "a"), (None, "b")]);
    check("data: a\n\ndata: b", &[(None, "a"), (None, "b")]);
}

#[test]
fn lines_of_data_are_joined() {
    check("data: a\ndata\ndata:  b\n\n", &[(None, "a\n\n b")]);
}

#[test]
fn names_comments_and_unknown_fields() {
    check(
        "\u{feff}: comment\nevent: ping\nid: 7\nretry: 1\nmood: good\ndata:x\n\n:\n\nevent: y\n\n",
        &[(Some("ping"), "x")],
    );
}

#[test]
fn only_the_first_line_may_have_a_byte_order_mark() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[(None, "a")]);
}

/// S4-5: invalid UTF-8 becomes U+FFFD.
#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    let frames = frames_of([b"data: a\xff\xc3(\xed\xa0\x80z\n\n".as_slice()]).unwrap();
    assert_eq!(frames[0].data, "a\u{fffd}\u{fffd}(\u{fffd}\u{fffd}\u{fffd}z");
}

#[test]
fn a_line_at_the_limit_is_read_and_one_more_byte_is_not() {
    let mut line = b"data: ".to_vec();
    line.resize(MAX_LINE_BYTES, b'x');
    assert_eq!(frames_of([line.as_slice(), b"\n\n"]).unwrap()[0].data.len(), MAX_LINE_BYTES - 6);
    line.push(b'x');
    assert_eq!(frames_of([line.as_slice()]), Err(TooLong::Line));
}

#[test]
fn a_frame_of_many_lines_has_a_limit_too() {
    let mut line = b"data: ".to_vec();
    line.resize(MAX_LINE_BYTES / 2, b'x');
    line.push(b'\n');
    let n_lines = MAX_FRAME_BYTES / line.len() + 2;
    assert_eq!(frames_of(std::iter::repeat_n(line.as_slice(), n_lines)), Err(TooLong::Frame));
}

#[test]
fn frames_before_a_line_without_end_are_good() {
    let mut stream = b"data: a\n\n".to_vec();
    stream.resize(MAX_LINE_BYTES + 100, b'x');
    let mut frames = Vec::new();
    let result = SseReader::default().push(&stream, &mut frames);
    assert_eq!((result, frames.len()), (Err(TooLong::Line), 1));
}

proptest! {
    /// The result does not depend on how the bytes are split.
    #[test]
    fn cuts_make_no_difference(
        bytes in prop::collection::vec(
            prop::sample::select(b"data: event:x\r\n\r\n\xEF\xBB\xBF\xF0\x9F\xA6\x80\0{}".to_vec()),
            0..200,
        ),
        size in 1..9_usize,
    ) {
        prop_assert_eq!(frames_of(bytes.chunks(size)), frames_of([bytes.as_slice()]));
    }
}
