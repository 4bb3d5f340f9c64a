//! Reproducible random numbers from one seed.

use std::time::Duration;

/// A random number generator. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates an independent generator, for a concurrent task.
    pub fn fork(&mut self) -> Self {
        Self(self.roll())
    }

    /// Returns a random number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `least` to `most`, inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll() % (most.saturating_sub(least) + 1)
    }

    /// Returns a duration from `least` to `most` milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Returns `true` with a probability of `per_cent` percent.
    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.roll() % 100 < per_cent
    }

    /// Returns a random choice, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let n_choices = u64::try_from(choices.len()).ok().filter(|n| *n > 0)?;
        choices.get(usize::try_from(self.roll() % n_choices).ok()?)
    }

    /// Returns a random choice by weight, or `None` if there are none.
    pub fn weigh<'a, T>(&mut self, choices: &'a [(u64, T)]) -> Option<&'a T> {
        let total: u64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.roll().checked_rem(total)?;
        for (weight, choice) in choices {
            if left < *weight {
                return Some(choice);
            }
            left -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_same_seed_rolls_the_same() {
        let rolled = |seed| -> Vec<u64> {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.between(3, 9)).collect()
        };
        assert_eq!(rolled(7), rolled(7));
        assert_ne!(rolled(7), rolled(8));
        let (least, most) = (rolled(7).into_iter().min(), rolled(7).into_iter().max());
        assert_eq!((least, most), (Some(3), Some(9)));
    }

    #[test]
    fn weights_count() {
        let mut dice = Dice::new(1);
        let choices = [(0, "never"), (9, "often"), (1, "seldom")];
        let mut often = 0;
        for _ in 0..1_000 {
            let choice = dice.weigh(&choices).unwrap();
            assert_ne!(*choice, "never");
            often += usize::from(*choice == "often");
        }
        assert!((850..950).contains(&often), "{often}");
        assert_eq!(dice.weigh::<()>(&[]), None);
    }
}
