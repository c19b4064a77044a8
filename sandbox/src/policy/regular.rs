//! Lines that hold anywhere, as regular expressions over whole paths, for a sandbox that matches paths itself.

use super::list::ProtectedList;
use super::pattern::{Anchor, Component};

impl ProtectedList {
    /// What the list protects by its name wherever it stands: the path itself and everything below it. Blind to case as
    /// far as ASCII goes; other spellings that some file system takes for the same are not covered.
    pub(crate) fn names_anywhere(&self) -> Vec<String> {
        let anywhere = self.rules.iter().filter(|rule| rule.pattern.anchor == Anchor::Anywhere);
        anywhere.map(|rule| of_components(&rule.pattern.components) + "(/|$)").collect()
    }

    /// What it takes away from them again: the path itself.
    pub(crate) fn names_excepted(&self) -> Vec<String> {
        self.except.iter().map(|name| of_components(std::slice::from_ref(name)) + "$").collect()
    }
}

fn of_components(components: &[Component]) -> String {
    components.iter().map(|component| format!("/{}", of_name(&component.written))).collect()
}

fn of_name(written: &str) -> String {
    let mut regex = String::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[0-9]") {
            regex.push_str("[0-9]");
            rest = after;
            continue;
        }
        match c {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            letter if letter.is_ascii_alphabetic() => {
                regex.extend(['[', letter.to_ascii_lowercase(), letter.to_ascii_uppercase(), ']']);
            }
            plain if plain.is_ascii_digit() || "-_".contains(plain) => regex.push(plain),
            other => regex.extend(['\\', other]),
        }
        rest = &rest[c.len_utf8()..];
    }
    regex
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Os, ProtectedPaths};
    use super::*;

    /// What the expressions hide.
    struct Hidden {
        names: regex::Regex,
        except: regex::Regex,
    }

    impl Hidden {
        fn of(list: &ProtectedList) -> Self {
            let any = |all: Vec<String>| regex::Regex::new(&all.join("|")).unwrap();
            Self { names: any(list.names_anywhere()), except: any(list.names_excepted()) }
        }

        fn holds(&self, path: &str) -> bool {
            self.names.is_match(path) && !self.except.is_match(path)
        }
    }

    #[test]
    fn the_expressions_are_plain_text_of_ours() {
        let list = ProtectedList::built_in(Os::MacOs).unwrap();
        let all = [list.names_anywhere(), list.names_excepted()].concat();
        assert!(all.len() > 40 && all.iter().map(String::len).sum::<usize>() < 8192);
        let harmless = |c: char| c.is_ascii_graphic() && !"\"#;".contains(c);
        assert!(all.iter().all(|one| one.chars().all(harmless)), "{all:?}");
    }

    #[test]
    fn they_say_what_the_matcher_says_of_every_line_that_holds_anywhere() {
        let list = ProtectedList::built_in(Os::MacOs).unwrap();
        let matcher = ProtectedPaths::new(list.clone(), &[]);
        let hidden = Hidden::of(&list);
        let mut tried = 0;
        let anywhere = list.rules.iter().filter_map(|rule| rule.path.strip_prefix("**/"));
        let names = anywhere.chain(list.except.iter().map(|name| name.written.as_str()));
        for name in names {
            for filled in ["", "x", "x.y", ".env", "1"] {
                let name = name.replace("[0-9]", "7").replace('*', filled).replace('?', "q");
                for variant in [name.clone(), name.to_uppercase(), format!("{name}x"), format!("x{name}")] {
                    for path in [format!("/opt/{variant}"), format!("/opt/{variant}/below")] {
                        // Below a template there is nothing that could be one.
                        let below = list.except.iter().any(|one| one.test.passes(&variant.to_lowercase()));
                        if !(below && path.ends_with("/below")) {
                            let said = matcher.rule_for(Path::new(&path)).is_some();
                            assert_eq!(hidden.holds(&path), said, "{path}");
                            tried += 1;
                        }
                    }
                }
            }
        }
        assert!(tried > 1000, "{tried}");
    }
}
