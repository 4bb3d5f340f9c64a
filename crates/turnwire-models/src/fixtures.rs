//! Replays the streams in `fixtures/` and compares them with the expected parts.
//!
//! Each `<name>.sse` is the stream of a server, each `<name>.parts` the expected result.
//! `UPDATE_GOLDENS=1 cargo test` rewrites the latter.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use turnwire_contract::ModelPart;

use crate::translator::{Dialect, Translated, Translator};

/// Error at the end of the connection, in the expected parts.
const END: &str = "the connection closed before the end of the answer";

/// Replays all streams of one provider: whole, in pieces, and cut at every byte.
pub(crate) fn check_all<D: Dialect>(provider: &str, at_least: usize, dialect: impl Fn() -> D) {
    let names = names_of(provider);
    assert!(names.len() >= at_least, "only {} streams of {provider}", names.len());
    for path in names {
        let bytes = fs::read(&path).unwrap();
        let whole = translate(dialect(), [bytes.as_slice()]);
        compare(&path.with_extension("parts"), &story_of(&whole));
        assert_ends_once(&whole, &path, bytes.len());
        for size in [1, 2, 7, 64] {
            let pieces = translate(dialect(), bytes.chunks(size));
            assert_eq!(pieces, whole, "{} in pieces of {size}", path.display());
        }
        for length in 0..bytes.len() {
            let cut = translate(dialect(), [&bytes[..length]]);
            assert_ends_once(&cut, &path, length);
            assert_begins(&whole, &cut, &path, length);
        }
    }
}

/// Returns all streams of one provider.
pub(crate) fn names_of(provider: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(provider);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = files.filter(|path| path.extension().unwrap() == "sse").collect();
    names.sort();
    names
}

/// Translates an answer that arrives in `pieces`.
pub(crate) fn translate<'a, D: Dialect>(
    dialect: D,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Translated> {
    let mut translator = Translator::new(dialect);
    let mut translated = Vec::new();
    for piece in pieces {
        translated.extend(translator.push(piece));
    }
    translated.extend(translator.finish(END));
    assert!(translator.is_over());
    translated
}

/// Formats one part per line.
pub(crate) fn story_of(translated: &[Translated]) -> String {
    let lines = translated.iter().map(|part| match part {
        // The word of the goldens.
        Ok(ModelPart::EncryptedContent(content)) => format!("ReasoningSeal({content:?})\n"),
        Ok(part) => format!("{part:?}\n"),
        Err(fault) => format!("error: {:?}\n", fault.error),
    });
    lines.collect()
}

/// An answer ends with exactly one `Finished` or error, as the last part.
pub(crate) fn assert_ends_once(translated: &[Translated], path: &Path, length: usize) {
    let is_end = |part: &Translated| matches!(part, Err(_) | Ok(ModelPart::Finished(_)));
    let ends = translated.iter().filter(|part| is_end(part)).count();
    let place = format!("{} cut at {length}", path.display());
    assert_eq!(ends, 1, "{place}");
    assert!(is_end(translated.last().unwrap()), "{place}");
}

/// The parts of a cut stream are a prefix of the parts of the whole stream, and only a stream whose
/// end was received ends without an error.
fn assert_begins(whole: &[Translated], cut: &[Translated], path: &Path, length: usize) {
    let place = format!("{} cut at {length}", path.display());
    let said = texts_of(whole);
    for (kind, text) in texts_of(cut) {
        let full = said.get(&kind).map_or("", String::as_str);
        assert!(full.starts_with(&text), "{place}: {kind} is {text:?}, not the start of {full:?}");
    }
    let last = cut.last().unwrap();
    if last.is_ok() {
        assert_eq!(last, whole.last().unwrap(), "{place}");
    }
}

fn texts_of(translated: &[Translated]) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for part in translated.iter().flatten() {
        let (kind, text) = match part {
            ModelPart::Text(text) => ("text".to_owned(), text.clone()),
            ModelPart::Refusal(text) => ("refusal".to_owned(), text.clone()),
            ModelPart::Reasoning(text) => ("reasoning".to_owned(), text.clone()),
            ModelPart::EncryptedContent(encrypted_content) => {
                ("seal".to_owned(), encrypted_content.clone())
            }
            ModelPart::CallStarted { key, id, name } => {
                (format!("name of {key}"), format!("{id:?} {name}"))
            }
            ModelPart::CallArguments { key, text } => (format!("arguments of {key}"), text.clone()),
            ModelPart::Annotation(_)
            | ModelPart::Unreadable { .. }
            | ModelPart::Logprobs(_)
            | ModelPart::Usage(_)
            | ModelPart::Finished(_) => continue,
        };
        texts.entry(kind).or_default().push_str(&text);
    }
    texts
}

#[expect(clippy::disallowed_methods, reason = "the wish to rewrite goldens is no setting")]
fn compare(golden: &Path, story: &str) {
    if std::env::var("UPDATE_GOLDENS").is_ok() {
        fs::write(golden, story).unwrap();
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    assert_eq!(story, expected, "{} is stale; see UPDATE_GOLDENS", golden.display());
}
