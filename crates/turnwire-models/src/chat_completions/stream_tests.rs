use std::path::Path;

use proptest::prelude::*;
use turnwire_contract::{ModelPart, Usage};

use super::ChatStream;
use crate::{
    fixtures::{assert_ends_once, check_all, names_of, translate},
    seal::Origin,
    translator::Translated,
};

const PROVIDER: &str = "chat_completions";

fn dialect() -> ChatStream {
    let names = ["multiply", "add", "now"].map(|name| (name.to_owned(), name.to_owned()));
    ChatStream::new(names, Origin::UNKNOWN)
}

/// S2-22, S4-5: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all(PROVIDER, 48, dialect);
}

/// S4-5, S4-X: a character split over two reads arrives in one part.
#[test]
fn a_split_character_arrives_whole() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"🦀\"}}]}\n\ndata: [DONE]\n\n";
    let middle = stream.find('🦀').unwrap() + 2;
    let (first, second) = stream.as_bytes().split_at(middle);
    let translated = translate(dialect(), [first, second]);
    assert_eq!(translated.first(), Some(&Ok(ModelPart::Text("🦀".to_owned()))));
}

/// The usage in a stream with one chunk.
fn usage_of(usage: &str) -> Usage {
    let stream = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"Hi\"}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
    );
    let parts = translate(dialect(), [stream.as_bytes()]);
    let usage = parts.iter().find_map(|part| match part {
        Ok(ModelPart::Usage(usage)) => Some(*usage),
        _ => None,
    });
    usage.unwrap_or_else(|| panic!("{parts:?}"))
}

/// What a provider charged is kept, in billionths.
#[test]
fn a_reported_cost_is_kept() {
    let usage = usage_of(
        r#"{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1},
            "cost":0.00014,"cost_details":{"upstream_inference_cost":null},"is_byok":false,
            "prompt_tokens":194,"prompt_tokens_details":{"cached_tokens":100,
            "cache_write_tokens":90,"audio_tokens":0},"total_tokens":196}"#
            .replace('\n', " ")
            .as_str(),
    );
    let expected = Usage {
        input_tokens: 194,
        cached_tokens: 100,
        output_tokens: 2,
        reasoning_tokens: 1,
        cost_nanos: Some(140_000),
    };
    assert_eq!(usage, expected);
    let negative = usage_of(r#"{"prompt_tokens":5,"completion_tokens":2,"cost":-1}"#);
    let expected = Usage { input_tokens: 5, output_tokens: 2, ..Usage::default() };
    assert_eq!(negative, expected);
}

/// Cached tokens are kept by the names that providers give them.
#[test]
fn cached_tokens_are_found() {
    for usage in [
        r#"{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7}}"#,
        r#"{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":7,"prompt_cache_miss_tokens":2}"#,
        r#"{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":7}"#,
    ] {
        assert_eq!(usage_of(usage).cached_tokens, 7, "{usage}");
    }
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

/// Details that have no end are not kept: until the answer ends, nobody else counts them.
#[test]
fn endless_details_are_not_kept() {
    let detail = "x".repeat(1000);
    let chunk = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"reasoning_details\":[{{\"type\":\"reasoning.text\",\
         \"text\":\"{detail}\"}}]}}}}]}}\n\n"
    );
    let end = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n\
               data: [DONE]\n\n";
    let parts = |n: usize| {
        let answer = chunk.repeat(n) + end;
        translate(dialect(), [answer.as_bytes()])
    };
    let is_seal = |part: &Translated| matches!(part, Ok(ModelPart::EncryptedContent(_)));
    assert_eq!(parts(900).iter().filter(|part| is_seal(part)).count(), 1);
    assert_eq!(parts(1100).iter().filter(|part| is_seal(part)).count(), 0);
}
