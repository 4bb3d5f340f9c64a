//! Combines two rankings of the same chunks.

use std::{collections::HashMap, hash::Hash};

/// The constant k of reciprocal rank fusion. With a larger value, a chunk in both rankings beats
/// the first of either.
const FLATTENED: f64 = 10.0;

/// Weights of the rankings. Meaning counts more, because questions rarely use the words of their
/// answers. Both weights and [`FLATTENED`] were chosen with the questions in `tests/retrieval`.
const WORDS: f64 = 1.0;
const MEANING: f64 = 2.0;

/// Number of entries per ranking that are considered.
pub const RANKED: usize = 100;

/// Combines two rankings, each best first, by reciprocal rank fusion. Only ranks count, because the
/// scores of the two rankings are not comparable. A chunk that is first in both has the score 1.
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
