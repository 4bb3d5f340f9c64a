//! Encoding of vectors, and exact nearest-neighbour search.
//!
//! Vectors are stored in contiguous blocks, and a query is compared with all of them. Decision 013
//! explains why.

use std::{cmp::Reverse, collections::BinaryHeap};

/// An attachment and the position of a chunk in it.
pub(super) type ChunkPosition = (i64, i64);

/// Encodes vectors contiguously.
pub(super) fn packed(vectors: &[Vec<f32>]) -> Vec<u8> {
    vectors.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// The best hits so far.
pub(super) struct Nearest {
    most: usize,
    best: BinaryHeap<Reverse<(Similarity, Reverse<ChunkPosition>)>>,
}

/// Cosine similarity. Implements `Ord`, because stored vectors contain no NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Similarity(f32);

impl Eq for Similarity {}

impl PartialOrd for Similarity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Similarity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Nearest {
    /// Creates a list of at most `most` spots.
    pub(super) fn new(most: usize) -> Self {
        Self { most, best: BinaryHeap::with_capacity(most + 1) }
    }

    /// Compares a block of `n` vectors, starting at `first`. A block with another vector length is
    /// skipped.
    pub(super) fn look_at(
        &mut self,
        question: &[f32],
        first: ChunkPosition,
        n: usize,
        block: &[u8],
    ) {
        let length = size_of_val(question);
        if length == 0 || block.len() != n * length {
            return;
        }
        for (vector, place) in block.chunks_exact(length).zip(first.1..) {
            self.see((first.0, place), likeness(question, vector));
        }
    }

    /// Adds one vector if it is among the best.
    pub(super) fn see(&mut self, spot: ChunkPosition, likeness: f32) {
        let entry = Reverse((Similarity(likeness), Reverse(spot)));
        if self.best.len() < self.most {
            self.best.push(entry);
        } else if self.best.peek().is_some_and(|worst| entry < *worst) {
            self.best.pop();
            self.best.push(entry);
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns the spots, nearest first.
    pub(super) fn spots(self) -> Vec<ChunkPosition> {
        self.best.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(spot)))| spot).collect()
    }
}

/// Number of parallel sums, for SIMD.
const LANES: usize = 16;

/// Returns the inner product of a query and a stored vector.
fn likeness(question: &[f32], kept: &[u8]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let kept = kept.chunks_exact(LANES * size_of::<f32>());
    let asked = question.chunks_exact(LANES);
    let rest = question.len() - asked.remainder().len();
    let kept_rest = kept.remainder();
    for (asked, kept) in asked.clone().zip(kept) {
        for ((sum, one), other) in sums.iter_mut().zip(asked).zip(kept.chunks_exact(4)) {
            *sum += one * number(other);
        }
    }
    let tail: f32 = question
        .iter()
        .skip(rest)
        .zip(kept_rest.chunks_exact(4))
        .map(|(one, other)| one * number(other))
        .sum();
    sums.iter().sum::<f32>() + tail
}

fn number(bytes: &[u8]) -> f32 {
    match bytes {
        [a, b, c, d] => f32::from_le_bytes([*a, *b, *c, *d]),
        _ => 0.0,
    }
}

#[cfg(test)]
#[path = "vectors_tests.rs"]
mod tests;
