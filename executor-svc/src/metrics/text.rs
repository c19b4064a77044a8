//! The text form.

use std::fmt::{Display, Write};

/// Lines of figures; every name begins with `gatehouse_`.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// What the figures of a name are; comes before them.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP gatehouse_{name} {help}"));
        self.line(format_args!("# TYPE gatehouse_{name} {kind}"));
    }

    /// One figure. Label values are names of this program's own, without quotes, backslashes and line ends.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        if labels.is_empty() {
            return self.line(format_args!("gatehouse_{name} {value}"));
        }
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        self.line(format_args!("gatehouse_{name}{{{}}} {value}", labels.join(",")));
    }

    /// All of it.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{text}");
    }
}
