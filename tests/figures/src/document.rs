//! Putting tables between the markers of a document.
//!
//! A table stands between a line `<!-- figures: NAME -->` and a line `<!-- end of figures -->`; the line about the
//! machine between the same with the name `machine`. Whatever is outside of them stays as it is, byte by byte.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::Place;

const BEGIN: &str = "<!-- figures: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end of figures -->";
const MACHINE: &str = "machine";

/// Why a document is not rewritten.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A marker names no table.
    #[error("line {line}: there are no figures called {name:?}")]
    Unknown {
        /// Where it stands.
        line: usize,
        /// What it names.
        name: String,
    },
    /// Two markers name the same table.
    #[error("line {line}: {name} stands there a second time")]
    Twice {
        /// Where it stands again.
        line: usize,
        /// What it names.
        name: String,
    },
    /// A marker has no end before the next one, or an end has no beginning.
    #[error("line {line}: a marker without its counterpart")]
    Unpaired {
        /// Where it stands.
        line: usize,
    },
    /// There are figures, and no place for them.
    #[error("the document has no place for {name}")]
    NoPlace {
        /// What was measured.
        name: String,
    },
}

/// What stands between a marker and its end.
enum Open {
    /// New text was put there; the old one is left out.
    New,
    /// Nothing new is known.
    Old,
}

/// The document with every table that `figures` has, and the line about the machine.
///
/// # Errors
/// A [`Fault`]; then nothing is to be written.
pub fn rewrite(
    document: &str,
    machine: &str,
    figures: impl Fn(Place) -> Option<String>,
) -> Result<String, Fault> {
    let mut text = String::with_capacity(document.len());
    let mut seen = BTreeSet::new();
    let mut open: Option<(usize, Open)> = None;
    for (at, line) in document.split_inclusive('\n').enumerate() {
        let (number, bare) = (at + 1, line.trim_end());
        if bare == END {
            open.take().ok_or(Fault::Unpaired { line: number })?;
        } else if let Some(name) = bare.strip_prefix(BEGIN) {
            let name = name.strip_suffix(CLOSE).unwrap_or(name);
            if open.is_some() {
                return Err(Fault::Unpaired { line: number });
            }
            if !seen.insert(name.to_owned()) {
                return Err(Fault::Twice { line: number, name: name.to_owned() });
            }
            let new = content(name, machine, &figures)
                .ok_or_else(|| Fault::Unknown { line: number, name: name.to_owned() })?;
            text.push_str(line);
            open = Some((number, if new.is_some() { Open::New } else { Open::Old }));
            text.push_str(&new.unwrap_or_default());
            continue;
        }
        if !matches!(open, Some((_, Open::New))) {
            text.push_str(line);
        }
    }
    if let Some((line, _)) = open {
        return Err(Fault::Unpaired { line });
    }
    let homeless = |place: &Place| !seen.contains(place.as_str()) && figures(*place).is_some();
    match Place::ALL.into_iter().find(homeless) {
        Some(place) => Err(Fault::NoPlace { name: place.as_str().to_owned() }),
        None => Ok(text),
    }
}

/// What is to stand there: `None` if the name means nothing, `Some(None)` if nothing new is known.
fn content(name: &str, machine: &str, figures: &impl Fn(Place) -> Option<String>) -> Option<Option<String>> {
    if name == MACHINE {
        return Some(Some(format!("{machine}\n")));
    }
    Place::parse(name).map(figures)
}
