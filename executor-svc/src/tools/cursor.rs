//! Cursors: where an answer ended, for which input and which directory.
//!
//! Plain text, for some hosts refuse what looks encoded: `1.<device>.<inode>.<input>.<line>.<path below the directory>`.

use serde::Serialize;
use serde_json::Value;

use super::input::InputFault;
use crate::files::walk::Position;

/// A cursor that was taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Device and inode of the directory.
    pub directory: (u64, u64),
    /// Where to go on.
    pub position: Position,
}

/// A short digest of everything in an input that decides which items there are, and in which order.
pub(super) fn query_mark(input: &impl Serialize) -> String {
    let mut value = serde_json::to_value(input).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        for free in ["cursor", "limit", "context_lines"] {
            fields.remove(free);
        }
    }
    gatehouse_proto::digest::digest(&value).chars().take(12).collect()
}

/// The cursor behind a position.
pub(super) fn write(directory: (u64, u64), mark: &str, position: &Position) -> String {
    let line = if position.line == u64::MAX { "end".to_owned() } else { position.line.to_string() };
    format!("1.{:x}.{:x}.{mark}.{line}.{}", directory.0, directory.1, position.path)
}

/// Takes a cursor apart.
///
/// # Errors
/// When it is none of ours, or one for another input.
pub(super) fn read(text: &str, mark: &str) -> Result<Cursor, InputFault> {
    let malformed =
        || InputFault::at("cursor", "is not a cursor of this gateway; leave it out to start again");
    let mut parts = text.splitn(6, '.');
    let mut next = || parts.next().ok_or_else(malformed);
    let version = next()?;
    let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| malformed());
    let directory = (number(next()?)?, number(next()?)?);
    let of = next()?;
    let line = match next()? {
        "end" => u64::MAX,
        line => line.parse().map_err(|_| malformed())?,
    };
    let path = next()?.into();
    if version != "1" {
        return Err(malformed());
    }
    if of != mark {
        return Err(InputFault::at(
            "cursor",
            "belongs to another input; repeat that input with it, or leave it out",
        ));
    }
    Ok(Cursor { directory, position: Position { path, line } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_comes_back_as_it_was(dev in any::<u64>(), ino in any::<u64>(), line in any::<u64>(), path in "[^\0]{0,40}") {
            let position = Position { path: path.into(), line };
            let text = write((dev, ino), "0123456789ab", &position);
            prop_assert_eq!(read(&text, "0123456789ab").unwrap(), Cursor { directory: (dev, ino), position });
            prop_assert!(read(&text, "0123456789ac").is_err());
        }

        #[test]
        fn any_text_is_a_cursor_or_refused(text in ".{0,60}") {
            let _ = read(&text, "0123456789ab");
        }
    }
}
