//! Rules and their filters.

use std::collections::BTreeMap;

use regex::Regex;

use super::expression::{self, Expression};
use super::operation::{ALLOWED_BY_DEFAULT, About, named};
use super::{Broken, Kind, Query, Target};

/// A profile that was understood.
#[derive(Debug, Clone)]
pub(in super::super) struct Profile {
    default: bool,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
pub(in super::super) struct Rule {
    pub allow: bool,
    /// As it was written: an operation or a group of them.
    pub operations: Vec<String>,
    /// One of them has to fit; with none it always does.
    pub filters: Vec<Filter>,
}

#[derive(Debug, Clone)]
pub(in super::super) enum Filter {
    Literal(String),
    Subpath(String),
    Regex(Regex),
    VnodeDirectory,
    RemoteIp(String, String),
    LocalIp(String, String),
    SameSandbox,
    Name(String),
    NamePrefix(String),
    NameRegex(Regex),
    Names(Vec<String>),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
}

impl Profile {
    /// Reads a profile with its parameters.
    pub fn read(text: &str, parameters: &BTreeMap<String, String>) -> Result<Self, Broken> {
        let mut profile = Self { default: true, rules: Vec::new() };
        let (mut version, mut default) = (false, false);
        for expression in expression::read(text)? {
            let Expression::List(items) = &expression else {
                return Err(Broken::Rule(format!("{expression:?}")));
            };
            match items.as_slice() {
                [Expression::Word(word), Expression::Word(one)] if word == "version" && one == "1" => {
                    version = true;
                }
                [Expression::Word(word), Expression::Word(all)] if word == "deny" && all == "default" => {
                    profile.default = false;
                    default = true;
                }
                items => profile.rules.push(Rule::read(items, parameters)?),
            }
        }
        if version && default {
            Ok(profile)
        } else {
            Err(Broken::Rule("no version, or no default".to_owned()))
        }
    }

    /// Whether it would be allowed.
    pub fn allows(&self, query: &Query) -> Result<bool, Broken> {
        let operation = named(&query.operation)?;
        if operation.len() != 1 || query.operation.ends_with('*') {
            return Err(Broken::Operation(query.operation.clone()));
        }
        let last = self.rules.iter().rev().find(|rule| rule.fits(query));
        let default = self.default || ALLOWED_BY_DEFAULT.contains(&query.operation.as_str());
        Ok(last.map_or(default, |rule| rule.allow))
    }
}

impl Rule {
    fn read(items: &[Expression], parameters: &BTreeMap<String, String>) -> Result<Self, Broken> {
        let broken = || Broken::Rule(format!("{items:?}"));
        let [Expression::Word(verdict), rest @ ..] = items else { return Err(broken()) };
        let allow = match verdict.as_str() {
            "allow" => true,
            "deny" => false,
            _ => return Err(broken()),
        };
        let count = rest.iter().take_while(|item| matches!(item, Expression::Word(_))).count();
        let (words, filters) = rest.split_at(count);
        let mut about = Vec::new();
        let mut operations = Vec::new();
        for word in words {
            let Expression::Word(word) = word else { return Err(broken()) };
            about.extend(named(word)?.iter().map(|(_, about)| *about));
            operations.push(word.clone());
        }
        if operations.is_empty() {
            return Err(broken());
        }
        let reader = FilterReader { parameters, about, operations: &operations, allow };
        let filters = filters.iter().map(|filter| reader.read(filter)).collect::<Result<_, _>>()?;
        Ok(Self { allow, operations, filters })
    }

    fn fits(&self, query: &Query) -> bool {
        let names = |group: &String| {
            named(group).is_ok_and(|found| found.iter().any(|(name, _)| *name == query.operation))
        };
        self.operations.iter().any(names)
            && (self.filters.is_empty() || self.filters.iter().any(|filter| filter.fits(query)))
    }
}

struct FilterReader<'a> {
    parameters: &'a BTreeMap<String, String>,
    about: Vec<About>,
    operations: &'a [String],
    allow: bool,
}

impl FilterReader<'_> {
    fn read(&self, expression: &Expression) -> Result<Filter, Broken> {
        let broken = || Broken::Filter(format!("{expression:?} for {:?}", self.operations));
        let Expression::List(items) = expression else { return Err(broken()) };
        let [Expression::Word(name), rest @ ..] = items.as_slice() else { return Err(broken()) };
        let only = |wanted: &[About]| self.about.iter().all(|about| wanted.contains(about));
        let all = || rest.iter().map(|one| self.read(one)).collect::<Result<Vec<_>, _>>();
        let filter = match (name.as_str(), rest) {
            ("literal", [path]) if only(&[About::Path, About::Peer]) => Filter::Literal(self.path(path)?),
            ("subpath", [path]) if only(&[About::Path, About::Peer]) => Filter::Subpath(self.path(path)?),
            ("regex", [Expression::Raw(text)]) if only(&[About::Path]) => Filter::Regex(regular(text)?),
            ("vnode-type", [Expression::Word(kind)]) if only(&[About::Path]) && kind == "DIRECTORY" => {
                Filter::VnodeDirectory
            }
            ("remote", [Expression::Word(ip), Expression::Text(text)])
                if ip == "ip" && self.is_outbound() =>
            {
                let (host, port) = address(text)?;
                Filter::RemoteIp(host, port)
            }
            // For what goes out it would hold for every connection, since all come from this machine.
            ("local", [Expression::Word(ip), Expression::Text(text)]) if ip == "ip" && self.is_inbound() => {
                let (host, port) = address(text)?;
                Filter::LocalIp(host, port)
            }
            ("target", [Expression::Word(target)]) if only(&[About::Process]) && target == "same-sandbox" => {
                Filter::SameSandbox
            }
            ("global-name", [Expression::Text(name)]) if only(&[About::Service]) => {
                Filter::Name(name.clone())
            }
            ("sysctl-name", [Expression::Text(name)]) if only(&[About::Setting]) => {
                Filter::Name(name.clone())
            }
            ("sysctl-name-prefix", [Expression::Text(name)]) if only(&[About::Setting]) => {
                Filter::NamePrefix(name.clone())
            }
            ("ipc-posix-name-regex", [Expression::Raw(text)]) if only(&[About::Shared]) => {
                Filter::NameRegex(regular(text)?)
            }
            ("syscall-number", numbers) if only(&[About::Call]) && !numbers.is_empty() => {
                let number = |number: &Expression| match number {
                    Expression::Word(name) if name.starts_with("SYS_") => Ok(name.clone()),
                    _ => Err(broken()),
                };
                Filter::Names(numbers.iter().map(number).collect::<Result<_, _>>()?)
            }
            ("require-all", [_, ..]) => Filter::All(all()?),
            ("require-any", [_, ..]) => Filter::Any(all()?),
            // Within a deny it makes sandbox-exec abort.
            ("require-not", [one]) if self.allow => Filter::Not(Box::new(self.read(one)?)),
            _ => return Err(broken()),
        };
        Ok(filter)
    }

    fn is_outbound(&self) -> bool {
        self.operations.iter().all(|name| name == "network-outbound")
    }

    fn is_inbound(&self) -> bool {
        self.operations.iter().all(|name| name == "network-bind" || name == "network-inbound")
    }

    fn path(&self, expression: &Expression) -> Result<String, Broken> {
        let broken = || Broken::Filter(format!("path {expression:?}"));
        let path = match expression {
            Expression::Text(path) => path.clone(),
            Expression::List(items) => match items.as_slice() {
                [Expression::Word(word), Expression::Text(name)] if word == "param" => {
                    self.parameters.get(name).cloned().ok_or_else(|| Broken::Parameter(name.clone()))?
                }
                _ => return Err(broken()),
            },
            Expression::Word(_) | Expression::Raw(_) => return Err(broken()),
        };
        let sound = path == "/" || (path.starts_with('/') && !path.ends_with('/') && !path.contains("//"));
        if sound { Ok(path) } else { Err(broken()) }
    }
}

/// The part of the expressions that both sides understand alike.
fn regular(text: &str) -> Result<Regex, Broken> {
    Regex::new(text).map_err(|error| Broken::Filter(error.to_string()))
}

/// Only these two hosts can be named.
fn address(text: &str) -> Result<(String, String), Broken> {
    let broken = || Broken::Filter(format!("address {text}"));
    let (host, port) = text.rsplit_once(':').ok_or_else(broken)?;
    let sound = host == "localhost" && port.parse::<u16>().is_ok();
    if sound { Ok((host.to_owned(), port.to_owned())) } else { Err(broken()) }
}

impl Filter {
    fn fits(&self, query: &Query) -> bool {
        let path = query.path.as_deref();
        let name = query.name.as_deref();
        match self {
            Self::Literal(wanted) => path == Some(wanted),
            Self::Subpath(dir) => path.is_some_and(|path| {
                dir == "/"
                    || path
                        .strip_prefix(dir.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
            Self::Regex(regex) => path.is_some_and(|path| regex.is_match(path)),
            Self::VnodeDirectory => query.kind == Kind::Directory,
            Self::RemoteIp(host, port) | Self::LocalIp(host, port) => {
                query.ip.as_ref().is_some_and(|(own, number)| own == host && number == port)
            }
            Self::SameSandbox => query.target == Some(Target::SameSandbox),
            Self::Name(wanted) => name == Some(wanted),
            Self::NamePrefix(prefix) => name.is_some_and(|name| name.starts_with(prefix.as_str())),
            Self::NameRegex(regex) => name.is_some_and(|name| regex.is_match(name)),
            Self::Names(all) => name.is_some_and(|name| all.iter().any(|one| one == name)),
            Self::All(filters) => filters.iter().all(|filter| filter.fits(query)),
            Self::Any(filters) => filters.iter().any(|filter| filter.fits(query)),
            Self::Not(filter) => !filter.fits(query),
        }
    }
}
