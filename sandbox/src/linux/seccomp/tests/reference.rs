//! The reference: `seccompiler`'s own compiler over the same lines.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::super::compile::{Instruction, Target, compile};
use super::super::data::{self, Line, Rules, Test};
use super::{LISTS, TARGETS};

type Both = (Vec<Instruction>, Vec<Vec<Instruction>>, Vec<u32>);

/// For a list and a target: ours, the reference, and the numbers of the calls that the lines name.
pub(super) fn both(list: usize, target: usize) -> &'static Both {
    static ALL: OnceLock<Vec<Both>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let pairs = LISTS.iter().flat_map(|list| TARGETS.iter().map(move |target| (*list, *target)));
        pairs
            .map(|(list, target)| {
                let rules = Rules::read(&[&data::BASE, list]).unwrap();
                let numbers = rules.numbers.values().filter_map(|numbers| target.number(*numbers)).collect();
                (compile(&rules, target).unwrap(), reference(&rules, target), numbers)
            })
            .collect()
    });
    &all[list * TARGETS.len() + target]
}

fn reference(rules: &Rules, target: Target) -> Vec<Vec<Instruction>> {
    [(&rules.absent, nix::libc::ENOSYS), (&rules.deny, nix::libc::EPERM)]
        .into_iter()
        .map(|(lines, errno)| filter(lines, rules, errno.cast_unsigned(), target))
        .map(|program| program.iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect())
        .collect()
}

fn filter(lines: &[Line], rules: &Rules, errno: u32, target: Target) -> BpfProgram {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut always = Vec::new();
    for line in lines {
        let Some(number) = target.number(rules.numbers[&line.call]).map(i64::from) else { continue };
        let of_call = calls.entry(number).or_default();
        for way in line.ways().unwrap() {
            if way.is_empty() {
                always.push(number);
            } else {
                of_call.push(SeccompRule::new(way.into_iter().map(condition).collect()).unwrap());
            }
        }
    }
    // No conditions at all means "always" to this compiler.
    calls.extend(always.into_iter().map(|number| (number, Vec::new())));
    let architecture = match target {
        Target::X86_64 => TargetArch::x86_64,
        Target::Aarch64 => TargetArch::aarch64,
    };
    let answer = SeccompAction::Errno(errno);
    SeccompFilter::new(calls, SeccompAction::Allow, answer, architecture).unwrap().try_into().unwrap()
}

fn condition(test: Test) -> SeccompCondition {
    let (arg, operator, value) = match test {
        Test::Is { arg, value } => (arg, SeccompCmpOp::Eq, value),
        Test::IsNot { arg, value } => (arg, SeccompCmpOp::Ne, value),
        Test::Masked { arg, mask, value } => (arg, SeccompCmpOp::MaskedEq(mask.into()), value),
    };
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, operator, value.into()).unwrap()
}
