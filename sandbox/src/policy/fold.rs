//! One spelling for all names that some file system takes for the same.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// The name without regard to case, composition, compatibility forms and characters that show nothing.
///
/// Coarser than any single file system: APFS and HFS+ fold case and composition, HFS+ and case-folding ext4 also skip
/// characters such as the zero-width joiner. Two names that fold alike are treated alike everywhere.
pub(super) fn fold(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return if name.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
    }
    let decomposed = name.nfkd().filter(|c| !shows_nothing(*c));
    // Upper case first: it maps letters such as the long s or the dotless i onto the plain ones.
    let lowered = decomposed.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    Cow::Owned(lowered.nfkd().filter(|c| !shows_nothing(*c)).collect())
}

/// Characters that Unicode calls default-ignorable.
const fn shows_nothing(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_some_file_system_takes_for_the_same_fold_alike() {
        for (one, other) in [
            (".SSH", ".ssh"),
            (".\u{17f}sh", ".ssh"),
            (".ss\u{200d}h", ".ssh"),
            ("\u{feff}.env", ".env"),
            (".e\u{ff4e}v", ".env"),
            ("Pa\u{df}", "PASS"),
            ("caf\u{e9}", "CAFE\u{301}"),
            (".\u{212a}ube", ".kube"),
        ] {
            assert_eq!(fold(one), fold(other), "{one:?} {other:?}");
        }
        assert_ne!(fold(".ssh"), fold(".ssi"));
    }
}
