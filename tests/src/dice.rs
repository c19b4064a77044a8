//! Random decisions that can be made again: everything follows from one number, which is printed.

/// A source of decisions (xorshift64*).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The decisions that follow from this number.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        // Zero would stay zero for ever; neighbouring seeds must not give neighbouring decisions.
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self(if mixed == 0 { 1 } else { mixed })
    }

    /// The seed that an environment variable names, else a new one.
    ///
    /// # Panics
    /// When the variable holds no number.
    #[must_use]
    pub fn seed_from(variable: &str) -> u64 {
        match std::env::var(variable) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
            Err(_) => uuid::Uuid::new_v4().as_u64_pair().0 >> 16,
        }
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from `range`, its end left out.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        assert!(!range.is_empty(), "nothing to choose from");
        range.start + (self.next() >> 11) % (range.end - range.start)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.within(0..100) < chance
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.within(0..choices.len() as u64);
        choices[usize::try_from(at).expect("an index")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_decisions_and_all_choices_come_up() {
        let (mut one, mut other) = (Dice::of(7), Dice::of(7));
        let drawn: Vec<u64> = (0..200).map(|_| one.within(3..9)).collect();
        assert_eq!(drawn, (0..200).map(|_| other.within(3..9)).collect::<Vec<_>>());
        assert!((3..9).all(|number| drawn.contains(&number)));
        assert_ne!(drawn, (0..200).map(|_| Dice::of(8).within(0..9)).collect::<Vec<_>>());
    }
}
