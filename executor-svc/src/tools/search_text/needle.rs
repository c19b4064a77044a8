//! The text that is looked for.

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

/// A literal text, ready to be found in bytes.
#[derive(Debug)]
pub(super) enum Needle {
    /// Byte for byte.
    Exact(Box<Finder<'static>>),
    /// Blind to case.
    Folded { regex: Regex, longest: usize },
}

/// Whether case counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// It does.
    Sensitive,
    /// It does not: Unicode simple case folding, which maps each character to one character. So `K` finds the Kelvin
    /// sign and `s` the long s, but `ß` does not find `ss`.
    Insensitive,
}

impl Needle {
    pub(super) fn new(text: &str, case: Case) -> Result<Self, regex::Error> {
        Ok(match case {
            Case::Sensitive => Self::Exact(Box::new(Finder::new(text).into_owned())),
            Case::Insensitive => Self::Folded {
                regex: RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build()?,
                // A character folds to one character, of four bytes at most.
                longest: text.chars().count() * 4,
            },
        })
    }

    /// The first occurrence at or behind `from`: start and end.
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Exact(finder) => {
                let at = finder.find(bytes.get(from..)?)? + from;
                Some((at, at + finder.needle().len()))
            }
            Self::Folded { regex, .. } => {
                let found = regex.find_at(bytes, from.min(bytes.len()))?;
                Some((found.start(), found.end()))
            }
        }
    }

    /// How many bytes an occurrence has at most.
    pub(super) fn longest(&self) -> usize {
        match self {
            Self::Exact(finder) => finder.needle().len(),
            Self::Folded { longest, .. } => *longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_unicode_says_and_nothing_else_is() {
        for (text, within, found) in [
            ("straße", "STRASSE", false),
            ("STRASSE", "strasse", true),
            ("ΣΊΣΥΦΟΣ", "Σίσυφος", true),
            ("k", "\u{212a}", true),
            ("É", "e\u{301}", false),
            ("é", "É", true),
            ("a.c", "abc", false),
            ("[x]*", "y[X]*", true),
            ("İ", "i", false),
        ] {
            let needle = Needle::new(text, Case::Insensitive).unwrap();
            assert_eq!(needle.find(within.as_bytes(), 0).is_some(), found, "{text} in {within}");
        }
        assert!(Needle::new("a", Case::Sensitive).unwrap().find(b"A", 0).is_none());
    }
}
