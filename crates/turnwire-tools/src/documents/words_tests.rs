use super::{MAX_WORD, asked, words_of};

#[test]
fn words_are_found_in_any_writing() {
    assert_eq!(
        words_of("The WALRUS's naïve 2nd café!"),
        ["the", "walrus", "s", "naïve", "2nd", "café"]
    );
    assert_eq!(words_of("東京へgo"), ["東", "京", "へ", "go"]);
    assert!(words_of("?! …").is_empty());
}

#[test]
fn english_words_are_found_in_all_their_forms() {
    assert_eq!(words_of("sleeping sleeps walruses"), words_of("sleep sleep walrus"));
    assert_eq!(words_of("Häuser"), ["häuser"], "others stay as they are");
}

#[test]
fn a_question_is_asked_by_its_telling_words() {
    assert_eq!(asked("Where does the walrus sleep?"), ["walrus", "sleep"]);
    assert_eq!(asked("To be, or not to be?"), words_of("to be or not to be"));
}

/// Words contain no characters that a database's query syntax interprets.
#[test]
fn a_word_has_letters_and_digits_only() {
    let words = words_of("a'b \"c\" d\\e f:g h* (i) \u{1b}[0m j\u{0}k ＡＢ Ⅷ");
    let plain = |word: &String| word.chars().all(char::is_alphanumeric);
    assert!(words.iter().all(plain), "{words:?}");
    assert_eq!(words_of(&"x1".repeat(MAX_WORD)), ["x1".repeat(MAX_WORD / 2)]);
}
