//! Index terms of a text.

use std::{collections::HashSet, sync::LazyLock};

use rust_stemmers::{Algorithm, Stemmer};

/// Maximum length of a word. Longer ones are truncated: they are not searched for, and databases
/// have limits.
const MAX_WORD: usize = 64;

/// English stop words. In other languages, frequent words get a low weight by their frequency.
const EVERYWHERE: &str = "a about after all also am an and any are as at be because been before \
    being between both but by can could did do does doing down during each few for from further \
    had has have having he her here hers him his how i if in into is it its itself just me more \
    most my no nor not of off on once only or other our out over own same she should so some such \
    than that the their them then there these they this those through to too under until up us \
    very was we were what when where which while who whom whose why will with would you your";

/// Returns the index terms of a chunk, separated by spaces.
pub(super) fn of_chunk(text: &str) -> String {
    words_of(text).join(" ")
}

/// Splits a text into lower-case words of letters and digits. English words are stemmed, so that
/// `walruses` finds `walrus`. In scripts without spaces, each character is a word.
fn words_of(text: &str) -> Vec<String> {
    plain_words(text).map(|word| stem(&word)).collect()
}

/// Returns the words of a query without stop words; all words if only stop words remain.
pub(crate) fn asked(question: &str) -> Vec<String> {
    static COMMON: LazyLock<HashSet<&str>> =
        LazyLock::new(|| EVERYWHERE.split_whitespace().collect());
    let telling: Vec<String> = plain_words(question)
        .filter(|word| !COMMON.contains(word.as_str()))
        .map(|word| stem(&word))
        .collect();
    if telling.is_empty() { words_of(question) } else { telling }
}

fn stem(word: &str) -> String {
    static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        ENGLISH.stem(word).into_owned()
    } else {
        word.to_owned()
    }
}

fn plain_words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let (mut word, mut length) = (String::new(), 0);
    for letter in text.chars().flat_map(char::to_lowercase) {
        let alone = stands_alone(letter);
        if alone || !letter.is_alphanumeric() {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            length = 0;
        }
        if alone {
            words.push(letter.to_string());
        } else if letter.is_alphanumeric() && length < MAX_WORD {
            word.push(letter);
            length += 1;
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words.into_iter()
}

fn stands_alone(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
