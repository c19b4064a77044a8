//! The lists as they stand in their files, and what their conditions mean.
//!
//! Used when the crate is built, and by its tests; see `build.rs`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A list, by name and text.
#[derive(Debug, Clone, Copy)]
pub struct List {
    /// Its name: of `policy/seccomp-NAME.toml`.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! list {
    ($constant:ident, $name:literal) => {
        /// The list of this name.
        pub const $constant: List =
            List { name: $name, text: include_str!(concat!("../../../policy/seccomp-", $name, ".toml")) };
    };
}

list!(BASE, "base");
list!(NETWORK_NONE, "network-none");
list!(NETWORK_LOOPBACK, "network-loopback");
list!(NETWORK_PORTS, "network-ports");
list!(SELF, "self");

const NUMBERS: &str = include_str!("../../../policy/syscalls.toml");

/// The data is not of the expected form.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A list is not TOML of the expected form.
    #[error("seccomp-{0}.toml: {1}")]
    Syntax(&'static str, toml::de::Error),
    /// The table of numbers is not.
    #[error("syscalls.toml: {0}")]
    Numbers(toml::de::Error),
    /// A call without a number.
    #[error("syscalls.toml has no {0}")]
    NoNumber(String),
    /// A condition (of this call, with this reason) that is none of the known forms.
    #[error("{0} ({1}): a condition that means nothing")]
    Condition(String, String),
    /// A jump that no instruction can make.
    #[error("the filter becomes too long")]
    TooLong,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    deny: Vec<Line>,
    absent: Vec<Line>,
}

/// One line of a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The call's name.
    pub call: String,
    /// All of these must hold; none: always.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Why.
    pub reason: String,
}

/// A condition on one argument.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    arg: u8,
    mask: Option<u32>,
    is: Vec<u32>,
    is_not: Vec<u32>,
    any_bit: Option<u32>,
}

/// A comparison that a filter can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Equal.
    Is { arg: u8, value: u32 },
    /// Not equal.
    IsNot { arg: u8, value: u32 },
    /// Equal in the bits of the mask.
    Masked { arg: u8, mask: u32, value: u32 },
}

/// Masks of up to this many bits can be turned round, value by value.
const WIDEST_MASK: u32 = 4;

impl Condition {
    /// The ways in which it can hold: one of them, in which all tests hold.
    fn ways(&self) -> Option<Vec<Vec<Test>>> {
        let arg = self.arg;
        match (self.mask, &*self.is, &*self.is_not, self.any_bit) {
            (None, [_, ..], [], None) => {
                Some(self.is.iter().map(|&value| vec![Test::Is { arg, value }]).collect())
            }
            (None, [], [_, ..], None) => {
                Some(vec![self.is_not.iter().map(|&value| Test::IsNot { arg, value }).collect()])
            }
            (Some(mask), [_, ..], [], None) => {
                Some(self.is.iter().map(|&value| vec![Test::Masked { arg, mask, value }]).collect())
            }
            (Some(mask), [], [_, ..], None) => {
                let values = values(mask)?.into_iter().filter(|value| !self.is_not.contains(value));
                Some(values.map(|value| vec![Test::Masked { arg, mask, value }]).collect())
            }
            (None, [], [], Some(bits)) => {
                let each = (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| bits & bit != 0);
                Some(each.map(|bit| vec![Test::Masked { arg, mask: bit, value: bit }]).collect())
            }
            _ => None,
        }
    }
}

/// All values that the bits of a mask can have.
fn values(mask: u32) -> Option<Vec<u32>> {
    (mask.count_ones() <= WIDEST_MASK).then(|| {
        let mut values = vec![0];
        for bit in (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| mask & bit != 0) {
            let more: Vec<u32> = values.iter().map(|value| value | bit).collect();
            values.extend(more);
        }
        values
    })
}

impl Line {
    /// The ways in which all its conditions can hold.
    ///
    /// # Errors
    /// When a condition means nothing.
    pub fn ways(&self) -> Result<Vec<Vec<Test>>, Broken> {
        let mut ways = vec![Vec::new()];
        for condition in &self.when {
            let more =
                condition.ways().ok_or_else(|| Broken::Condition(self.call.clone(), self.reason.clone()))?;
            ways = ways
                .iter()
                .flat_map(|so_far: &Vec<Test>| more.iter().map(|way| [&**so_far, &**way].concat()))
                .collect();
        }
        Ok(ways)
    }
}

/// A call's numbers.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// On 64-bit x86.
    pub x86_64: Option<u32>,
    /// On 64-bit ARM.
    pub aarch64: Option<u32>,
}

/// The lines of several lists together, with the calls' numbers.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Answered with EPERM.
    pub deny: Vec<Line>,
    /// Answered with ENOSYS.
    pub absent: Vec<Line>,
    /// By name.
    pub numbers: BTreeMap<String, Numbers>,
}

impl Rules {
    /// Reads lists.
    ///
    /// # Errors
    /// When one is not of the expected form.
    pub fn read(lists: &[&List]) -> Result<Self, Broken> {
        let numbers = toml::from_str(NUMBERS).map_err(Broken::Numbers)?;
        let mut rules = Self { deny: Vec::new(), absent: Vec::new(), numbers };
        for list in lists {
            let file: File = toml::from_str(list.text).map_err(|error| Broken::Syntax(list.name, error))?;
            rules.deny.extend(file.deny);
            rules.absent.extend(file.absent);
        }
        Ok(rules)
    }
}
