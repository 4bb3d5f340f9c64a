//! SQL for full-text search of chunks, where SQLite and PostgreSQL differ.
//!
//! Both store the same words of a chunk, so that a search matches the same words in both. Both
//! include the collection in the full-text index, so that other collections cost nothing.

use std::{collections::BTreeMap, fmt::Write};

/// SQL about chunks that differs between the two databases.
#[derive(Debug)]
pub(crate) struct LibraryDialect {
    /// The current time in microseconds, by the database's clock.
    pub(crate) now: &'static str,
    /// Inserts chunks: `$1` tenant, `$2` attachment, `$3` the first position, `$4` the texts, `$5`
    /// the words of each, as [`worded`](Self::worded), `$6` the collection.
    pub(crate) insert: &'static str,
    /// Encodes the words of a chunk in collection `0`.
    pub(crate) worded: fn(i64, &[&str]) -> String,
    /// Query for chunks with any of the words `1` in any of the collections `0`.
    pub(crate) asked: fn(&[i64], &[String]) -> String,
    /// Finds chunks, best first: row number and score in billionths. `$1` the
    /// [`asked`](Self::asked) query, `$2` tenant, `$3` limit; unless `counts` is set, `$4` the
    /// number of chunks and `$5` the words.
    pub(crate) by_words: &'static str,
    /// The same, restricted to attachments given by one more parameter.
    pub(crate) by_words_among: &'static str,
    /// Whether the database computes word rarity itself.
    pub(crate) counts: bool,
}

pub(crate) static SQLITE: LibraryDialect = LibraryDialect {
    now: "cast(unixepoch('subsec') * 1000000 as integer)",
    // Materialized first: a direct join would scan one list for every element of the other.
    insert: "insert into worded_passages (tenant, attachment, place, text, scope, words)
             with ones as materialized (select key, value from json_each($4)),
                  others as materialized (select key, value from json_each($5))
             select $1, $2, $3 + ones.key, ones.value, 'c' || $6, others.value
             from ones join others on others.key = ones.key",
    worded: |_, words| words.join(" "),
    asked: |collections, words| {
        let scopes: Vec<String> =
            collections.iter().map(|number| format!("\"c{number}\"")).collect();
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        format!("scope : ({}) AND words : ({})", scopes.join(" OR "), words.join(" OR "))
    },
    by_words:
        "select p.number, cast(-bm25(passage_words, 0.0, 1.0) * 1000000000 as integer) as score
               from passage_words cross join passages as p on p.number = passage_words.rowid
               where passage_words match $1 and p.tenant = $2
               order by score desc, p.number limit $3",
    by_words_among:
        "select p.number, cast(-bm25(passage_words, 0.0, 1.0) * 1000000000 as integer) as score
               from passage_words cross join passages as p on p.number = passage_words.rowid
               where passage_words match $1 and p.tenant = $2
                   and p.attachment in (select value from json_each($4))
               order by score desc, p.number limit $3",
    counts: true,
};

pub(crate) static POSTGRES: LibraryDialect = LibraryDialect {
    now: "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)",
    insert: "insert into passages (tenant, attachment, place, text, words)
             select $1::text, $2::bigint, $3::bigint + n - 1, one, other::tsvector
             from unnest($4::text[], $5::text[]) with ordinality as pairs(one, other, n)
             where $6::bigint is not null",
    worded: lexemes,
    asked: |collections, words| {
        let scopes: Vec<String> = collections.iter().map(|number| format!("'#{number}'")).collect();
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        format!("({}) & ({})", scopes.join(" | "), words.join(" | "))
    },
    by_words: BY_WORDS,
    by_words_among: BY_WORDS_AMONG,
    counts: false,
};

/// PostgreSQL ranks by word frequency in a chunk, not by rarity among all chunks, so common words
/// of a query would count as much as rare ones. The rarity can be counted among the hits: every
/// chunk with the word is one.
macro_rules! by_words {
    ($among:literal) => {
        concat!(
            "with terms as materialized
                (select distinct quote_literal(value)::tsquery as term
                 from unnest($5::text[]) as list(value)),
              hits as materialized
                (select p.number, p.words from passages as p
                 where p.words @@ $1::tsquery and p.tenant = $2 ",
            $among,
            "),
              weights as materialized
                (select t.term, ln(1 + ($4::float8 - least(count(*), $4) + 0.5) / (count(*) + 0.5)) as weight
                 from terms as t join hits as h on h.words @@ t.term group by t.term)
              select h.number,
                     cast(sum(w.weight * ts_rank(h.words, w.term, 1)) * 1000000000 as bigint) as score
              from hits as h join weights as w on h.words @@ w.term
              group by h.number order by score desc, h.number limit $3"
        )
    };
}

const BY_WORDS: &str = by_words!("");
const BY_WORDS_AMONG: &str = by_words!("and p.attachment = any($6::bigint[])");

/// Returns whether this is a valid word from an analyzer. Any other text could inject query syntax.
pub(crate) fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(char::is_alphanumeric)
}

/// Maximum word position in PostgreSQL, and maximum number of positions per word.
const LAST_PLACE: usize = 16_383;
const MAX_PLACES: usize = 255;

/// Encodes words with positions as a `tsvector`; the first lexeme is the collection.
fn lexemes(collection: i64, words: &[&str]) -> String {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, word) in words.iter().enumerate() {
        let at = places.entry(word).or_default();
        if at.len() < MAX_PLACES {
            at.push((n + 1).min(LAST_PLACE));
        }
    }
    let mut text = format!("'#{collection}'");
    for (word, at) in places {
        let at: Vec<String> = at.iter().map(ToString::to_string).collect();
        // Writing to a `String` cannot fail.
        let _ = write!(text, " '{word}':{}", at.join(","));
    }
    text
}

#[cfg(test)]
#[path = "library_dialect_tests.rs"]
mod tests;
