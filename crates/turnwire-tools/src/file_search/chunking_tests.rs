use text_splitter::ChunkSizer;
use turnwire_contract::Chunking;

use super::{Tokens, chunks};

fn cut(max_tokens: u32, overlap_tokens: u32) -> Chunking {
    Chunking::Static { max_tokens, overlap_tokens }
}

#[test]
fn short_texts_are_one_passage() {
    assert_eq!(chunks("One.\n\nTwo.\nThree.", false, Chunking::Auto), ["One.\n\nTwo.\nThree."]);
    assert!(chunks(" \n\n ", false, Chunking::Auto).is_empty());
}

#[test]
fn tokens_are_counted_more_or_less() {
    let counts = [("", 0), ("sea", 1), ("walrus", 2), ("The walrus sleeps.", 6), ("東京", 2)];
    for (text, tokens) in counts {
        assert_eq!(Tokens.size(text), tokens, "{text}");
    }
}

/// No word is lost, and no chunk exceeds the maximum length.
#[test]
fn long_texts_are_cut_where_they_pause() {
    let paragraph = "word ".repeat(60);
    let text = format!("{paragraph}\n\n{paragraph}\n\n{paragraph}");
    assert_eq!(chunks(&text, false, cut(100, 0)).len(), 3, "one paragraph each");
    let found = chunks(&"word ".repeat(1_000), false, Chunking::Auto);
    assert!(found.iter().all(|chunk| Tokens.size(chunk) <= 256));
    let endless = "é".repeat(2_001);
    let found = chunks(&endless, false, cut(1_000, 0));
    assert_eq!(found.concat(), endless);
    assert!(found.iter().all(|chunk| Tokens.size(chunk) <= 1_000));
}

#[test]
fn neighbours_share_what_their_owner_wants() {
    let text: Vec<String> = (0..400).map(|n| format!("w{n}.")).collect();
    let text = text.join(" ");
    let apart = chunks(&text, false, cut(100, 0));
    let sharing = chunks(&text, false, cut(100, 50));
    let n_words = |chunks: &[String]| -> usize {
        chunks.iter().map(|chunk| chunk.split_whitespace().count()).sum()
    };
    assert_eq!(n_words(&apart), 400);
    assert!(n_words(&sharing) > 600, "{}", n_words(&sharing));
}

#[test]
fn markdown_is_cut_between_its_sections() {
    let text = format!("# A\n\n{}\n\n# B\n\n{}", "one ".repeat(50), "two ".repeat(50));
    let found = chunks(&text, true, cut(80, 0));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].starts_with("# B"), "{found:?}");
}
