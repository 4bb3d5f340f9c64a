use turnwire_contract::Chunking;

use super::{Chunks, MAX_BYTES, Tokens};

fn chunks(text: &str, is_markdown: bool, chunking: Chunking) -> Vec<String> {
    Chunks::of(text, is_markdown, chunking).map(str::to_owned).collect()
}

fn numbered(n_words: usize) -> String {
    (0..n_words).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

fn n_tokens(text: &str) -> usize {
    let mut tokens = Tokens::default();
    text.chars().for_each(|letter| tokens.add(letter));
    tokens.count()
}

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
        assert_eq!(n_tokens(text), tokens, "{text}");
    }
}

/// No word is lost, and no chunk exceeds the maximum length.
#[test]
fn long_texts_are_cut_where_they_pause() {
    let paragraph = "word ".repeat(60);
    let text = format!("{paragraph}\n\n{paragraph}\n\n{paragraph}");
    assert_eq!(chunks(&text, false, cut(100, 0)).len(), 3, "one paragraph each");
    let found = chunks(&"word ".repeat(1_000), false, Chunking::Auto);
    assert!(found.iter().all(|chunk| n_tokens(chunk) <= 256));
    let endless = "é".repeat(2_001);
    let found = chunks(&endless, false, cut(1_000, 0));
    assert_eq!(found.concat(), endless);
    assert!(found.iter().all(|chunk| n_tokens(chunk) <= 1_000));
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

/// A chunk that shares its begin with the one before goes on after it.
#[test]
fn no_chunk_is_a_piece_of_the_one_before() {
    let text = format!("{}\n\nShort one.\n\n{}", "one ".repeat(90), numbered(300));
    let found = chunks(&text, false, cut(100, 20));
    assert!(found[0].ends_with("Short one."), "{found:?}");
    assert!(found[1].starts_with("Short one.\n\n0 1 2"), "{found:?}");
    for pair in found.windows(2) {
        assert!(!pair[0].contains(pair[1].as_str()), "{pair:?}");
    }
}

/// Code may have lines that look like headings.
#[test]
fn code_is_not_cut_at_its_comments() {
    let code = format!("```sh\n# one\n{}\n# two\n```", "true\n".repeat(30));
    let text = format!("# A\n\n{}\n\n{code}\n\n# B\n\nEnd.", "one ".repeat(30));
    let found = chunks(&text, true, cut(42, 0));
    assert!(found.iter().all(|chunk| !chunk.starts_with("# two")), "{found:?}");
    assert!(found.last().unwrap().starts_with("# B"), "{found:?}");
}

/// A20: spaces count no tokens, but a chunk has a size all the same.
#[test]
fn a_text_without_end_has_chunks_of_some_size() {
    let text = ["a", &" ".repeat(1 << 20), "b", &"\n".repeat(1 << 20), "c"].concat();
    assert_eq!(chunks(&text, false, Chunking::Auto), ["a", "b", "c"]);
    let text = "a    ".repeat(200_000);
    let most = Chunking::Static { max_tokens: u32::MAX, overlap_tokens: u32::MAX };
    assert!(chunks(&text, true, most).iter().all(|chunk| chunk.len() <= MAX_BYTES));
}

/// A20: whatever a text is, it is looked at a few times and not over and over.
#[test]
fn a_text_is_split_in_linear_time() {
    let begins = std::time::Instant::now();
    let descending = "# a\n## a\n### a\n#### a\n##### a\n###### a\n\na\na. a a ";
    for piece in ["a ", "a", "\n", "a\n\n", "。", "# ", "```\n", descending] {
        let text = piece.repeat((1 << 20) / piece.len());
        for chunking in [Chunking::Auto, cut(4_096, 2_048)] {
            assert!(Chunks::of(&text, true, chunking).count() < 1 << 20, "{piece:?}");
        }
    }
    assert!(begins.elapsed() < std::time::Duration::from_mins(1), "{:?}", begins.elapsed());
}
