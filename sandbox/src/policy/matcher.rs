//! Holding paths against the list, component by component.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component as PathComponent, Path, PathBuf};

use super::fold::fold;
use super::list::{Os, ProtectedList, Rule};
use super::pattern::{Anchor, Component, Glob, Test};

/// The list, resolved for the home directories of this machine and ready to be asked.
#[derive(Debug)]
pub struct ProtectedPaths {
    /// A trie over folded components. Node 0 is `/`, node 1 stands for "any directory".
    nodes: Vec<Node>,
    except: Vec<Component>,
    pub(super) rules: Vec<Rule>,
    pub(super) homes: Vec<Vec<Component>>,
    pub(super) os: Os,
}

#[derive(Debug, Default)]
struct Node {
    is: HashMap<String, usize>,
    fits: Vec<(Glob, usize)>,
    /// The rule that ends here.
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
struct End {
    rule: usize,
    /// A rule of one component that holds anywhere: `except` applies to it.
    by_name: bool,
}

const ROOT: usize = 0;
const ANYWHERE: usize = 1;

/// Where in the list a directory stands: what of the patterns its path has matched so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    nodes: Vec<usize>,
}

impl ProtectedPaths {
    /// Resolves `list` for these home directories and for the usual places of homes.
    #[must_use]
    pub fn new(list: ProtectedList, homes: &[PathBuf]) -> Self {
        let mut usual: Vec<&str> = vec!["/root", "/home/*", "/Users/*"];
        usual.push(match list.os {
            Os::Linux => "/var/home/*",
            Os::MacOs => "/private/var/root",
        });
        let mut all: Vec<Vec<Component>> = usual.into_iter().map(components).collect();
        for home in homes {
            let home = Rule::exact(home, "").pattern.components;
            // A home at / (some service accounts) would protect half the system by accident.
            if !home.is_empty() && !all.contains(&home) {
                all.push(home);
            }
        }
        let mut this = Self {
            nodes: vec![Node::default(), Node::default()],
            except: list.except,
            rules: list.rules,
            homes: all,
            os: list.os,
        };
        for rule in 0..this.rules.len() {
            this.plant(rule);
        }
        this
    }

    /// Adds one rule to the trie, at each of its places.
    fn plant(&mut self, rule: usize) {
        let pattern = self.rules[rule].pattern.clone();
        let path = &pattern.components;
        match pattern.anchor {
            Anchor::Anywhere => self.plant_at(ANYWHERE, path, End { rule, by_name: path.len() == 1 }),
            Anchor::Root => self.plant_below_root(path, rule),
            Anchor::Home => {
                for home in self.homes.clone() {
                    let whole: Vec<_> = home.into_iter().chain(path.iter().cloned()).collect();
                    self.plant_below_root(&whole, rule);
                }
            }
        }
    }

    fn plant_below_root(&mut self, path: &[Component], rule: usize) {
        let end = End { rule, by_name: false };
        self.plant_at(ROOT, path, end);
        if self.os == Os::MacOs {
            // The data volume shows every user file a second time below this directory.
            let whole: Vec<_> =
                components("/System/Volumes/Data").into_iter().chain(path.iter().cloned()).collect();
            self.plant_at(ROOT, &whole, end);
        }
    }

    fn plant_at(&mut self, from: usize, path: &[Component], end: End) {
        let last = path.iter().fold(from, |node, component| self.child_node(node, &component.test));
        self.nodes[last].end.get_or_insert(end);
    }

    fn child_node(&mut self, node: usize, test: &Test) -> usize {
        let found = match test {
            Test::Is(text) => self.nodes[node].is.get(text).copied(),
            Test::Fits(glob) => {
                self.nodes[node].fits.iter().find(|(known, _)| known == glob).map(|(_, n)| *n)
            }
        };
        found.unwrap_or_else(|| {
            let new = self.nodes.len();
            self.nodes.push(Node::default());
            match test {
                Test::Is(text) => {
                    self.nodes[node].is.insert(text.clone(), new);
                }
                Test::Fits(glob) => self.nodes[node].fits.push((glob.clone(), new)),
            }
            new
        })
    }

    /// The rule that protects `path`, which must be absolute and free of `.` and `..`; `None` if none does.
    #[must_use]
    pub fn rule_for(&self, path: &Path) -> Option<&Rule> {
        self.position(path).err()
    }

    /// The position of a directory, for asking about its children one by one.
    ///
    /// # Errors
    /// The rule that protects the directory itself or one above it.
    pub fn position(&self, path: &Path) -> Result<Position, &Rule> {
        let names = path.components().filter_map(|component| match component {
            PathComponent::Normal(name) => Some(name),
            PathComponent::RootDir
            | PathComponent::CurDir
            | PathComponent::ParentDir
            | PathComponent::Prefix(_) => None,
        });
        let mut position = Position { nodes: vec![ROOT] };
        for name in names {
            position = self.child(&position, name)?;
        }
        Ok(position)
    }

    /// The position of a child of the directory at `position`.
    ///
    /// # Errors
    /// The rule that protects the child.
    pub fn child(&self, position: &Position, name: &OsStr) -> Result<Position, &Rule> {
        let mut next = Position::default();
        let hit = self.step(position, name, |node| next.nodes.push(node));
        hit.map_or(Ok(next), Err)
    }

    /// The rule that protects a child of the directory at `position`; for children that are not directories.
    #[must_use]
    pub fn rule_for_child(&self, position: &Position, name: &OsStr) -> Option<&Rule> {
        self.step(position, name, |_| {})
    }

    /// Follows one name from each node of `position` and from "anywhere".
    fn step(&self, position: &Position, name: &OsStr, mut reached: impl FnMut(usize)) -> Option<&Rule> {
        let lossy = name.to_string_lossy();
        let folded = fold(&lossy);
        for node in position.nodes.iter().copied().chain([ANYWHERE]) {
            let node = &self.nodes[node];
            let by_text = node.is.get(folded.as_ref()).copied();
            let by_glob = node.fits.iter().filter(|(glob, _)| glob.fits(&folded)).map(|(_, next)| *next);
            for next in by_text.into_iter().chain(by_glob) {
                match self.nodes[next].end {
                    Some(end) if !(end.by_name && self.is_excepted(&folded)) => {
                        return self.rules.get(end.rule);
                    }
                    _ => reached(next),
                }
            }
        }
        None
    }

    fn is_excepted(&self, folded: &str) -> bool {
        self.except.iter().any(|name| name.test.passes(folded))
    }
}

/// The components of an absolute path.
fn components(path: &str) -> Vec<Component> {
    path.split('/').filter(|part| !part.is_empty()).map(Component::new).collect()
}
