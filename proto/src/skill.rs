//! A skill's id and text: what an allowlist pins, and what of it is instruction.
//!
//! The executor checks by this what may enter a session, and the command line tells by it what to pin; both have to come
//! to the same hash.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;

/// The largest SKILL.md, in bytes.
pub const MAX_TEXT: usize = 256 * 1024;
/// The most that the instructions of all skills of a session may have together, in bytes.
pub const MAX_BODIES: usize = 192 * 1024;
/// How many skills a session may carry.
pub const MAX_SKILLS: usize = 8;

/// The longest prefix and the longest name, in bytes.
const MAX_PREFIX: usize = 32;
const MAX_NAME: usize = 64;

/// `PREFIX:NAME`. The name is one component of a path and nothing else, whatever is done with it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillId(String);

/// Why a text is no id of a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not PREFIX:NAME (a prefix of a-z, 0-9, - and _ that begins with a letter; a name of letters, digits, ., - and _ \
     that begins with a letter or digit; at most {MAX_PREFIX} and {MAX_NAME} characters, all ASCII)"
)]
pub struct InvalidSkillId;

impl SkillId {
    /// What says where the skill comes from, for example `personal`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.parts().0
    }

    /// The skill's name, which is its folder's too.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once(':').unwrap_or_default()
    }
}

/// Whether a text can stand before the colon of an id.
#[must_use]
pub fn is_prefix(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    text.len() <= MAX_PREFIX && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(rest)
}

fn is_name(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.len() <= MAX_NAME && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(rest)
}

impl TryFrom<String> for SkillId {
    type Error = InvalidSkillId;
    fn try_from(text: String) -> Result<Self, InvalidSkillId> {
        match text.split_once(':') {
            Some((prefix, name)) if is_prefix(prefix) && is_name(name) => Ok(Self(text)),
            _ => Err(InvalidSkillId),
        }
    }
}

impl std::str::FromStr for SkillId {
    type Err = InvalidSkillId;
    fn from_str(text: &str) -> Result<Self, InvalidSkillId> {
        Self::try_from(text.to_owned())
    }
}

impl From<SkillId> for String {
    fn from(id: SkillId) -> Self {
        id.0
    }
}

impl fmt::Display for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A whole SKILL.md in its normal form: without the byte order mark, every line ended by a line feed alone. Nothing else is
/// changed, and no final line feed is added.
#[derive(Clone, PartialEq, Eq)]
pub struct SkillText(String);

/// The bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not UTF-8 (first bad byte at offset {offset})")]
pub struct NotUtf8 {
    /// Where the first bad sequence begins, in bytes from the start of the file.
    pub offset: usize,
}

impl SkillText {
    /// Brings the bytes of a SKILL.md into the normal form.
    ///
    /// # Errors
    /// Where they stop being UTF-8.
    pub fn of(bytes: &[u8]) -> Result<Self, NotUtf8> {
        let text = std::str::from_utf8(bytes).map_err(|error| NotUtf8 { offset: error.valid_up_to() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(Self(text.replace("\r\n", "\n").replace('\r', "\n")))
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What an allowlist pins: SHA-256 of the whole text, as lower-case hexadecimal text.
    #[must_use]
    pub fn sha256(&self) -> String {
        sha256_hex(self.0.as_bytes())
    }

    /// The instructions: what follows the front matter, to the byte; `None` if there is nothing but white space.
    ///
    /// Front matter is what stands between a first line of three dashes and the next such line; blanks behind the dashes do
    /// not count. Without the second line there is none, and everything is instruction.
    #[must_use]
    pub fn body(&self) -> Option<&str> {
        let body = after_front_matter(&self.0);
        (!body.trim().is_empty()).then_some(body)
    }
}

/// Skills are for one reader: how long it is says enough to everybody else.
impl fmt::Debug for SkillText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SkillText({} bytes)", self.0.len())
    }
}

fn after_front_matter(text: &str) -> &str {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else { return text };
    let mut end = first.len();
    for line in lines {
        end += line.len();
        if is_fence(line) {
            return &text[end..];
        }
    }
    text
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches(['\n', ' ', '\t']) == "---"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> SkillText {
        SkillText::of(bytes).unwrap()
    }

    #[test]
    fn the_normal_form_has_no_mark_no_carriage_return_and_no_line_end_of_its_own() {
        for (given, wanted) in [
            (&b"\xef\xbb\xbfa\r\nb"[..], "a\nb"),
            (b"a\rb\r", "a\nb\n"),
            (b"a\r\r\nb\n\r", "a\n\nb\n\n"),
            (b"a\xef\xbb\xbf", "a\u{feff}"),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", "\u{feff}a"),
            (b"", ""),
        ] {
            assert_eq!(text(given).as_str(), wanted, "{given:?}");
        }
        assert_eq!(SkillText::of(b"ab\xff"), Err(NotUtf8 { offset: 2 }));
        assert_eq!(SkillText::of(b"\xef\xbb\xbfab\xc3"), Err(NotUtf8 { offset: 5 }));
    }

    #[test]
    fn the_hash_is_that_of_the_normal_form() {
        // printf '# Review\n\nLook twice.\n' | sha256sum
        let wanted = "e39e9e8b71f4fc8baa796a72d3a87562b9d471fd0254dc47580198ddce39f6ed";
        let unix = text(b"# Review\n\nLook twice.\n").sha256();
        assert_eq!(unix, wanted);
        assert_eq!(text(b"\xef\xbb\xbf# Review\r\n\r\nLook twice.\r").sha256(), unix);
        assert_ne!(text(b"# Review\n\nLook twice.").sha256(), unix, "a missing line end is not made up for");
    }

    #[test]
    fn the_front_matter_is_what_lies_between_the_first_two_fences() {
        for (whole, body) in [
            ("---\nname: x\n---\nDo.\n", Some("Do.\n")),
            ("--- \t\nname: x\n---  \n\nDo.\n---\nMore.", Some("\nDo.\n---\nMore.")),
            ("---\n---\nDo.", Some("Do.")),
            ("---\nname: x\n---", None),
            ("---\nname: x\n---\n \n\t\n", None),
            ("Do.\n---\nname: x\n---\n", Some("Do.\n---\nname: x\n---\n")),
            ("---\nname: x\n ---\nDo.", Some("---\nname: x\n ---\nDo.")),
            ("----\nname: x\n----\nDo.", Some("----\nname: x\n----\nDo.")),
            ("\n---\nname: x\n---\n", Some("\n---\nname: x\n---\n")),
            ("---", Some("---")),
            ("", None),
        ] {
            assert_eq!(text(whole.as_bytes()).body(), body, "{whole:?}");
        }
    }

    #[test]
    fn an_id_is_a_prefix_a_colon_and_one_component_of_a_path() {
        for good in ["personal:review", "p:R", "team-2_b:a.b-c_D9", &format!("p:{}", "n".repeat(64))] {
            let id: SkillId = good.parse().unwrap();
            assert_eq!(format!("{}:{}", id.prefix(), id.name()), good);
        }
        let too_long = [format!("p:{}", "n".repeat(65)), format!("{}:n", "p".repeat(33))];
        let bad =
            ["", ":", "review", "personal:", ":review", "Personal:review", "personal:a:b", "personal:.."];
        let paths =
            ["personal:.git", "personal:a/b", "personal:../a", "personal:a\\b", "personal:a b", "p:a\0"];
        let others = ["9p:a", "-p:a", "p:ä", "p:-a", "p:a\n", " p:a"];
        for bad in bad.into_iter().chain(paths).chain(others).chain(too_long.iter().map(String::as_str)) {
            assert_eq!(bad.parse::<SkillId>(), Err(InvalidSkillId), "{bad:?}");
        }
    }

    #[test]
    fn no_text_of_a_skill_stands_in_its_debug_form() {
        assert_eq!(format!("{:?}", text(b"secret")), "SkillText(6 bytes)");
    }

    /// Texts with many line ends, fences and marks in them.
    fn lines() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "\r\n", "\r", "\n", "---", "\u{feff}", " ", "\t", "a", "ü", "\0", "name: x", "\u{2028}",
        ]);
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_normal_form_or_a_first_bad_byte(bytes in any::<Vec<u8>>()) {
            match SkillText::of(&bytes) {
                Ok(text) => drop(text.body()),
                Err(NotUtf8 { offset }) => prop_assert!(std::str::from_utf8(&bytes[..offset]).is_ok()),
            }
        }

        #[test]
        fn the_normal_form_stays_as_it_is(given in lines()) {
            let once = text(given.as_bytes());
            prop_assert!(!once.as_str().contains('\r'));
            // Of two marks only the first is one: the second is a character of the text.
            let marked = format!("\u{feff}{}", once.as_str());
            prop_assert_eq!(&text(marked.as_bytes()), &once);
            if !once.as_str().starts_with('\u{feff}') {
                prop_assert_eq!(&text(once.as_str().as_bytes()), &once);
            }
        }

        #[test]
        fn how_lines_end_does_not_matter(lines in prop::collection::vec("[a-z-]{0,4}", 0..12), ends in prop::collection::vec(0..3usize, 12)) {
            let joined = |end: &dyn Fn(usize) -> &'static str| -> String {
                lines.iter().enumerate().map(|(index, line)| format!("{line} {}", end(index))).collect()
            };
            let mixed = joined(&|index| ["\n", "\r\n", "\r"][ends[index]]);
            let (mixed, unix) = (text(mixed.as_bytes()), text(joined(&|_| "\n").as_bytes()));
            prop_assert_eq!(mixed.sha256(), unix.sha256());
            prop_assert_eq!(mixed.body(), unix.body());
        }

        #[test]
        fn the_body_is_the_end_of_the_text_and_begins_at_a_line(given in lines()) {
            let whole = text(given.as_bytes());
            if let Some(body) = whole.body() {
                let before = whole.as_str().strip_suffix(body).unwrap();
                prop_assert!(before.is_empty() || before.ends_with('\n'));
            }
        }

        #[test]
        fn an_id_that_is_taken_names_no_other_folder(given in "[a-z]{1,3}:[ -~]{0,6}") {
            if let Ok(id) = given.parse::<SkillId>() {
                let name = std::path::Path::new(id.name());
                prop_assert_eq!(name.components().count(), 1);
                prop_assert!(matches!(name.components().next(), Some(std::path::Component::Normal(_))));
            }
        }
    }
}
