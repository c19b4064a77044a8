//! Passwords inside URLs, which no receipt repeats.

use std::ops::Range;

use super::cut::{json_bytes, json_len};

/// What stands in the place of a password.
pub(super) const REDACTED: &str = "[redacted]";

/// How far a URL's credentials can reach, in bytes; text that is cut needs so much of its surroundings.
pub(super) const REACH: usize = 2048;

/// Where in `text` passwords stand: the part between `:` and `@` of `scheme://user:password@host`, and a long user
/// name without a password in web addresses, which is a token. Placeholders such as `${PASSWORD}` are left alone.
pub(super) fn secret_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for at in memchr::memmem::find_iter(text.as_bytes(), b"://") {
        let scheme = scheme_before(&text[..at]);
        if scheme.is_empty() {
            continue;
        }
        let start = at + 3;
        let Some(userinfo) = userinfo(&text[start..]) else { continue };
        let secret = match userinfo.split_once(':') {
            Some((user, password)) => {
                let from = start + user.len() + 1;
                (!is_placeholder(password)).then_some(from..from + password.len())
            }
            None => {
                let web = scheme.to_ascii_lowercase().contains("http");
                (web && userinfo.len() >= 16 && !is_placeholder(userinfo))
                    .then_some(start..start + userinfo.len())
            }
        };
        spans.extend(secret);
    }
    spans
}

/// Whether [`REDACTED`] comes into URLs and passwords go out of them: a text that was read is written back.
pub(super) fn loses_passwords(before: &[u8], after: &[u8]) -> bool {
    let secrets = |bytes| secret_spans(&String::from_utf8_lossy(bytes)).len();
    redacted_urls(after) > redacted_urls(before) && secrets(after) < secrets(before)
}

/// How many URLs have [`REDACTED`] in the place of their password.
fn redacted_urls(text: &[u8]) -> usize {
    let ends = memchr::memmem::find_iter(text, "[redacted]@");
    let is_password = |at: &usize| {
        let before = &text[at.saturating_sub(REACH)..*at];
        let user = before.rsplit(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'')).next();
        user.is_some_and(|user| memchr::memmem::find(user, b"://").is_some())
    };
    ends.filter(is_password).count()
}

fn scheme_before(text: &str) -> &str {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.rfind(|c| !is_scheme(c)).map_or(text, |at| {
        let skipped = text[at..].chars().next().map_or(0, char::len_utf8);
        &text[at + skipped..]
    })
}

/// What stands before the last `@` of the authority that `text` begins with.
fn userinfo(text: &str) -> Option<&str> {
    let mut limit = text.len().min(REACH);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let ends = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '\\')
    };
    let authority = &text[..text[..limit].find(ends).unwrap_or(limit)];
    authority.rfind('@').map(|at| &authority[..at]).filter(|info| !info.is_empty())
}

fn is_placeholder(secret: &str) -> bool {
    let wrapped = |open: char, close: char| secret.starts_with(open) && secret.ends_with(close);
    secret.is_empty()
        || secret == REDACTED
        || secret.chars().all(|c| matches!(c, '*' | '.' | 'x' | 'X' | '\u{2026}'))
        || secret.starts_with("${")
        || secret.starts_with("%(")
        || (secret.starts_with('%') && secret.len() == 2)
        || (secret.starts_with('$') && secret[1..].chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        || wrapped('{', '}')
        || wrapped('<', '>')
        || wrapped('[', ']')
}

/// `text` from byte `from` on, with every password replaced, up to the first line end and within `room` bytes of JSON.
/// The second value says whether something was cut off.
pub(super) fn line_from(text: &str, from: usize, room: usize) -> (String, bool) {
    let spans = secret_spans(text);
    let line = text[from..].split('\n').next().unwrap_or_default();
    if spans.is_empty() && json_len(line) <= room {
        return (line.strip_suffix('\r').unwrap_or(line).to_owned(), false);
    }
    let mut spans = spans.into_iter().peekable();
    let (mut out, mut cost, mut at) = (String::new(), 0, from);
    while let Some(c) = text[at..].chars().next().filter(|c| *c != '\n') {
        while spans.next_if(|span| span.end <= at).is_some() {}
        let secret = spans.peek().filter(|span| span.start <= at).map(|span| span.end);
        cost += if secret.is_some() { json_len(REDACTED) } else { json_bytes(c) };
        if cost > room {
            return (out, true);
        }
        match secret {
            Some(end) => {
                out.push_str(REDACTED);
                at = end;
            }
            None => {
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    if out.ends_with('\r') {
        out.pop();
    }
    (out, false)
}

/// `text` with every password replaced, and how many those were.
pub(super) fn redacted(text: &str) -> (String, usize) {
    let (mut out, mut at, mut count) = (String::with_capacity(text.len()), 0, 0);
    for span in secret_spans(text) {
        if span.start < at {
            continue;
        }
        out.push_str(&text[at..span.start]);
        out.push_str(REDACTED);
        (at, count) = (span.end, count + 1);
    }
    out.push_str(&text[at..]);
    (out, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_password_that_is_written_over_by_what_stands_for_it_is_lost() {
        let kept = b"DB='postgres://bob:s3cret@db/x'\n";
        let shown = b"DB='postgres://bob:[redacted]@db/x'\nmore\n";
        assert!(loses_passwords(kept, shown));
        assert!(loses_passwords(b"\"https://u:pw@h\\n\"", b"\"https://u:[redacted]@h\\n\""));
        // Nothing is lost where it stood before, where none goes, or where it stands for no password.
        assert!(!loses_passwords(shown, shown) && !loses_passwords(b"", shown));
        assert!(!loses_passwords(kept, b"[redacted]@db") && !loses_passwords(kept, b"nothing"));
    }

    #[test]
    fn passwords_in_urls_are_replaced_and_placeholders_are_not() {
        for (text, wanted) in [
            ("a postgres://bob:s3cret@db/x b", "a postgres://bob:[redacted]@db/x b"),
            ("https://ghp_0123456789abcdef@github.com/x", "https://[redacted]@github.com/x"),
            ("redis://:pw@h", "redis://:[redacted]@h"),
            ("amqp://u:p@ss@h", "amqp://u:[redacted]@h"),
            ("ssh://git@github.com/a-long-name/x.git", "ssh://git@github.com/a-long-name/x.git"),
            ("http://localhost:8080/@x", "http://localhost:8080/@x"),
            ("mysql://u:${PASS}@h", "mysql://u:${PASS}@h"),
            ("mysql://u:{password}@h", "mysql://u:{password}@h"),
            ("mysql://u:$PASS@h", "mysql://u:$PASS@h"),
            ("://u:p@h", "://u:p@h"),
            ("https://example.org see bob:x@y", "https://example.org see bob:x@y"),
            ("x\u{e9}http://a:b@c http://d:e@f", "x\u{e9}http://a:[redacted]@c http://d:[redacted]@f"),
        ] {
            assert_eq!(line_from(text, 0, usize::MAX).0, wanted);
        }
    }

    proptest! {
        #[test]
        fn spans_lie_on_character_boundaries_in_order(text in "(http://|:|@|/|a|é|\n|\\$|\\{){0,30}") {
            let mut done = 0;
            for span in secret_spans(&text) {
                prop_assert!(text.get(span.clone()).is_some());
                prop_assert!(span.start <= span.end);
                done = done.max(span.end);
            }
            prop_assert!(done <= text.len());
            let (line, _) = line_from(&text, 0, 40);
            prop_assert!(json_len(&line) <= 40);
        }
    }
}
