//! What a command wrote: the beginning and the end are kept, what lies between is counted.

use std::collections::VecDeque;

/// How much of the beginning is kept, in bytes, and as much of the end. More than any receipt can show.
const KEPT: usize = 128 * 1024;

/// The output as it is kept while it comes.
#[derive(Debug, Default)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// The output that was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptOutput {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end, if anything lies between; else what follows the beginning.
    pub tail: Vec<u8>,
    /// How many bytes were written in all.
    pub total: u64,
}

impl Kept {
    /// Takes more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(KEPT)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(KEPT);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes were written.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The end of it.
    #[must_use]
    pub fn finish(self) -> KeptOutput {
        KeptOutput { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

impl KeptOutput {
    /// Whether nothing lies between the two parts.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.total == (self.head.len() + self.tail.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_output_is_whole() {
        let mut kept = Kept::default();
        kept.push(b"one ");
        kept.push(b"two");
        let kept = kept.finish();
        assert!(kept.is_whole());
        assert_eq!(kept.head, b"one two");
    }

    proptest! {
        #[test]
        fn beginning_and_end_are_those_of_all_that_was_written(pieces in prop::collection::vec((0usize..100_000, any::<u8>()), 0..12)) {
            let mut all = Vec::new();
            let mut kept = Kept::default();
            for (length, byte) in pieces {
                let piece = vec![byte; length];
                kept.push(&piece);
                all.extend(piece);
            }
            let kept = kept.finish();
            prop_assert_eq!(kept.total, all.len() as u64);
            prop_assert_eq!(&kept.head[..], &all[..all.len().min(KEPT)]);
            let tail = all.len().saturating_sub(KEPT).min(KEPT);
            prop_assert_eq!(&kept.tail[..], &all[all.len() - tail..]);
            prop_assert_eq!(kept.is_whole(), all.len() <= 2 * KEPT);
        }
    }
}
