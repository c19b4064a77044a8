//! One line of the list: where it is anchored and what its components are.

use super::fold::fold;

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It begins neither with `/` nor with `~/` nor with `**/`.
    #[error("{0:?} must begin with / or ~/ or **/")]
    Anchor(String),
    /// A component is empty, `.`, `..` or `**`, or there is none.
    #[error("{0:?} has an empty component, or one of . .. **")]
    Component(String),
    /// It would take everything.
    #[error("{0:?} would protect everything")]
    Everything(String),
}

/// Where the first component of a pattern stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Directly below `/`.
    Root,
    /// Directly below a home directory.
    Home,
    /// Anywhere.
    Anywhere,
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub anchor: Anchor,
    pub components: Vec<Component>,
}

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Component {
    /// As it was written.
    pub written: String,
    /// How names are held against it.
    pub test: Test,
}

/// How a name is held against a component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// The folded name is this text.
    Is(String),
    /// The folded name fits this glob.
    Fits(Glob),
}

/// A glob over one folded name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Glob {
    tokens: Vec<Token>,
    /// The first and the last byte of every name that fits, where the glob begins or ends with an ASCII character:
    /// every name on a disk is held against every glob, and this settles nearly all of them.
    first: Option<u8>,
    last: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Token {
    Char(char),
    One,
    Digit,
    Many,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("~/") {
            (Anchor::Home, rest)
        } else if let Some(rest) = text.strip_prefix("**/") {
            (Anchor::Anywhere, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Root, rest)
        } else {
            return Err(PatternError::Anchor(text.to_owned()));
        };
        let components: Vec<_> = rest.split('/').map(Component::new).collect();
        let bad = |c: &Component| {
            matches!(c.written.as_str(), "" | "." | ".." | "**") || c.test == Test::Is(String::new())
        };
        if components.iter().any(bad) {
            return Err(PatternError::Component(text.to_owned()));
        }
        if components.iter().all(|c| c.written.chars().all(|c| c == '*')) {
            return Err(PatternError::Everything(text.to_owned()));
        }
        Ok(Self { anchor, components })
    }
}

impl Component {
    /// A component in which no character means anything but itself.
    pub(super) fn literal(written: &str) -> Self {
        Self { written: written.to_owned(), test: Test::Is(fold(written).into_owned()) }
    }

    pub(super) fn new(written: &str) -> Self {
        let folded = fold(written).into_owned();
        let glob = written.contains(['*', '?']) || written.contains("[0-9]");
        let test = if glob { Test::Fits(Glob::new(&folded)) } else { Test::Is(folded) };
        Self { written: written.to_owned(), test }
    }
}

impl Test {
    /// Whether a folded name passes.
    pub(super) fn passes(&self, folded: &str) -> bool {
        match self {
            Self::Is(text) => text == folded,
            Self::Fits(glob) => glob.fits(folded),
        }
    }
}

impl Glob {
    fn new(folded: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = folded;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("[0-9]") {
                tokens.push(Token::Digit);
                rest = after;
                continue;
            }
            tokens.push(match c {
                '*' => Token::Many,
                '?' => Token::One,
                c => Token::Char(c),
            });
            rest = &rest[c.len_utf8()..];
        }
        let byte = |token: Option<&Token>| match token {
            Some(Token::Char(c)) => u8::try_from(*c).ok().filter(u8::is_ascii),
            Some(Token::One | Token::Digit | Token::Many) | None => None,
        };
        Self { first: byte(tokens.first()), last: byte(tokens.last()), tokens }
    }

    /// Whether the whole folded name fits.
    pub(super) fn fits(&self, folded: &str) -> bool {
        let (first, last) = (folded.as_bytes().first(), folded.as_bytes().last());
        self.first.is_none_or(|wanted| first == Some(&wanted))
            && self.last.is_none_or(|wanted| last == Some(&wanted))
            && self.matches(folded)
    }

    /// Linear but for the last star tried again, which is enough for globs.
    fn matches(&self, folded: &str) -> bool {
        let (mut token, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let next = folded[at..].chars().next();
            match (self.tokens.get(token), next) {
                (Some(Token::Many), _) => {
                    star = Some((token, at));
                    token += 1;
                }
                (Some(t), Some(c)) if t.takes(c) => {
                    token += 1;
                    at += c.len_utf8();
                }
                (None, None) => return true,
                _ => {
                    let Some((star_token, star_at)) = star else { return false };
                    let Some(skipped) = folded[star_at..].chars().next() else { return false };
                    star = Some((star_token, star_at + skipped.len_utf8()));
                    token = star_token + 1;
                    at = star_at + skipped.len_utf8();
                }
            }
        }
    }
}

impl Token {
    const fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == c,
            Self::One => true,
            Self::Digit => c.is_ascii_digit(),
            Self::Many => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_take_whole_names() {
        for (glob, name, fits) in [
            ("*.tfstate", "a.tfstate", true),
            ("*.tfstate", "a.tfstate.b", false),
            ("core.[0-9]*", "core.12", true),
            ("core.[0-9]*", "core.rs", false),
            ("a*b*c", "aXbYbZc", true),
            ("a?c", "a\u{e9}c", false),
            ("ssh_host_*key", "ssh_host_ed25519_key.pub", false),
            ("*", "", true),
        ] {
            let Test::Fits(glob_) = Component::new(glob).test else { panic!("{glob} is a glob") };
            assert_eq!(glob_.fits(&fold(name)), fits, "{glob} {name}");
        }
    }

    #[test]
    fn a_pattern_that_takes_everything_or_says_nothing_is_refused() {
        for bad in ["", "x", "~", "/", "~/", "**/", "/*", "**/*", "/a//b", "/a/../b", "/a/**/b", "/a/"] {
            assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
