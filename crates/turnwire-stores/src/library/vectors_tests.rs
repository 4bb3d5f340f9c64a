use super::{Nearest, likeness, packed};

/// Vectors at increasing angles from the first axis.
fn fan(n: usize, length: usize) -> Vec<Vec<f32>> {
    (0..n)
        .map(|n| {
            let angle = f32::from(u16::try_from(n).unwrap()) * 0.01;
            let mut vector = vec![0.0; length];
            vector[0] = angle.cos();
            vector[length - 1] = angle.sin();
            vector
        })
        .collect()
}

#[test]
fn likeness_is_the_inner_product_at_any_length() {
    for length in [1_u16, 3, 15, 16, 17, 48, 50, 384] {
        let one: Vec<f32> = (0..length).map(|n| f32::from(n % 7)).collect();
        let other: Vec<f32> = (0..length).map(|n| f32::from(n % 5) - 2.0).collect();
        let expected: f32 = one.iter().zip(&other).map(|(one, other)| one * other).sum();
        let found = likeness(&one, &packed(&[other]));
        assert!((found - expected).abs() < 1e-3, "{length}: {found} {expected}");
    }
}

#[test]
fn the_nearest_come_first_from_whatever_block() {
    let vectors = fan(20, 20);
    let question = vectors[0].clone();
    let mut nearest = Nearest::new(4);
    nearest.look_at(&question, (2, 100), 10, &packed(&vectors[10..]));
    nearest.look_at(&question, (1, 0), 10, &packed(&vectors[..10]));
    assert_eq!(nearest.spots(), [(1, 0), (1, 1), (1, 2), (1, 3)]);
}

/// A block of another model is not comparable.
#[test]
fn vectors_of_another_length_are_left_out() {
    let mut nearest = Nearest::new(4);
    nearest.look_at(&[1.0, 0.0], (1, 0), 2, &packed(&fan(2, 3)));
    nearest.look_at(&[], (1, 0), 0, &[]);
    assert_eq!(nearest.spots(), []);
}
