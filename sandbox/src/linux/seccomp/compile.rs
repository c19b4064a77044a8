//! From lines to filters.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    sock_filter,
};

use super::data::{Broken, Line, Numbers, Rules, Test};

/// The architectures that there are lists for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Target {
    X86_64,
    Aarch64,
}

impl Target {
    /// This machine's.
    pub(in super::super) const fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    const fn number(self, numbers: Numbers) -> Option<u32> {
        match self {
            Self::X86_64 => numbers.x86_64,
            Self::Aarch64 => numbers.aarch64,
        }
    }

    const fn architecture(self) -> TargetArch {
        match self {
            Self::X86_64 => TargetArch::x86_64,
            Self::Aarch64 => TargetArch::aarch64,
        }
    }
}

/// The filters, in the order in which they are to be installed.
pub(super) fn compile(rules: &Rules, target: Target) -> Result<Vec<BpfProgram>, Broken> {
    let absent = filter(&rules.absent, &rules.numbers, libc::ENOSYS, target)?;
    let deny = filter(&rules.deny, &rules.numbers, libc::EPERM, target)?;
    let x32 = match target {
        Target::X86_64 => Some(kill_x32()),
        Target::Aarch64 => None,
    };
    Ok(x32.into_iter().chain(absent).chain(deny).collect())
}

/// A filter that answers the calls of `lines` with an error; none if there is no such call on the architecture.
fn filter(
    lines: &[Line],
    numbers: &BTreeMap<String, Numbers>,
    errno: i32,
    target: Target,
) -> Result<Option<BpfProgram>, Broken> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut always = Vec::new();
    for line in lines {
        let known = numbers.get(&line.call).ok_or_else(|| Broken::NoNumber(line.call.clone()))?;
        let Some(number) = target.number(*known).map(i64::from) else { continue };
        let of_call = calls.entry(number).or_default();
        for way in line.ways()? {
            if way.is_empty() {
                always.push(number);
            } else {
                let tests = way.into_iter().map(condition).collect::<Result<_, _>>()?;
                of_call.push(SeccompRule::new(tests)?);
            }
        }
    }
    // No conditions at all means "always" to the compiler.
    for number in always {
        calls.insert(number, Vec::new());
    }
    if calls.is_empty() {
        return Ok(None);
    }
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, answer, target.architecture())?;
    Ok(Some(filter.try_into()?))
}

fn condition(test: Test) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (arg, operator, value) = match test {
        Test::Is { arg, value } => (arg, SeccompCmpOp::Eq, value),
        Test::IsNot { arg, value } => (arg, SeccompCmpOp::Ne, value),
        Test::Masked { arg, mask, value } => (arg, SeccompCmpOp::MaskedEq(mask.into()), value),
    };
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, operator, value.into())
}

/// Kills calls with x32 numbers. They are calls of the x86-64 architecture, so the check of the architecture passes them.
fn kill_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K
    let (load, at_least, answer) = (0x20, 0x35, 0x06);
    vec![
        // The number of the call is the first field.
        sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        sock_filter { code: at_least, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS },
        sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}
