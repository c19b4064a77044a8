//! Median and quartiles, and how they are written.

/// What numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds; shown as the size asks for.
    Time,
    /// How many in a second.
    PerSecond,
    /// Mebibytes.
    Mebibytes,
    /// Hundredths of a processor.
    Percent,
}

impl Unit {
    /// A number with its unit.
    #[must_use]
    pub fn show(self, number: f64) -> String {
        match self {
            Self::Time => time(number, number),
            Self::PerSecond => format!("{} a second", grouped(number)),
            Self::Mebibytes => format!("{number:.1} MiB"),
            Self::Percent => format!("{number:.2} %"),
        }
    }

    fn bare(self, number: f64, beside: f64) -> String {
        match self {
            Self::Time => {
                let shown = time(number, beside);
                shown.split(' ').next().unwrap_or_default().to_owned()
            }
            Self::PerSecond => grouped(number),
            Self::Mebibytes => format!("{number:.1}"),
            Self::Percent => format!("{number:.2}"),
        }
    }
}

/// Seconds in the unit that suits `beside`.
fn time(seconds: f64, beside: f64) -> String {
    let (number, unit) = if beside < 1e-3 {
        (seconds * 1e6, "µs")
    } else if beside < 10.0 {
        (seconds * 1e3, "ms")
    } else {
        (seconds, "s")
    };
    if number < 10.0 && unit != "µs" {
        format!("{number:.2} {unit}")
    } else if number < 100.0 && unit != "µs" {
        format!("{number:.1} {unit}")
    } else {
        format!("{} {unit}", grouped(number))
    }
}

/// A whole number with a comma at each thousand.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// The middle of some numbers, and a quarter of the way to it from either side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// A quarter of them are not above.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters.
    pub high: f64,
}

impl Spread {
    /// The spread of these numbers; `None` of none.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let at = |hundredths| percentile(numbers, hundredths);
        Some(Self { low: at(25)?, median: at(50)?, high: at(75)? })
    }

    /// As it stands in a table: `1.20 ms (1.10–1.30)`.
    #[must_use]
    pub fn show(&self, unit: Unit) -> String {
        let bare = |number| unit.bare(number, self.median);
        format!("{} ({}–{})", unit.show(self.median), bare(self.low), bare(self.high))
    }
}

/// The number that so many hundredths of them do not exceed; `None` of none.
#[must_use]
pub fn percentile(numbers: &[f64], hundredths: usize) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) * hundredths.min(100) / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_shown_in_the_unit_of_its_median() {
        let shown = |numbers: &[f64], unit| Spread::of(numbers).unwrap().show(unit);
        assert_eq!(shown(&[0.0012, 0.0011, 0.0015, 0.0013, 0.0014], Unit::Time), "1.30 ms (1.20–1.40)");
        assert_eq!(shown(&[0.000_25], Unit::Time), "250 µs (250–250)");
        assert_eq!(shown(&[0.0005, 0.0123, 0.345], Unit::Time), "12.3 ms (0.50–12.3)");
        assert_eq!(shown(&[1234.4, 1234.4, 1_234_567.0], Unit::PerSecond), "1,234 a second (1,234–1,234)");
        assert_eq!(Unit::Time.show(12.345), "12.3 s");
        assert_eq!(Unit::Mebibytes.show(9.96), "10.0 MiB");
        assert!(Spread::of(&[]).is_none());
    }

    #[test]
    fn percentiles_are_numbers_that_were_measured() {
        let numbers: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&numbers, 0), Some(1.0));
        assert_eq!(percentile(&numbers, 99), Some(198.0));
        assert_eq!(percentile(&numbers, 100), Some(200.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
