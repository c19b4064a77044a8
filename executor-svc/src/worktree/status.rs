//! What `git status --porcelain=v2 -z` says, read as it comes.

use super::fault::{Change, ChangeKind};

/// How many changes are kept; the others are counted.
const KEPT: usize = 20;

/// The words of the question. Nothing of it depends on settings, and git does not look into submodules.
pub(super) fn words(untracked: &'static str) -> [&'static str; 6] {
    ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=dirty", untracked]
}

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Scan {
    rest: Vec<u8>,
    /// The next piece is the old name of a renamed file.
    old_name: bool,
    pub first: Vec<Change>,
    pub total: usize,
}

impl Scan {
    /// Takes more of the answer.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) = memchr::memchr(0, &self.rest[from..]) {
            let entry = self.rest[from..from + length].to_vec();
            self.entry(&entry);
            from += length + 1;
        }
        self.rest.drain(..from);
    }

    fn entry(&mut self, entry: &[u8]) {
        if std::mem::take(&mut self.old_name) {
            return;
        }
        self.old_name = entry.first() == Some(&b'2');
        let Some(change) = change(entry) else { return };
        self.total += 1;
        if self.first.len() < KEPT {
            self.first.push(change);
        }
    }
}

/// What an entry says; `None` for a header, and for what is ignored.
fn change(entry: &[u8]) -> Option<Change> {
    let (kind, fields) = match entry.first()? {
        b'1' => (two_letters(entry), 8),
        b'2' => (two_letters(entry), 9),
        b'u' => (ChangeKind::Conflict, 10),
        b'?' => (ChangeKind::Untracked, 1),
        _ => return None,
    };
    let path = entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields).unwrap_or(entry);
    Some(Change { kind, path: String::from_utf8_lossy(path).into_owned() })
}

fn two_letters(entry: &[u8]) -> ChangeKind {
    match (entry.get(2), entry.get(3)) {
        (Some(b'.'), _) => ChangeKind::Unstaged,
        (_, Some(b'.')) => ChangeKind::Staged,
        _ => ChangeKind::StagedAndUnstaged,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWER: &[u8] = b"# branch.oid 1\x001 .M N... 100644 100644 100644 a b two words\x001 A. N... 0 0 0 a b new\0\
        1 MM S.M. 0 0 0 a b both\x002 R. N... 0 0 0 a b R100 now\0before\0u UU N... 0 0 0 0 a b c torn\0? un\ntracked\0! ignored\0";

    fn kinds(scan: &Scan) -> Vec<(ChangeKind, &str)> {
        scan.first.iter().map(|change| (change.kind, &*change.path)).collect()
    }

    #[test]
    fn every_kind_of_entry_is_read() {
        let mut scan = Scan::default();
        scan.push(ANSWER);
        let expected = [
            (ChangeKind::Unstaged, "two words"),
            (ChangeKind::Staged, "new"),
            (ChangeKind::StagedAndUnstaged, "both"),
            (ChangeKind::Staged, "now"),
            (ChangeKind::Conflict, "torn"),
            (ChangeKind::Untracked, "un\ntracked"),
        ];
        assert_eq!(kinds(&scan), expected);
        assert_eq!(scan.total, 6);
    }

    #[test]
    fn many_changes_are_counted_and_few_are_kept() {
        let mut scan = Scan::default();
        for _ in 0..1000 {
            scan.push(b"? x\0");
        }
        assert_eq!((scan.total, scan.first.len()), (1000, KEPT));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_answer_is_cut(cuts in prop::collection::vec(0..ANSWER.len(), 0..8)) {
            let mut whole = Scan::default();
            whole.push(ANSWER);
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut scan = Scan::default();
            let mut from = 0;
            for cut in cuts {
                scan.push(&ANSWER[from..cut]);
                from = cut;
            }
            scan.push(&ANSWER[from..]);
            prop_assert_eq!((kinds(&scan), scan.total), (kinds(&whole), whole.total));
        }

        #[test]
        fn nothing_that_git_could_say_upsets_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scan = Scan::default();
            scan.push(&bytes);
            prop_assert!(scan.first.len() <= scan.total);
        }
    }
}
