//! Vectors as they are kept, and the nearest of them.
//!
//! They lie one behind the other in blocks, and a question is compared with every one of them.
//! Why, is told in decision 013.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Where a passage is: its attachment, and its place there.
pub(super) type Spot = (i64, i64);

/// The bytes of vectors, one behind the other.
pub(super) fn packed(vectors: &[Vec<f32>]) -> Vec<u8> {
    vectors.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// The best so far.
pub(super) struct Nearest {
    most: usize,
    best: BinaryHeap<Reverse<(Likeness, Reverse<Spot>)>>,
}

/// How alike two directions are. Ordered, because no vector that is kept has anything in it that
/// is not a number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Likeness(f32);

impl Eq for Likeness {}

impl PartialOrd for Likeness {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Likeness {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Nearest {
    /// Will have `most` spots.
    pub(super) fn new(most: usize) -> Self {
        Self { most, best: BinaryHeap::with_capacity(most + 1) }
    }

    /// Looks at a block of `n` vectors, the first of which is at `first`. A block of vectors of
    /// another length is not comparable, and left out.
    pub(super) fn look_at(&mut self, question: &[f32], first: Spot, n: usize, block: &[u8]) {
        let length = size_of_val(question);
        if length == 0 || block.len() != n * length {
            return;
        }
        for (vector, place) in block.chunks_exact(length).zip(first.1..) {
            self.see((first.0, place), likeness(question, vector));
        }
    }

    /// Takes notice of one vector.
    pub(super) fn see(&mut self, spot: Spot, likeness: f32) {
        let entry = Reverse((Likeness(likeness), Reverse(spot)));
        if self.best.len() < self.most {
            self.best.push(entry);
        } else if self.best.peek().is_some_and(|worst| entry < *worst) {
            self.best.pop();
            self.best.push(entry);
        }
    }

    /// How many spots it will have.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The spots, nearest first.
    pub(super) fn spots(self) -> Vec<Spot> {
        self.best.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(spot)))| spot).collect()
    }
}

/// How many numbers are added up side by side, so that the processor can do them together.
const LANES: usize = 16;

/// The inner product of a vector and one that is kept.
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
