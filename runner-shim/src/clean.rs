//! Takes out of a text what must not leave: secrets, ports, pids, internal paths, control characters.

use std::path::Path;

/// The longest text that leaves, in bytes.
const LONGEST: usize = 2048;

/// What to take out of every text.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// What to look for, the longest first, and what stands there instead.
    needles: Vec<(String, &'static str)>,
    /// Numbers that are taken out where they stand alone.
    numbers: Vec<String>,
}

impl Cleaner {
    /// Takes out a secret.
    pub fn secret(&mut self, text: &str) {
        self.needle(text.to_owned(), "<secret>");
    }

    /// Takes out a path, also in the form that Claude Code names directories by (every other character a dash).
    pub fn path(&mut self, path: &Path, name: &'static str) {
        let text = path.to_string_lossy();
        let dashed = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.needle(text.into_owned(), name);
        self.needle(dashed, name);
    }

    /// Takes out a port or pid.
    pub fn number(&mut self, number: u32) {
        self.numbers.push(number.to_string());
    }

    fn needle(&mut self, text: String, instead: &'static str) {
        // A path such as `/` would turn every text into noise.
        if text.len() > 1 {
            self.needles.push((text, instead));
            self.needles.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
    }

    /// The text without any of it, bounded: the end is kept, it says most.
    pub fn clean(&self, text: &str) -> String {
        let mut clean: String = text.chars().filter(|&c| c == '\n' || !c.is_control()).collect();
        for (needle, instead) in &self.needles {
            clean = clean.replace(needle, instead);
        }
        last_bytes(&self.without_numbers(&clean), LONGEST).trim().to_owned()
    }

    fn without_numbers(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            let (digits, after) = from.split_at(end);
            clean.push_str(before);
            clean.push_str(if self.numbers.iter().any(|number| number == digits) {
                "<number>"
            } else {
                digits
            });
            rest = after;
        }
        clean.push_str(rest);
        clean
    }
}

/// The last `limit` bytes, from the start of a character.
fn last_bytes(text: &str, limit: usize) -> &str {
    let from = text.len().saturating_sub(limit);
    text.get(text.ceil_char_boundary(from)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaner() -> Cleaner {
        let mut cleaner = Cleaner::default();
        cleaner.secret("deadbeef00");
        cleaner.path(Path::new("/state/s1"), "<session>");
        cleaner.path(Path::new("/state/s1/home"), "<home>");
        cleaner.number(41753);
        cleaner
    }

    #[test]
    fn secrets_paths_ports_and_pids_are_taken_out_and_the_rest_stays() {
        let text = "\u{1b}[31mGET http://127.0.0.1:41753/v1?k=deadbeef00 in /state/s1/home/x, -state-s1-home, /state/s1, 417530, café";
        let clean = cleaner().clean(text);
        assert_eq!(
            clean,
            "[31mGET http://127.0.0.1:<number>/v1?k=<secret> in <home>/x, <home>, <session>, 417530, café"
        );
    }

    proptest! {
        #[test]
        fn nothing_secret_survives_and_the_bound_holds(before in ".{0,3000}", after in ".{0,3000}") {
            let clean = cleaner().clean(&format!("{before}deadbeef00 /state/s1/home {after}"));
            prop_assert!(!clean.contains("deadbeef00") && !clean.contains("/state/s1"));
            prop_assert!(clean.len() <= LONGEST);
        }
    }
}
