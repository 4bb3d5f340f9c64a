//! How passages are written and found by their words: the part of it that SQLite and PostgreSQL
//! do not have in common.
//!
//! Both get the words as a [`TextAnalyzer`](turnwire_contract::Reader) says them, so that a file is
//! found by the same words wherever it is kept, and both have the collection in the index of
//! words, so that other collections cost nothing.

use std::{collections::BTreeMap, fmt::Write};

/// What the two databases say differently about passages.
#[derive(Debug)]
pub(crate) struct LibraryDialect {
    /// The time now in microseconds, by the database's clock.
    pub(crate) now: &'static str,
    /// Writes passages: `$1` tenant, `$2` attachment, `$3` the first place, `$4` the texts, `$5`
    /// the words of each, as [`worded`](Self::worded), `$6` the collection.
    pub(crate) insert: &'static str,
    /// The words of a passage in collection `0`, as they are kept.
    pub(crate) worded: fn(i64, &[String]) -> String,
    /// Passages with any of `1` in any of the collections `0`.
    pub(crate) asked: fn(&[i64], &[String]) -> String,
    /// Finds passages, best first: number and score in thousand millionths. `$1` what is
    /// [`asked`](Self::asked), `$2` tenant, `$3` how many; unless it counts by itself, `$4` how
    /// many passages there are and `$5` the words alone.
    pub(crate) by_words: &'static str,
    /// The same among the attachments that come as one parameter more.
    pub(crate) by_words_among: &'static str,
    /// Whether it knows by itself how rare a word is.
    pub(crate) counts: bool,
}

pub(crate) static SQLITE: LibraryDialect = LibraryDialect {
    now: "cast(unixepoch('subsec') * 1000000 as integer)",
    // Kept apart first: matching one list with the other directly would read it over and over.
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

/// PostgreSQL ranks by how often a word is in a passage, and not by how rare it is among all of
/// them, so a question's common words would count as much as its telling ones. How rare each is
/// can be counted among the hits themselves: whoever has the word is one.
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

/// Whether this is a word as a reader promises it. Any other could be taken for the language of
/// the database.
pub(super) fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(char::is_alphanumeric)
}

/// How far PostgreSQL counts places in a text, and how often one word.
const LAST_PLACE: usize = 16_383;
const MAX_PLACES: usize = 255;

/// Words with their places, as PostgreSQL reads them; first the sign of their collection.
fn lexemes(collection: i64, words: &[String]) -> String {
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
        // Writing to a text cannot fail.
        let _ = write!(text, " '{word}':{}", at.join(","));
    }
    text
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
