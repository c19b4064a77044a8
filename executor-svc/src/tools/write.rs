//! `Write`: a file gets new content as a whole.

use gatehouse_proto::codes::ActionCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::change::{Facts, NewBytes, PlanFault, Planned, eol_of, expect_hash};
use super::edit::MAX_TEXT;
use super::input::{Field, InputFault, Kind, Need, checked};
use crate::files::text::{BOM, Eol};

/// What a brain is told of the tool.
pub const DESCRIPTION: &str = "Makes one file below the working directory, or overwrites it as a whole. Missing parent \
    directories are made. Overwriting needs expected_sha256, the SHA-256 of what is there now (Read gives it), so that \
    nothing is lost unseen; create_only refuses if the file is there. The content is written exactly as given, line ends \
    included. To change part of a file, use Edit.";

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "file_path",
        need: Need::Required,
        kind: Kind::Path,
        description: "Absolute path of the file.",
    },
    Field {
        name: "content",
        need: Need::Required,
        kind: Kind::Text { min: 0, max: MAX_TEXT },
        description: "All that the file shall hold.",
    },
    Field {
        name: "expected_sha256",
        need: Need::Optional,
        kind: Kind::Sha256,
        description: "SHA-256 of the file that is to be overwritten.",
    },
    Field {
        name: "create_only",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Refuse if there is a file already. Not together with expected_sha256.",
    },
];

/// The input of `Write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteInput {
    /// Absolute path of the file.
    pub file_path: String,
    /// All that the file shall hold.
    pub content: String,
    /// SHA-256 that the file must have, in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_sha256: Option<String>,
    /// Whether to refuse if there is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_only: Option<bool>,
}

/// Holds an input against the schema.
///
/// # Errors
/// An [`InputFault`] that names the field.
pub fn check(input: &Value) -> Result<WriteInput, InputFault> {
    let input: WriteInput = checked(FIELDS, input)?;
    if input.create_only == Some(true) && input.expected_sha256.is_some() {
        return Err(InputFault::at(
            "create_only",
            "goes together with no expected_sha256: a new file has none",
        ));
    }
    Ok(input)
}

/// What the file is to be, from the input and its bytes (`None` if there is no file).
///
/// # Errors
/// There although it must not be, there without a hash, not as expected.
pub fn plan(input: &WriteInput, before: Option<&[u8]>) -> Result<Planned, PlanFault> {
    let path = &input.file_path;
    let content = input.content.as_bytes();
    let Some(bytes) = before else {
        return match &input.expected_sha256 {
            None => Ok(planned(content, None)),
            Some(_) => Err(PlanFault::new(
                ActionCode::ChangedMeanwhile,
                format!("{path}: is not what was expected: there is no file"),
                "Somebody removed it. Write without expected_sha256 if it shall be made anew.",
            )),
        };
    };
    if input.create_only == Some(true) {
        return Err(PlanFault::new(
            ActionCode::Exists,
            format!("{path}: there is a file already"),
            "Choose another name, or read it and overwrite it with its SHA-256.",
        ));
    }
    if input.expected_sha256.is_none() {
        return Err(PlanFault::new(
            ActionCode::ExpectedHashRequired,
            format!("{path}: there is a file already, and overwriting it needs the SHA-256 of what it holds"),
            "Read it; give its sha256 as expected_sha256 if it shall be overwritten.",
        ));
    }
    expect_hash(input.expected_sha256.as_deref(), path, bytes)?;
    if bytes == content {
        return Ok(Planned { bytes: NewBytes::Unchanged, facts: Facts::Write { note: None } });
    }
    Ok(planned(content, note(bytes, content)))
}

fn planned(content: &[u8], note: Option<String>) -> Planned {
    Planned { bytes: NewBytes::Replaced(content.to_vec()), facts: Facts::Write { note } }
}

/// What a caller who has only seen the text as Read shows it may have changed without meaning to.
fn note(before: &[u8], after: &[u8]) -> Option<String> {
    let name = |eol| match eol {
        Eol::Lf => "LF",
        Eol::Crlf => "CR LF",
        Eol::Cr => "CR",
        Eol::Mixed => "mixed line ends",
        Eol::None => "no line ends",
    };
    let mut notes = Vec::new();
    match (eol_of(before), eol_of(after)) {
        (Some(old), Some(new)) if old != new && old != Eol::None && new != Eol::None => {
            notes.push(format!("The line ends were {} and are {} now.", name(old), name(new)));
        }
        _ => {}
    }
    if before.starts_with(BOM) && !after.starts_with(BOM) {
        notes.push("The byte order mark is gone.".to_owned());
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

#[cfg(test)]
mod tests {
    use gatehouse_proto::digest::sha256_hex;
    use serde_json::json;

    use super::*;

    fn input(value: &Value) -> WriteInput {
        let checked = check(value).unwrap();
        let again = serde_json::to_value(&checked).unwrap();
        assert_eq!(check(&again).unwrap(), checked, "the input comes back unchanged");
        checked
    }

    #[test]
    fn a_new_file_needs_no_expectation_and_an_old_one_its_hash() {
        let plain = input(&json!({"file_path": "/f", "content": "new"}));
        let only = input(&json!({"file_path": "/f", "content": "new", "create_only": true}));
        let hashed = |of: &[u8]| {
            input(
                &json!({"file_path": "/f", "content": "new", "expected_sha256": sha256_hex(of).to_uppercase()}),
            )
        };
        let code = |input: &WriteInput, before: Option<&[u8]>| plan(input, before).unwrap_err().code;
        let new = NewBytes::Replaced(b"new".to_vec());
        assert_eq!(plan(&plain, None).unwrap().bytes, new);
        assert_eq!(plan(&only, None).unwrap().bytes, new);
        assert_eq!(plan(&hashed(b"old"), Some(b"old")).unwrap().bytes, new);
        assert_eq!(plan(&hashed(b"new"), Some(b"new")).unwrap().bytes, NewBytes::Unchanged);
        assert_eq!(code(&plain, Some(b"old")), ActionCode::ExpectedHashRequired);
        assert_eq!(code(&only, Some(b"old")), ActionCode::Exists);
        assert_eq!(code(&hashed(b"old"), Some(b"other")), ActionCode::ChangedMeanwhile);
        assert_eq!(code(&hashed(b"old"), None), ActionCode::ChangedMeanwhile);
    }

    #[test]
    fn expectations_that_exclude_each_other_are_refused() {
        let both =
            json!({"file_path": "/f", "content": "", "create_only": true, "expected_sha256": "0".repeat(64)});
        assert_eq!(check(&both).unwrap_err().field.as_deref(), Some("create_only"));
        for wrong in ["", "0", &"g".repeat(64)] {
            let input = json!({"file_path": "/f", "content": "", "expected_sha256": wrong});
            assert_eq!(check(&input).unwrap_err().field.as_deref(), Some("expected_sha256"), "{wrong}");
        }
    }

    #[test]
    fn changed_line_ends_and_a_lost_mark_are_told() {
        let write = |before: &[u8], content: &str| {
            let hash = sha256_hex(before);
            let input = input(&json!({"file_path": "/f", "content": content, "expected_sha256": hash}));
            match plan(&input, Some(before)).unwrap().facts {
                Facts::Write { note } => note,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(write(b"a\r\n", "a\n").unwrap(), "The line ends were CR LF and are LF now.");
        assert_eq!(write(b"\xef\xbb\xbfa", "a").unwrap(), "The byte order mark is gone.");
        assert_eq!(write(b"a\n", "b\n"), None);
        assert_eq!(write(b"\xff\n", "b\r\n"), None);
    }
}
