//! What follows a program that starts another: its options, its operands, then the other program.

use super::Wrapper;

pub(super) struct CommandLine<'a> {
    wrapper: &'a Wrapper,
}

enum Word {
    /// Belongs to the wrapper, alone.
    Alone,
    /// The next word belongs to it.
    TakesNext,
    /// Its value is a command line: what stands behind it in the same word, if anything.
    Splits(Option<String>),
}

impl<'a> CommandLine<'a> {
    pub(super) const fn of(wrapper: &'a Wrapper) -> Self {
        Self { wrapper }
    }

    /// The command line of the program that is started; empty if there is none.
    pub(super) fn inner(&self, arguments: &[String]) -> Vec<String> {
        let mut rest = arguments;
        while let Some((word, after)) = rest.split_first() {
            if word == "--" {
                rest = after;
                break;
            }
            if word == "-" || !word.starts_with('-') {
                break;
            }
            rest = match self.option(word) {
                Word::Alone => after,
                Word::TakesNext => after.get(1..).unwrap_or_default(),
                Word::Splits(attached) => return split(attached, after),
            };
        }
        self.behind_operands(rest).to_vec()
    }

    fn behind_operands<'b>(&self, mut rest: &'b [String]) -> &'b [String] {
        if self.wrapper.assignments {
            // `env -` is an empty environment.
            let own = |word: &String| word.contains('=') || word == "-";
            rest = &rest[rest.iter().take_while(|word| own(word)).count()..];
        }
        rest.get(self.wrapper.operands..).unwrap_or_default()
    }

    fn option(&self, word: &str) -> Word {
        let lists = |list: &[String]| list.iter().any(|option| is(option, word));
        if let Some(option) = self.wrapper.splits.iter().find(|option| word.starts_with(option.as_str())) {
            let attached = word[option.len()..].trim_start_matches('=');
            return Word::Splits((!attached.is_empty()).then(|| attached.to_owned()));
        }
        if lists(&self.wrapper.splits) {
            return Word::Splits(None);
        }
        if lists(&self.wrapper.values) { Word::TakesNext } else { Word::Alone }
    }
}

/// Whether `word` is this option with its value still to come: spelled out, a beginning of its long name, or the last
/// letter of a cluster.
fn is(option: &str, word: &str) -> bool {
    if word.contains('=') {
        return false;
    }
    match (option.strip_prefix("--"), word.strip_prefix("--")) {
        (Some(long), Some(given)) => !given.is_empty() && long.starts_with(given),
        (None, None) => option.len() == 2 && word.len() >= 2 && word.ends_with(&option[1..]),
        _ => false,
    }
}

/// `env -S 'a b' c` starts `a b c`. Quotes and escapes in it are taken off; that is close enough for a name.
fn split(attached: Option<String>, after: &[String]) -> Vec<String> {
    let (text, rest) = match attached {
        Some(text) => (text, after),
        None => match after.split_first() {
            Some((text, rest)) => (text.clone(), rest),
            None => return Vec::new(),
        },
    };
    let words = text.split_whitespace().map(|word| word.replace(['"', '\'', '\\'], ""));
    // What env takes before the program may stand in the text as well.
    let words = words.skip_while(|word| word.contains('=')).collect::<Vec<_>>();
    words.into_iter().chain(rest.iter().cloned()).collect()
}
