//! The filters, evaluated: every line does something, and what programs need is not refused.

use std::collections::BTreeMap;

use nix::libc;
use proptest::prelude::*;
use serde::Deserialize;

use super::compile::{Instruction, Target, compile};
use super::data::{self, List, Rules};
use super::*;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

const LISTS: [&List; 4] = [&data::NETWORK_NONE, &data::NETWORK_LOOPBACK, &data::NETWORK_PORTS, &data::SELF];
const TARGETS: [Target; 2] = [Target::X86_64, Target::Aarch64];

fn native() -> Target {
    Target::named(std::env::consts::ARCH).unwrap()
}

/// A call as the filter sees it.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u32,
    architecture: u32,
    args: [u64; 6],
}

/// The 32-bit word at this offset of `struct seccomp_data`, little-endian.
fn word(call: &Call, offset: u32) -> u32 {
    let at = |index: u32| {
        let argument = call.args[usize::try_from((index - 16) / 8).unwrap()];
        u32::try_from(if index.is_multiple_of(8) { argument & 0xffff_ffff } else { argument >> 32 }).unwrap()
    };
    match offset {
        0 => call.number,
        4 => call.architecture,
        8 | 12 => 0,
        _ => at(offset),
    }
}

/// Runs a filter: the instructions that are in use, and no others.
fn evaluate(program: &[Instruction], call: &Call) -> u32 {
    let (mut accumulator, mut at) = (0, 0);
    loop {
        let (code, jt, jf, k) = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => accumulator = word(call, k),
            0x54 => accumulator &= k,
            0x05 => at += usize::try_from(k).unwrap(),
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            0x35 => at += jump(accumulator >= k),
            0x06 => return k,
            other => panic!("{other:#x}"),
        }
    }
}

fn number(rules: &Rules, name: &str, target: Target) -> Option<u32> {
    target.number(rules.numbers[name])
}

fn call(number: u32, args: &[i64], target: Target) -> Call {
    let mut all = [0; 6];
    all.iter_mut().zip(args).for_each(|(to, from)| *to = from.cast_unsigned());
    Call { number, architecture: target.architecture(), args: all }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    call: String,
    #[serde(default)]
    line: usize,
    #[serde(default)]
    args: Vec<i64>,
    #[serde(default, rename = "outside")]
    _outside: bool,
    #[serde(default)]
    x86: bool,
}

fn attempts() -> BTreeMap<String, Vec<Attempt>> {
    toml::from_str(include_str!("../../../tests/data/seccomp-attempts.toml")).unwrap()
}

/// The lists of one program without one line: the `line`-th of those for `call` in the list `of`.
fn without(lists: &[&List], of: &str, call: &str, line: usize) -> Rules {
    let whole = Rules::read(lists).unwrap();
    let mut rest = Rules { deny: Vec::new(), absent: Vec::new(), numbers: whole.numbers };
    for list in lists {
        let one = Rules::read(&[list]).unwrap();
        for (from, to) in [(one.deny, &mut rest.deny), (one.absent, &mut rest.absent)] {
            let mut seen = 0;
            to.extend(from.into_iter().filter(|candidate| {
                let same = list.name == of && candidate.call == call;
                seen += usize::from(same);
                !(same && seen == line + 1)
            }));
        }
    }
    rest
}

#[test]
fn each_line_refuses_its_attempt_and_without_the_line_nothing_does() {
    let attempts = attempts();
    for target in TARGETS {
        for list in LISTS {
            let lists = [&data::BASE, list];
            let rules = Rules::read(&lists).unwrap();
            let whole = compile(&rules, target).unwrap();
            for (of, attempt) in ["base", list.name]
                .iter()
                .flat_map(|of| attempts[*of].iter().map(move |attempt| (*of, attempt)))
            {
                let Some(number) = number(&rules, &attempt.call, target) else {
                    assert!(attempt.x86 && target == Target::Aarch64, "{}", attempt.call);
                    continue;
                };
                let call = call(number, &attempt.args, target);
                let expected = if attempt.call == "clone3" { ENOSYS } else { EPERM };
                assert_eq!(evaluate(&whole, &call), expected, "{of} {} {call:?}", attempt.call);
                let rest = compile(&without(&lists, of, &attempt.call, attempt.line), target).unwrap();
                // The self list forbids what the base only forbids for some flags: there the base's line is not alone.
                let covered = list.name == "self" && of == "base" && attempt.call == "clone";
                let expected = if covered { evaluate(&rest, &call) } else { ALLOW };
                assert_eq!(evaluate(&rest, &call), expected, "{of} {} line {}", attempt.call, attempt.line);
            }
        }
    }
}

#[test]
fn no_line_is_without_an_attempt_and_a_reason() {
    let attempts = attempts();
    for list in LISTS.into_iter().chain([&data::BASE]) {
        let rules = Rules::read(&[list]).unwrap();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for line in rules.deny.iter().chain(&rules.absent) {
            let at = seen.entry(&line.call).or_default();
            let has =
                attempts[list.name].iter().any(|attempt| attempt.call == line.call && attempt.line == *at);
            assert!(has, "{} {} line {at}", list.name, line.call);
            assert!(!line.reason.is_empty(), "{} {}", list.name, line.call);
            *at += 1;
        }
    }
}

#[test]
fn foreign_architectures_and_x32_are_killed() {
    for list in LISTS {
        for target in TARGETS {
            let rules = Rules::read(&[&data::BASE, list]).unwrap();
            let program = compile(&rules, target).unwrap();
            // i386, ARM, and the other of the two.
            for foreign in [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7] {
                let call = Call { number: 0, architecture: foreign, args: [0; 6] };
                let expected = if foreign == target.architecture() { ALLOW } else { KILL };
                assert_eq!(evaluate(&program, &call), expected, "{foreign:#x}");
            }
            for x32 in [0x4000_0000_u32, 0x4000_0029, 0xffff_ffff] {
                let expected = if target == Target::X86_64 { KILL } else { ALLOW };
                assert_eq!(evaluate(&program, &call(x32, &[], target)), expected, "{x32:#x}");
            }
        }
    }
}

#[test]
fn what_programs_need_is_not_refused() {
    let native = native();
    let ordinary: &[(i64, &[i64])] = &[
        (libc::SYS_read, &[]),
        (libc::SYS_write, &[]),
        (libc::SYS_execve, &[]),
        (libc::SYS_clone, &[0x3d_0f00]),
        (libc::SYS_clone, &[0x0120_0011]),
        (libc::SYS_sendto, &[3, 0, 0, 0x4000]),
        (libc::SYS_sendmsg, &[]),
        (libc::SYS_recvmsg, &[]),
        (libc::SYS_socketpair, &[1, 0x80801, 0]),
        (libc::SYS_socketpair, &[1, 0x80005, 0]),
        (libc::SYS_ioctl, &[1, 0x5401]),
        (libc::SYS_personality, &[0xffff_ffff]),
        (libc::SYS_personality, &[0]),
        (libc::SYS_kill, &[]),
        (libc::SYS_prctl, &[]),
        (libc::SYS_seccomp, &[]),
        (libc::SYS_pidfd_open, &[]),
        (libc::SYS_memfd_create, &[]),
    ];
    for list in [&data::NETWORK_NONE, &data::NETWORK_LOOPBACK, &data::NETWORK_PORTS] {
        let program = compile(&Rules::read(&[&data::BASE, list]).unwrap(), native).unwrap();
        for (number, args) in ordinary {
            let call = call(u32::try_from(*number).unwrap(), args, native);
            assert_eq!(evaluate(&program, &call), ALLOW, "{} {call:?}", list.name);
        }
    }
}

#[test]
fn each_list_lets_through_the_sockets_that_it_is_for() {
    let native = native();
    let socket = |family, kind, protocol| (libc::SYS_socket, [family, kind, protocol]);
    type Calls<'a> = &'a [(i64, [i64; 3])];
    let cases: &[(&List, Calls<'_>)] = &[
        (
            &data::NETWORK_LOOPBACK,
            &[
                socket(2, 0x80801, 6),
                socket(10, 1, 0),
                socket(2, 0x80002, 17),
                (libc::SYS_bind, [3, 0, 0]),
                (libc::SYS_listen, [3, 0, 0]),
                (libc::SYS_accept4, [3, 0, 0]),
            ],
        ),
        (
            &data::NETWORK_PORTS,
            &[
                socket(2, 0x80801, 6),
                socket(10, 1, 0),
                (libc::SYS_connect, [3, 0, 0]),
                (libc::SYS_setsockopt, [3, 6, 1]),
            ],
        ),
        (
            &data::SELF,
            &[
                socket(1, 0x80801, 0),
                (libc::SYS_connect, [3, 0, 0]),
                (libc::SYS_accept4, [3, 0, 0]),
                (libc::SYS_clone, [0x3d_0f00, 0, 0]),
            ],
        ),
    ];
    for (list, calls) in cases {
        let program = compile(&Rules::read(&[&data::BASE, list]).unwrap(), native).unwrap();
        for (number, args) in *calls {
            let call = call(u32::try_from(*number).unwrap(), args, native);
            assert_eq!(evaluate(&program, &call), ALLOW, "{} {call:?}", list.name);
        }
    }
}

#[test]
fn the_upper_half_of_an_argument_changes_nothing() {
    let native = native();
    let program = compile(&Rules::read(&[&data::BASE, &data::NETWORK_PORTS]).unwrap(), native).unwrap();
    let socket = u32::try_from(libc::SYS_socket).unwrap();
    let with = |family: u64| Call {
        number: socket,
        architecture: native.architecture(),
        args: [family, 1, 0, 0, 0, 0],
    };
    assert_eq!(evaluate(&program, &with(0xdead_0000_0002)), ALLOW);
    assert_eq!(evaluate(&program, &with(0x2_0000_0001)), EPERM);
}

#[test]
fn the_numbers_are_this_machines() {
    let rules = Rules::read(&[&data::BASE]).unwrap();
    let native = native();
    for (name, expected) in [
        ("clone3", libc::SYS_clone3),
        ("mount", libc::SYS_mount),
        ("ptrace", libc::SYS_ptrace),
        ("socket", libc::SYS_socket),
        ("socketpair", libc::SYS_socketpair),
        ("execve", libc::SYS_execve),
        ("unshare", libc::SYS_unshare),
        ("keyctl", libc::SYS_keyctl),
        ("bpf", libc::SYS_bpf),
        ("setsockopt", libc::SYS_setsockopt),
        ("sendmmsg", libc::SYS_sendmmsg),
        ("clock_settime", libc::SYS_clock_settime),
        ("name_to_handle_at", libc::SYS_name_to_handle_at),
        ("process_madvise", libc::SYS_process_madvise),
        ("mount_setattr", libc::SYS_mount_setattr),
    ] {
        assert_eq!(number(&rules, name, native).map(i64::from), Some(expected), "{name}");
    }
}

#[test]
fn each_policy_has_a_list_for_its_networks_and_no_other() {
    let ports = Network::Listeners { ports: vec![4001] };
    for (policy, network, has) in [
        (Policy::Command, &Network::None, true),
        (Policy::Command, &Network::PrivateLoopback, true),
        (Policy::Command, &ports, false),
        (Policy::Git, &Network::None, true),
        (Policy::Git, &Network::PrivateLoopback, false),
        (Policy::Claude, &ports, true),
        (Policy::Claude, &Network::None, true),
        (Policy::Claude, &Network::PrivateLoopback, false),
        (Policy::SelfConfinement, &Network::None, true),
        (Policy::SelfConfinement, &ports, false),
    ] {
        assert_eq!(Filter::of(policy, network).is_ok(), has, "{policy:?} {network:?}");
    }
}

#[test]
fn what_is_built_in_is_what_the_lists_say() {
    for (list, built_in) in
        LISTS.into_iter().zip([&NETWORK_NONE[..], &NETWORK_LOOPBACK, &NETWORK_PORTS, &SELF])
    {
        let compiled = compile(&Rules::read(&[&data::BASE, list]).unwrap(), native()).unwrap();
        let built_in: Vec<Instruction> =
            built_in.iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect();
        assert_eq!(built_in, compiled, "{}", list.name);
        assert!(compiled.len() < 300, "{}: {}", list.name, compiled.len());
    }
}

/// The same lines, compiled by a library that many use: one filter for each answer, the strictest counts.
mod reference;

fn any_argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..20,
        Just(262),
        (0_u32..32).prop_map(|bit| 1 << bit),
        (0_u32..64).prop_map(|bit| 1 << bit),
        Just(0x5412),
        Just(0x541c),
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_call_gets_the_answer_that_the_reference_gives(
        list in 0..LISTS.len(),
        target in 0..TARGETS.len(),
        which in any::<proptest::sample::Index>(),
        near in -1_i32..=1,
        args in proptest::array::uniform6(any_argument()),
    ) {
        let (program, reference, numbers) = reference::both(list, target);
        let number = which.get(numbers).saturating_add_signed(near);
        let call = Call { number, architecture: TARGETS[target].architecture(), args };
        let expected = reference.iter().map(|one| evaluate(one, &call)).min_by_key(|answer| answer.cast_signed());
        prop_assert_eq!(Some(evaluate(program, &call)), expected, "{:?}", call);
    }
}
