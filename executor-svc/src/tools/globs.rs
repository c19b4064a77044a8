//! Name filters.

use globset::{GlobBuilder, GlobMatcher};

use super::input::InputFault;

/// A glob over names, or over paths below the directory if it has a slash.
#[derive(Debug, Clone)]
pub(super) struct NameGlob {
    matcher: GlobMatcher,
    /// For a glob that ends in `/**`: the same without, which matches the directory itself.
    directory: Option<GlobMatcher>,
    by_path: bool,
}

impl NameGlob {
    /// Reads a glob.
    ///
    /// # Errors
    /// When it is none; the fault names the field.
    pub(super) fn new(field: &str, text: &str) -> Result<Self, InputFault> {
        let text = text.strip_prefix("./").unwrap_or(text);
        let by_path = text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text);
        let directory = text.strip_suffix("/**").map(|text| build(field, text)).transpose()?;
        Ok(Self { matcher: build(field, text)?, directory, by_path })
    }

    /// Whether a name, or the path below the directory, matches.
    pub(super) fn matches(&self, name: &str, path: &str) -> bool {
        self.matcher.is_match(if self.by_path { path } else { name })
    }

    /// Whether a directory matches, so that all below it does.
    pub(super) fn matches_directory(&self, name: &str, path: &str) -> bool {
        self.matches(name, path) || self.directory.as_ref().is_some_and(|glob| glob.is_match(path))
    }
}

fn build(field: &str, text: &str) -> Result<GlobMatcher, InputFault> {
    // A star does not cross a slash; two do.
    let glob = GlobBuilder::new(text).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| InputFault::at(field, format!("is not a glob: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_slash_the_name_counts_and_with_one_the_path() {
        for (glob, path, matches) in [
            ("*.rs", "a/b.rs", true),
            ("src/*.rs", "src/b.rs", true),
            ("src/*.rs", "x/src/b.rs", false),
            ("src/*.rs", "src/a/b.rs", false),
            ("**/src/*.rs", "x/src/b.rs", true),
            ("/b.rs", "b.rs", true),
            ("/b.rs", "a/b.rs", false),
            ("{a,b}?.[ch]", "x/b1.h", true),
        ] {
            let name = path.rsplit('/').next().unwrap();
            assert_eq!(NameGlob::new("glob", glob).unwrap().matches(name, path), matches, "{glob} {path}");
        }
        assert!(NameGlob::new("exclude_glob", "x/**").unwrap().matches_directory("x", "x"));
        assert_eq!(NameGlob::new("glob", "a[").unwrap_err().field.as_deref(), Some("glob"));
    }
}
