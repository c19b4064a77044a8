//! What the end of `sandbox-exec` means when the program was never started.

use crate::launch::{Exit, Layer, LayerFailure, Remedy};

/// `EX_DATAERR`: the profile is not one.
const PROFILE_IS_BROKEN: i32 = 65;
/// `EX_OSERR`: the kernel refused to put it on.
const PROFILE_IS_REFUSED: i32 = 71;

/// Why nothing was started, from how `sandbox-exec` ended before anything inside had said a word.
pub(super) fn of_silence(how: Exit) -> LayerFailure {
    let failure = |call: String| LayerFailure::new(Layer::Seatbelt, call, 0);
    match how {
        Exit::Code(PROFILE_IS_BROKEN) => failure("sandbox-exec: the profile was not understood".to_owned()),
        Exit::Code(PROFILE_IS_REFUSED) => LayerFailure {
            remedy: Some(Remedy::NestedSeatbelt),
            ..LayerFailure::new(Layer::Seatbelt, "sandbox_apply", nix::errno::Errno::EPERM as i32)
        },
        Exit::Code(code) => failure(format!("sandbox-exec ended with code {code}")),
        Exit::Signal(signal) => failure(format!("sandbox-exec ended by signal {signal}")),
        Exit::TornDown => failure("sandbox-exec was killed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_profile_and_a_refused_one_are_told_apart() {
        let broken = of_silence(Exit::Code(65));
        assert!(broken.call.contains("not understood") && broken.remedy.is_none());
        let refused = of_silence(Exit::Code(71));
        assert_eq!((refused.errno, refused.remedy), (1, Some(Remedy::NestedSeatbelt)));
        for (how, word) in
            [(Exit::Code(1), "code 1"), (Exit::Signal(9), "signal 9"), (Exit::TornDown, "killed")]
        {
            assert!(of_silence(how).call.contains(word));
        }
    }
}
