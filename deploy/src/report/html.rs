//! Writing HTML in which only what stands in this program's source is markup. Text from outside goes in as text, whatever
//! is in it.

use std::fmt::Write;

use crate::screen::is_direction_mark;

/// HTML that is being written.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup, as it stands in the source.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text. Characters that steer a display are shown as replaced.
    pub(super) fn text(&mut self, text: impl AsRef<str>) -> &mut Self {
        for c in text.as_ref().chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                '\r' => {}
                c if c.is_control() || is_direction_mark(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    /// A number.
    pub(super) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{}", number.into());
        self
    }

    /// `tag` around text.
    pub(super) fn element(
        &mut self,
        open: &'static str,
        text: impl AsRef<str>,
        close: &'static str,
    ) -> &mut Self {
        self.markup(open).text(text).markup(close)
    }

    /// An identifier of ours in an attribute: anything but letters, digits, `_` and `-` is left out.
    pub(super) fn id(&mut self, id: &str) -> &mut Self {
        let kept = id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        self.0.extend(kept);
        self
    }

    /// A style sheet or the like from the source tree.
    pub(super) fn source(&mut self, source: &'static str) -> &mut Self {
        self.markup(source)
    }

    /// What was written so far; afterwards it is empty again.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Base64 of bytes in hexadecimal, as a content security policy writes hashes.
pub(super) fn base64_of_hex(hex: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let nibbles: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let mut out = String::new();
    // Three bytes are six nibbles and four digits.
    for group in nibbles.chunks(6) {
        let bits = group.iter().fold(0, |bits, nibble| bits << 4 | nibble) << (4 * (6 - group.len()));
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let digit = DIGITS.get(index as usize).copied().unwrap_or(b'=');
            out.push(if place * 3 < group.len() * 2 { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup_and_cannot_steer_the_display() {
        let mut html = Html::default();
        html.text("<b a='1'>&\u{202e}\u{1b}\r\n");
        assert_eq!(html.take(), "&lt;b a=&#39;1&#39;&gt;&amp;\u{fffd}\u{fffd}\n");
        html.id("ns_1\" onclick=x");
        assert_eq!(html.take(), "ns_1onclickx");
    }

    #[test]
    fn hashes_are_written_as_policies_want_them() {
        for (hex, base64) in
            [("", ""), ("66", "Zg=="), ("666f", "Zm8="), ("666f6f", "Zm9v"), ("666f6f62", "Zm9vYg==")]
        {
            assert_eq!(base64_of_hex(hex), base64);
        }
    }
}
