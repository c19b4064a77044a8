//! Cutting text so that neither a character nor a JSON value is split.

/// How many bytes this character takes inside a JSON string, as `serde_json` writes it.
pub(super) const fn json_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// How many bytes the text takes inside a JSON string, without the quotes.
pub(super) fn json_len(text: &str) -> usize {
    text.bytes().map(json_byte_cost).sum()
}

/// The cost of one byte of UTF-8 text inside a JSON string.
const fn json_byte_cost(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// The longest start of `text` that takes at most `room` bytes inside a JSON string.
pub(super) fn cut_to_json_bytes(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += json_bytes(c);
        if used > room {
            return &text[..at];
        }
    }
    text
}
