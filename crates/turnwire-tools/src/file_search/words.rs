//! The words that a text is found by.

use std::{collections::HashSet, sync::LazyLock};

use rust_stemmers::{Algorithm, Stemmer};

/// Longer ones are cut: nobody asks for them, and databases have limits.
const MAX_WORD: usize = 64;

/// English words that are in every text. In other languages how common a word is says the same,
/// only later.
const EVERYWHERE: &str = "a about after all also am an and any are as at be because been before \
    being between both but by can could did do does doing down during each few for from further \
    had has have having he her here hers him his how i if in into is it its itself just me more \
    most my no nor not of off on once only or other our out over own same she should so some such \
    than that the their them then there these they this those through to too under until up us \
    very was we were what when where which while who whom whose why will with would you your";

/// Cuts a text into words: small letters without marks between them, and of English words the
/// stem, so that `walruses` finds `walrus`. Signs of scripts without spaces are words of their own.
pub(super) fn words_of(text: &str) -> Vec<String> {
    plain_words(text).map(|word| stem(&word)).collect()
}

/// The words of a question that tell something; all of them if none does.
pub(super) fn asked(question: &str) -> Vec<String> {
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
