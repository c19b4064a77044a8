//! Commands that are refused by name: `policy/commands.toml`, and how a command line is held against it.
//!
//! Not a wall (the sandbox is), but an early and clear answer. So it looks through what people put in front of a program
//! (`env`, `timeout`, `xargs`, …) and through symlinks, and it does not try to understand shells.

mod line;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use line::CommandLine;

/// How many programs may stand in front of each other.
const DEPTH: usize = 16;

/// Why the rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the rules for commands: {0}")]
pub struct CommandRulesError(#[from] toml::de::Error);

/// The rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRules {
    refused: Vec<Program>,
    refused_arguments: Vec<Argument>,
    wrappers: Vec<Wrapper>,
    multiplexers: Vec<Program>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    reason: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    program: String,
    #[serde(flatten)]
    shape: Shape,
    reason: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    /// This word, or this word and `=`.
    Option(String),
    /// Every word that begins so.
    Prefix(String),
    /// This letter, in a word of short options.
    Letter(char),
    /// This word as the first argument.
    First(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    name: String,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    splits: Vec<String>,
    #[serde(default)]
    operands: usize,
    #[serde(default)]
    assignments: bool,
    #[allow(dead_code, reason = "for whoever reads the list")]
    reason: String,
}

/// A command that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` is refused{}: {reason}", seen_through(.through))]
pub struct RefusedCommand {
    /// The program, or the program and its argument.
    pub what: String,
    /// Why.
    pub reason: String,
    /// The programs in front of it, outermost first.
    pub through: Vec<String>,
}

fn seen_through(through: &[String]) -> String {
    if through.is_empty() { String::new() } else { format!(" (behind {})", through.join(", ")) }
}

impl CommandRules {
    /// The rules that come with Gatehouse.
    ///
    /// # Errors
    /// When they are broken.
    pub fn built_in() -> Result<Self, CommandRulesError> {
        Ok(toml::from_str(include_str!("../../policy/commands.toml"))?)
    }

    /// Holds a command line against the rules. `names` gives every name by which a program (as it stands in the command
    /// line) goes: its own, and those that its symlinks lead to. Nothing else is looked up.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, argv: &[String], names: impl Fn(&str) -> Vec<String>) -> Result<(), RefusedCommand> {
        let mut rest = argv.to_vec();
        let mut through: Vec<String> = Vec::new();
        while let Some(program) = rest.first().cloned() {
            let known: Vec<String> = names(&program).iter().map(|name| folded(name)).collect();
            let refuse = |what: String, reason: &str| {
                Err(RefusedCommand { what, reason: reason.to_owned(), through: through.clone() })
            };
            if let Some(rule) = named(&self.refused, &known) {
                return refuse(program, &rule.reason);
            }
            if let Some((argument, rule)) = self.refused_argument(&known, &rest[1..]) {
                return refuse(format!("{program} {argument}"), &rule.reason);
            }
            if through.len() == DEPTH {
                return refuse(program, "too many programs stand in front of each other");
            }
            let Some(inner) = self.inner(&known, &rest[1..]) else { return Ok(()) };
            through.push(program);
            rest = inner;
        }
        Ok(())
    }

    fn refused_argument<'a>(
        &self,
        known: &[String],
        arguments: &'a [String],
    ) -> Option<(&'a str, &Argument)> {
        let rules = || self.refused_arguments.iter().filter(|rule| known.contains(&rule.program));
        // Behind `--` there are operands only, but for find, which has no such thing.
        let ends = !known.iter().any(|name| name == "find");
        let options = arguments.iter().take_while(|word| !(ends && *word == "--"));
        options.enumerate().find_map(|(place, word)| {
            rules().find(|rule| rule.shape.fits(word, place)).map(|rule| (word.as_str(), rule))
        })
    }

    /// The command line that a program goes on to start, if it is one that does.
    fn inner(&self, known: &[String], arguments: &[String]) -> Option<Vec<String>> {
        if named(&self.multiplexers, known).is_some() {
            return Some(arguments.to_vec());
        }
        let wrapper = self.wrappers.iter().find(|wrapper| known.contains(&wrapper.name))?;
        Some(CommandLine::of(wrapper).inner(arguments))
    }
}

/// Case does not tell programs apart everywhere.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

fn named<'a>(rules: &'a [Program], known: &[String]) -> Option<&'a Program> {
    rules.iter().find(|rule| known.contains(&rule.name))
}

impl Shape {
    fn fits(&self, word: &str, place: usize) -> bool {
        match self {
            Self::Option(option) => word
                .strip_prefix(option.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('=')),
            Self::Prefix(prefix) => word.starts_with(prefix.as_str()),
            Self::Letter(letter) => word
                .strip_prefix('-')
                .is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(*letter)),
            Self::First(first) => place == 0 && word == first,
        }
    }
}
