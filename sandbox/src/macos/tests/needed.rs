//! Nothing is in the profiles for nothing: without any one condition, or any one operation, of any rule some line of the
//! list comes out differently. What is there all the same says why, after `kept:`.

use std::collections::BTreeSet;

use super::super::evaluator::{Filter, Profile, Rule};
use super::listed::{Expected, expected};
use super::sample;
use crate::launch::Policy;

fn verdicts(profile: &Profile, list: &[&Expected]) -> Vec<bool> {
    list.iter().map(|one| profile.allows(&one.query).unwrap()).collect()
}

/// A rule of one policy, and what of it comes from a list of places or names.
struct Piece<'a> {
    rule: &'a Rule,
    places: &'a [String],
}

impl Piece<'_> {
    /// How a condition reads in the part: places are one condition, however many there are, and so are names.
    fn condition(&self, filter: &Filter) -> String {
        let text = format!("{filter:?}");
        if self.places.iter().any(|place| text.contains(place)) {
            return text.split('(').next().unwrap_or_default().to_owned() + " of places";
        }
        if matches!(filter, Filter::Regex(_)) && self.rule.filters.len() > 5 {
            "names".to_owned()
        } else {
            text
        }
    }

    fn written(&self) -> String {
        let conditions: BTreeSet<String> =
            self.rule.filters.iter().map(|filter| self.condition(filter)).collect();
        let verdict = if self.rule.allow { "allow" } else { "deny" };
        format!("({verdict} {}) {conditions:?}", self.rule.operations.join(" "))
    }

    /// Each way to take something out of it: all of it, an operation, a condition.
    fn weakened(&self) -> Vec<(String, Option<Rule>)> {
        let mut all = vec![("all of it".to_owned(), None)];
        if self.rule.operations.len() > 1 {
            for at in 0..self.rule.operations.len() {
                let mut one = self.rule.clone();
                let name = one.operations.remove(at);
                all.push((name, Some(one)));
            }
        }
        let conditions: BTreeSet<String> =
            self.rule.filters.iter().map(|filter| self.condition(filter)).collect();
        for condition in conditions.iter().filter(|_| conditions.len() > 1) {
            let mut one = self.rule.clone();
            one.filters.retain(|filter| self.condition(filter) != *condition);
            all.push((condition.clone(), Some(one)));
        }
        all
    }
}

/// The rules that a part marks as kept.
fn kept() -> BTreeSet<String> {
    let parts = [include_str!("../../../policy/seatbelt/base.sbpl")];
    let blocks = parts.iter().flat_map(|part| part.split("\n\n"));
    blocks
        .filter(|block| block.contains("; kept: "))
        .flat_map(|block| block.lines().filter(|line| line.starts_with('(')).map(str::to_owned))
        .collect()
}

/// All pieces of a policy, and those that no line of the list needs.
struct Pieces {
    all: BTreeSet<String>,
    idle: BTreeSet<String>,
}

fn pieces(policy: Policy) -> Pieces {
    let composed = sample::profile(policy);
    let places: Vec<String> =
        composed.parameters.iter().map(|(_, path)| format!("{:?}", path.to_str().unwrap())).collect();
    let profile = sample::understood(&composed);
    let all = expected();
    let list: Vec<&Expected> = all.iter().filter(|one| one.policy == policy).collect();
    let before = verdicts(&profile, &list);
    let mut pieces = Pieces { all: BTreeSet::new(), idle: BTreeSet::new() };
    for (at, rule) in profile.rules.iter().enumerate() {
        let piece = Piece { rule, places: &places };
        for (taken, rest) in piece.weakened() {
            let mut changed = profile.clone();
            match rest {
                Some(rest) => changed.rules[at] = rest,
                None => drop(changed.rules.remove(at)),
            }
            let name = format!("{} without {taken}", piece.written());
            if verdicts(&changed, &list) == before {
                pieces.idle.insert(name.clone());
            }
            pieces.all.insert(name);
        }
    }
    pieces
}

#[test]
fn each_piece_of_each_rule_is_needed_by_a_line_of_the_list() {
    let kept = kept();
    let policies = sample::POLICIES.map(pieces);
    // A part is shared by several policies: it is enough that one of them needs the piece.
    let needed = |piece: &&String| {
        policies.iter().any(|one| one.all.contains(*piece) && !one.idle.contains(*piece))
            || kept.iter().any(|kept| piece.starts_with(kept.as_str()))
    };
    let all: BTreeSet<&String> = policies.iter().flat_map(|one| &one.all).collect();
    let unneeded: Vec<_> = all.iter().filter(|piece| !needed(piece)).collect();
    assert!(all.len() > 60, "{}", all.len());
    assert!(unneeded.is_empty(), "{unneeded:#?}");
}

#[test]
fn what_is_kept_without_need_is_marked_and_still_without_need() {
    let idle = pieces(Policy::Command).idle;
    let kept = kept();
    assert_eq!(kept.len(), 1);
    for rule in kept {
        assert!(idle.iter().any(|piece| piece.starts_with(&rule)), "{rule} is needed: take the mark away");
    }
}
