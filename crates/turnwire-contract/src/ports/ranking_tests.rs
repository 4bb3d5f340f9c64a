use super::fused;

fn order(by_words: &[u32], by_meaning: &[u32]) -> Vec<u32> {
    fused(by_words, by_meaning).into_iter().map(|(key, _)| key).collect()
}

/// A chunk in both rankings beats one that is first in only one of them.
#[test]
fn what_both_know_comes_before_what_one_knows() {
    assert_eq!(order(&[1, 2, 3], &[4, 2, 5]), [2, 4, 5, 1, 3]);
    assert_eq!(order(&[1, 2], &[2, 1]), [2, 1], "meaning counts more");
}

#[test]
fn one_ranking_alone_stays_as_it_is() {
    assert_eq!(order(&[3, 1, 2], &[]), [3, 1, 2]);
    assert_eq!(order(&[], &[3, 1, 2]), [3, 1, 2]);
}

#[test]
fn scores_are_between_0_and_1() {
    let both = fused(&[7, 8], &[7, 8]);
    assert!((both[0].1 - 1.0).abs() < 1e-9, "first in both is 1: {both:?}");
    assert!(both[1].1 > 0.0 && both[1].1 < 1.0, "{both:?}");
}
