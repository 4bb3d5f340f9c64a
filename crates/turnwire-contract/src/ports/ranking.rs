//! Two rankings of the same passages become one.

use std::{collections::HashMap, hash::Hash};

/// How little it matters to be first: with more, a passage that is somewhere in both rankings
/// beats the first of either.
const FLATTENED: f64 = 10.0;

/// How much each ranking counts. Questions are mostly asked in other words than they are answered
/// in; chosen, as the number above, on the questions of `tests/retrieval`.
const WORDS: f64 = 1.0;
const MEANING: f64 = 2.0;

/// How many of each ranking have a say.
pub const RANKED: usize = 100;

/// Joins two rankings, best first each, by reciprocal rank fusion: only the places count, because
/// the scores of the two have no common measure. First in both is 1.
pub fn fused<K: Hash + Eq + Clone + Ord>(by_words: &[K], by_meaning: &[K]) -> Vec<(K, f64)> {
    let mut scores: HashMap<&K, f64> = HashMap::new();
    for (ranking, weight) in [(by_words, WORDS), (by_meaning, MEANING)] {
        let mut place = FLATTENED;
        for key in ranking.iter().take(RANKED) {
            place += 1.0;
            let share = weight / (WORDS + MEANING);
            *scores.entry(key).or_default() += share * (FLATTENED + 1.0) / place;
        }
    }
    let mut fused: Vec<(K, f64)> =
        scores.into_iter().map(|(key, score)| (key.clone(), score)).collect();
    fused.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    fused
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
