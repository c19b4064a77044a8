//! From lines to one filter.
//!
//! The way to each answer is kept short: the kernel runs the program for every call number when it is installed, which
//! would be a good part of what a launch costs, and for many calls whenever they are made.
//!
//! ```text
//! foreign architecture, x32         kill
//! the number                        bisected, down to a few of the calls that are refused
//!   always refused                  one comparison each, jump to the answer
//!   refused for some arguments      compared, then each way in which a line can hold
//!   all else                        allow
//! ```
//!
//! Used when the crate is built, and by its tests; see `build.rs`.

use std::collections::BTreeMap;

use super::data::{Broken, Line, Numbers, Rules, Test};

/// An instruction: code, jump if true, jump if false, constant.
pub type Instruction = (u16, u8, u8, u32);

/// The architectures that there are lists for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Target {
    /// By the name that the compiler has for it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The number of a call; none where it does not exist.
    pub const fn number(self, numbers: Numbers) -> Option<u32> {
        match self {
            Self::X86_64 => numbers.x86_64,
            Self::Aarch64 => numbers.aarch64,
        }
    }

    /// `AUDIT_ARCH_*`.
    pub const fn architecture(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const ANSWER: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0000;
const EPERM: u32 = ERROR | 1;
const ENOSYS: u32 = ERROR | 38;

/// Where in the kernel's description of a call things are.
const CALL_NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// x32 calls are calls of the x86-64 architecture with this bit in their number.
const X32_BIT: u32 = 0x4000_0000;

/// Compiles the lines.
///
/// # Errors
/// When a line names an unknown call or a condition that means nothing, or the program becomes too long.
pub fn compile(rules: &Rules, target: Target) -> Result<Vec<Instruction>, Broken> {
    let mut calls: BTreeMap<u32, Call> = BTreeMap::new();
    for (lines, answer) in [(&rules.absent, ENOSYS), (&rules.deny, EPERM)] {
        for line in lines {
            add(&mut calls, line, answer, &rules.numbers, target)?;
        }
    }
    let calls: Vec<_> = calls.into_iter().collect();
    let mut program = prologue(target);
    program.extend(bisect(&calls)?);
    Ok(program)
}

/// Fewer calls than this are compared one after the other.
const FEW: usize = 8;

/// Finds the call's number among `calls`, which are sorted by it. Always ends in an answer.
fn bisect(calls: &[(u32, Call)]) -> Result<Vec<Instruction>, Broken> {
    let (low, high) = calls.split_at(calls.len() / 2);
    let Some((pivot, _)) = high.first().filter(|_| calls.len() > FEW) else { return refuse(calls) };
    let low = bisect(low)?;
    let mut program = vec![(JUMP_IF_AT_LEAST, short(low.len())?, 0, *pivot)];
    program.extend(low);
    program.extend(bisect(high)?);
    Ok(program)
}

/// Refuses these calls and allows all others.
fn refuse(calls: &[(u32, Call)]) -> Result<Vec<Instruction>, Broken> {
    let (always, sometimes): (Vec<_>, Vec<_>) = calls.iter().partition(|(_, call)| call.is_always());
    let mut program = Vec::new();
    for (answer, numbers) in by_answer(&always) {
        program.extend(refuse_all(&numbers, answer)?);
    }
    for (number, call) in sometimes {
        program.extend(refuse_sometimes(*number, call)?);
    }
    program.push((ANSWER, 0, 0, ALLOW));
    Ok(program)
}

/// The ways in which one call is refused: in each all tests hold; a way without tests always does.
#[derive(Debug, Default)]
struct Call {
    answer: u32,
    ways: Vec<Vec<Test>>,
}

impl Call {
    fn is_always(&self) -> bool {
        self.ways.iter().any(Vec::is_empty)
    }
}

fn add(
    calls: &mut BTreeMap<u32, Call>,
    line: &Line,
    answer: u32,
    numbers: &BTreeMap<String, Numbers>,
    target: Target,
) -> Result<(), Broken> {
    let known = numbers.get(&line.call).ok_or_else(|| Broken::NoNumber(line.call.clone()))?;
    if let Some(number) = target.number(*known) {
        let call = calls.entry(number).or_default();
        call.answer = answer;
        call.ways.extend(line.ways()?);
    }
    Ok(())
}

/// Leaves the number of the call in the accumulator.
fn prologue(target: Target) -> Vec<Instruction> {
    let mut program = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, target.architecture()),
        (ANSWER, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, CALL_NUMBER),
    ];
    if target == Target::X86_64 {
        program.extend([(JUMP_IF_AT_LEAST, 0, 1, X32_BIT), (ANSWER, 0, 0, KILL_PROCESS)]);
    }
    program
}

fn by_answer(always: &[&(u32, Call)]) -> BTreeMap<u32, Vec<u32>> {
    let mut answers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (number, call) in always {
        answers.entry(call.answer).or_default().push(*number);
    }
    answers
}

/// One comparison for each call; all jump to one answer.
fn refuse_all(numbers: &[u32], answer: u32) -> Result<Vec<Instruction>, Broken> {
    let mut program = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        // Over the comparisons that are left to the answer; the last one has to jump over it when it does not hold.
        let left = short(numbers.len() - at - 1)?;
        let skip = u8::from(left == 0);
        program.push((JUMP_IF_EQUAL, left, skip, *number));
    }
    program.push((ANSWER, 0, 0, answer));
    Ok(program)
}

/// One call, with the ways in which it is refused; the accumulator is left alone for other calls.
fn refuse_sometimes(number: u32, call: &Call) -> Result<Vec<Instruction>, Broken> {
    let mut body = Vec::new();
    for way in &call.ways {
        let mut tests = Vec::new();
        for test in way.iter().rev() {
            // From the last test backwards: a test that does not hold jumps to the next way, over those after it and
            // the answer.
            let to_next_way = short(tests.len() + 1)?;
            tests.splice(0..0, one_test(*test, to_next_way));
        }
        body.extend(tests);
        body.push((ANSWER, 0, 0, call.answer));
    }
    body.push((ANSWER, 0, 0, ALLOW));
    let mut program = vec![(JUMP_IF_EQUAL, 0, short(body.len())?, number)];
    program.extend(body);
    Ok(program)
}

fn one_test(test: Test, otherwise: u8) -> Vec<Instruction> {
    // The lower half of the argument; both architectures are little-endian.
    let load = |arg: u8| (LOAD, 0, 0, ARGUMENTS + 8 * u32::from(arg));
    match test {
        Test::Is { arg, value } => vec![load(arg), (JUMP_IF_EQUAL, 0, otherwise, value)],
        Test::IsNot { arg, value } => vec![load(arg), (JUMP_IF_EQUAL, otherwise, 0, value)],
        Test::Masked { arg, mask, value } => {
            vec![load(arg), (AND, 0, 0, mask), (JUMP_IF_EQUAL, 0, otherwise, value)]
        }
    }
}

/// Jumps are at most this long; a longer program would need another shape.
fn short(length: usize) -> Result<u8, Broken> {
    u8::try_from(length).map_err(|_| Broken::TooLong)
}
