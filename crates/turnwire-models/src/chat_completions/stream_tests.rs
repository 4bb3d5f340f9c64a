use std::path::Path;

use proptest::prelude::*;
use turnwire_contract::ModelPart;

use super::ChatStream;
use crate::fixtures::{assert_ends_once, check_all, names_of, translate};

const PROVIDER: &str = "chat_completions";

fn dialect() -> ChatStream {
    ChatStream::new(["multiply", "add", "now"].map(str::to_owned))
}

/// S2-22, S4-5: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all(PROVIDER, 43, dialect);
}

/// S4-5: a character split over two reads arrives in one part.
#[test]
fn a_split_character_arrives_whole() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"🦀\"}}]}\n\ndata: [DONE]\n\n";
    let middle = stream.find('🦀').unwrap() + 2;
    let (first, second) = stream.as_bytes().split_at(middle);
    let translated = translate(dialect(), [first, second]);
    assert_eq!(translated.first(), Some(&Ok(ModelPart::Text("🦀".to_owned()))));
}

/// A line of unlimited length is an error.
#[test]
fn a_line_without_end_breaks_the_answer() {
    let mut stream = b"data: ".to_vec();
    stream.resize(2 * 1024 * 1024, b'x');
    let translated = translate(dialect(), stream.chunks(64 * 1024));
    assert!(matches!(translated.as_slice(), [Err(_)]), "{translated:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The parts do not depend on how the network splits the stream.
    #[test]
    fn chunking_changes_nothing(which: prop::sample::Index, sizes in prop::collection::vec(1..200_usize, 1..20)) {
        let names = names_of(PROVIDER);
        let bytes = std::fs::read(which.get(&names)).unwrap();
        let mut pieces = Vec::new();
        let mut rest = bytes.as_slice();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(translate(dialect(), pieces), translate(dialect(), [bytes.as_slice()]));
    }

    /// S4-5: any stream gives exactly one end and no panic.
    #[test]
    fn damaged_streams_end_once(
        which: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let names = names_of(PROVIDER);
        let mut bytes = std::fs::read(which.get(&names)).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let translated = translate(dialect(), [bytes.as_slice()]);
        assert_ends_once(&translated, Path::new("damaged"), bytes.len());
    }
}
