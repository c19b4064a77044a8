//! A profile: reviewed parts of text, and the parameters that they name.
//!
//! The parts are in `policy/seatbelt/`. Blocks are separated by blank lines. A line that holds `NAME_*` is repeated for each
//! place of that name, with its number in place of the star; a block whose name has no places is left out as a whole,
//! since a rule without its condition would hold for everything. No path is ever written into the text: it only says
//! `(param "NAME_0")`, and the path goes beside it, as an argument of its own.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::launch::{Layer, LayerFailure, Policy, Remedy};
use crate::policy::{Os, ProtectedList};

use super::places::Places;

/// More of them may be more than the compiler of profiles takes (it has a bound on the text of all paths together).
const MOST_PLACES: usize = 1000;
const MOST_BYTES: usize = 48 * 1024;

macro_rules! part {
    ($name:literal) => {
        ($name, include_str!(concat!("../../policy/seatbelt/", $name, ".sbpl")))
    };
}

type Part = (&'static str, &'static str);

/// The parts of a policy, in order: later rules win.
const fn parts(policy: Policy) -> &'static [Part] {
    match policy {
        Policy::Command => &[
            part!("base"),
            part!("children"),
            part!("whole-system"),
            part!("devices"),
            part!("command"),
            part!("names"),
            part!("places"),
            part!("hidden"),
            part!("scratch"),
            part!("last"),
        ],
        Policy::Git => &[
            part!("base"),
            part!("children"),
            part!("whole-system"),
            part!("devices"),
            part!("places"),
            part!("hidden"),
            part!("scratch"),
            part!("last"),
        ],
        Policy::Claude => &[
            part!("base"),
            part!("children"),
            part!("only-named"),
            part!("devices"),
            part!("places-named"),
            part!("scratch"),
            part!("claude"),
            part!("last"),
        ],
        Policy::SelfConfinement => &[
            part!("base"),
            part!("only-named"),
            part!("devices"),
            part!("places-named"),
            part!("self"),
            part!("last"),
        ],
    }
}

/// A profile, ready for `sandbox-exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub text: String,
    /// Names and values of its parameters.
    pub parameters: Vec<(String, PathBuf)>,
}

impl Profile {
    /// The profile of a policy for these places.
    ///
    /// # Errors
    /// When there are more places than a profile can hold, or one that a profile cannot name.
    pub(super) fn compose(policy: Policy, places: &Places) -> Result<Self, LayerFailure> {
        let lists = Lists::of(places)?;
        let mut text = String::new();
        for (name, part) in parts(policy) {
            // A string to a formatter cannot fail.
            let _ = writeln!(text, "; --- {name}");
            for block in part.split("\n\n") {
                text.push_str(&lists.expand(block));
            }
        }
        let parameters = lists.parameters(&text);
        let bytes: usize = parameters.iter().map(|(_, path)| path.as_os_str().len()).sum();
        if parameters.len() > MOST_PLACES || bytes > MOST_BYTES {
            let call = format!("a profile with {} paths, {bytes} bytes", parameters.len());
            let failure = LayerFailure::new(Layer::Seatbelt, call, nix::errno::Errno::E2BIG as i32);
            return Err(LayerFailure { remedy: Some(Remedy::TooMuchToHide), ..failure });
        }
        Ok(Self { text, parameters })
    }

    /// The arguments of `sandbox-exec` up to the program: the profile is an argument, and so is each parameter.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["-p".into(), self.text.clone().into()];
        for (name, path) in &self.parameters {
            let definition = [name.as_bytes(), b"=", path.as_os_str().as_bytes()].concat();
            arguments.extend(["-D".into(), OsString::from_vec(definition)]);
        }
        arguments.push("--".into());
        arguments
    }
}

/// What the stars stand for.
struct Lists<'a> {
    paths: [(&'static str, &'a [PathBuf]); 7],
    /// Written into the text itself: numbers, and expressions of our own.
    texts: [(&'static str, Vec<String>); 3],
}

impl<'a> Lists<'a> {
    fn of(places: &'a Places) -> Result<Self, LayerFailure> {
        let list = ProtectedList::built_in(Os::MacOs)
            .map_err(|error| LayerFailure::new(Layer::Seatbelt, error.to_string(), 0))?;
        let paths = [
            ("PROGRAM", &*places.programs),
            ("READABLE", &places.readable),
            ("WRITABLE", &places.writable),
            ("SCRATCH", &places.scratch),
            ("HIDDEN", &places.hidden),
            ("HELD", &places.held),
            ("ABOVE", &places.above),
        ];
        paths.iter().flat_map(|(_, paths)| *paths).try_for_each(|path| nameable(path))?;
        let ports = places.ports.iter().map(u16::to_string).collect();
        let texts = [("PORT", ports), ("NAME", list.names_anywhere()), ("TEMPLATE", list.names_excepted())];
        Ok(Self { paths, texts })
    }

    /// A block with its star replaced; nothing if there is nothing to replace it by.
    fn expand(&self, block: &str) -> String {
        let mut text = String::new();
        for line in block.lines().filter(|line| !line.trim_start().starts_with(';')) {
            let Some(repeated) = self.repeat(line) else {
                text.push_str(line);
                text.push('\n');
                continue;
            };
            if repeated.is_empty() {
                return String::new();
            }
            // What closes the rule stands on the last line, which may be the repeated one.
            let extra = line.matches(')').count().saturating_sub(line.matches('(').count());
            for (at, one) in repeated.iter().enumerate() {
                let last = at + 1 == repeated.len();
                let end = one.len() - if last { 0 } else { extra };
                text.push_str(&one[..end]);
                text.push('\n');
            }
        }
        text
    }

    /// The lines that this line stands for; `None` when it has no star.
    fn repeat(&self, line: &str) -> Option<Vec<String>> {
        for (name, paths) in &self.paths {
            let star = format!("(param \"{name}_*\")");
            if line.contains(&star) {
                let number = |at: usize| line.replace(&star, &format!("(param \"{name}_{at}\")"));
                return Some((0..paths.len()).map(number).collect());
            }
        }
        for (name, texts) in &self.texts {
            let star = format!("{name}_*");
            if line.contains(&star) {
                return Some(texts.iter().map(|text| line.replace(&star, text)).collect());
            }
        }
        None
    }

    /// The parameters that the text names.
    fn parameters(&self, text: &str) -> Vec<(String, PathBuf)> {
        let numbered = |(name, paths): &(&'static str, &'a [PathBuf])| {
            let name = *name;
            paths
                .iter()
                .enumerate()
                .map(move |(at, path)| (format!("{name}_{at}"), path.clone()))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.paths.iter().flat_map(numbered).collect();
        all.retain(|(name, _)| text.contains(&format!("\"{name}\"")));
        all
    }
}

/// The profile's language knows text, and a file system of a Mac holds nothing else.
fn nameable(path: &Path) -> Result<(), LayerFailure> {
    let text = path.to_str().filter(|text| text.starts_with('/') && !text.contains('\0'));
    if text.is_some_and(|text| text == "/" || !text.ends_with('/')) {
        return Ok(());
    }
    let call = format!("name {} in a profile", path.display());
    Err(LayerFailure::new(Layer::Seatbelt, call, nix::errno::Errno::EILSEQ as i32))
}
