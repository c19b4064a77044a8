//! Where commands write: standard output, with colour on a terminal only.
//!
//! Text that came from outside (prompts, labels, results) passes through [`clean`], so that it cannot move the cursor
//! or change colours of the person's terminal.

use std::io::{self, IsTerminal, Write};

/// How a piece of text is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// Good news.
    Good,
    /// Something waits for somebody.
    Attention,
    /// Bad news.
    Bad,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Attention => "33",
            Self::Bad => "31",
        }
    }
}

/// Whether styles show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Styles show.
    On,
    /// Plain text.
    Off,
}

/// An output with or without colour.
pub struct Screen {
    out: Box<dyn Write + Send>,
    colour: Colour,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("colour", &self.colour).finish_non_exhaustive()
    }
}

impl Screen {
    /// Standard output; colour on a terminal unless `NO_COLOR` is set.
    #[must_use]
    pub fn stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = if io::stdout().is_terminal() && !plain { Colour::On } else { Colour::Off };
        Self { out: Box::new(io::stdout()), colour }
    }

    /// Any writer.
    pub fn new(out: impl Write + Send + 'static, colour: Colour) -> Self {
        Self { out: Box::new(out), colour }
    }

    /// Writes one line and flushes it.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", text.as_ref())?;
        self.out.flush()
    }

    /// `text` in a style, where styles show.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        match self.colour {
            Colour::On => format!("\u{1b}[{}m{text}\u{1b}[0m", style.code()),
            Colour::Off => text.to_owned(),
        }
    }

    /// A heading.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn heading(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint(Style::Bold, text);
        self.line(text)
    }

    /// Lines of `name  value`, the values in one column.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn facts(&mut self, facts: &[(&str, String)]) -> io::Result<()> {
        let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in facts {
            let name = self.paint(Style::Dim, &format!("{name:width$}"));
            self.line(format!("  {name}  {value}"))?;
        }
        Ok(())
    }

    /// A table: each column as wide as its widest cell, the last one free.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| cell.chars().count())
                    .chain([head[column].chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
        let head = self.paint(Style::Dim, &table_row(&head, &widths));
        self.line(head)?;
        for row in rows {
            self.line(table_row(row, &widths))?;
        }
        Ok(())
    }
}

fn table_row(cells: &[String], widths: &[usize]) -> String {
    let last = cells.len().saturating_sub(1);
    let cells =
        cells.iter().zip(widths).enumerate().map(|(index, (cell, &width))| {
            if index == last { cell.clone() } else { format!("{cell:width$}") }
        });
    cells.collect::<Vec<_>>().join("  ")
}

/// `text` without control characters (line breaks become `⏎`), cut to `limit` characters.
#[must_use]
pub fn clean(text: &str, limit: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(limit)
        .map(|c| match c {
            '\n' => '⏎',
            '\t' => ' ',
            c if c.is_control() || is_direction_mark(c) => '\u{fffd}',
            c => c,
        })
        .collect();
    if text.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}

/// A number of bytes in a unit that fits.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{} GiB", bytes / 1_073_741_824),
    }
}

/// One line of a file, whole, with its tabs; other control characters cannot steer the terminal.
#[must_use]
pub fn clean_line(line: &str) -> String {
    let shown = |c: char| c == '\t' || !(c.is_control() || is_direction_mark(c));
    line.chars().map(|c| if shown(c) { c } else { '\u{fffd}' }).collect()
}

/// Marks that reorder what stands around them on the screen.
pub(crate) const fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is drawn, as text.
    pub(crate) fn shown(colour: Colour, draw: impl FnOnce(&mut Screen) -> io::Result<()>) -> String {
        let kept = Kept::default();
        draw(&mut Screen::new(kept.clone(), colour)).unwrap();
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn tables_line_up_and_colour_is_left_out_where_it_does_not_show() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["long".into(), "2 ".into()]];
        let text = shown(Colour::Off, |screen| screen.table(&["ID", "N"], &rows));
        assert_eq!(text, "ID    N\na     1\nlong  2 \n");
        assert!(shown(Colour::On, |screen| screen.heading("x")).contains("\u{1b}[1mx"));
        assert_eq!(shown(Colour::Off, |screen| screen.heading("x")), "x\n");
    }

    #[test]
    fn text_from_outside_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[31m\nb\u{202e}", 20), "a\u{fffd}[31m⏎b\u{fffd}");
        assert_eq!(clean("日本語テキスト", 3), "日本語…");
        assert_eq!(clean("abc", 3), "abc");
        assert_eq!(clean_line("\ta\u{1b}[31m\r"), "\ta\u{fffd}[31m\u{fffd}");
    }
}
