//! Instants with a name at which a test has this process end as in a crash: by SIGKILL, with no chance to tidy up.
//!
//! `GATEHOUSE_FAIL_AT=reply.after_commit` ends it at the first visit, `reply.after_commit:3` at the third. The steps of
//! replacing a file have names of their own under the same variable. Release builds know none of this; elsewhere a point
//! that is not armed costs one relaxed load.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// An instant with a name. What must hold after a crash at each stands in the test that crashes there.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum FailPoint {
            $($(#[$doc])* $point,)*
        }

        impl FailPoint {
            /// Every point.
            pub const ALL: &[Self] = &[$(Self::$point),*];

            /// Its name in `GATEHOUSE_FAIL_AT`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A new session is written and not committed.
    StartBeforeCommit = "start.before_commit",
    /// It is committed, and nobody knows.
    StartAfterCommit = "start.after_commit",
    /// A further run is written and not committed.
    ContinueBeforeCommit = "continue.before_commit",
    /// It is committed, and nobody knows.
    ContinueAfterCommit = "continue.after_commit",
    /// A launch's link token is durable; there is no process.
    LaunchLinkNoted = "launch.link_noted",
    /// There is a process; the ledger does not know which.
    LaunchSpawned = "launch.spawned",
    /// The ledger knows; the process has no token.
    LaunchProcessNoted = "launch.process_noted",
    /// The process has its token.
    LaunchTokenGiven = "launch.token_given",
    /// A shim's word that it is there is written and not committed.
    AttachBeforeCommit = "attach.before_commit",
    /// It is committed; the shim does not know.
    AttachAfterCommit = "attach.after_commit",
    /// A turn is written and not committed.
    TurnBeforeCommit = "turn.before_commit",
    /// It is committed; neither side knows.
    TurnAfterCommit = "turn.after_commit",
    /// A reply and its actions are written and not committed.
    ReplyBeforeCommit = "reply.before_commit",
    /// They are committed; neither side knows.
    ReplyAfterCommit = "reply.after_commit",
    /// An action is recognised as authorised; nothing of it is done.
    ActionBegun = "action.begun",
    /// An action's intent is written and not committed.
    PreparedBeforeCommit = "prepared.before_commit",
    /// It is committed; nothing of it is done.
    PreparedAfterCommit = "prepared.after_commit",
    /// An action is done; it has no receipt.
    ActionPerformed = "action.performed",
    /// A receipt is written and not committed.
    ReceiptBeforeCommit = "receipt.before_commit",
    /// It is committed; Claude Code does not know.
    ReceiptAfterCommit = "receipt.after_commit",
    /// A new lease is written and not committed.
    LeaseBeforeCommit = "lease.before_commit",
    /// It is committed; nobody knows it.
    LeaseAfterCommit = "lease.after_commit",
    /// The end of a run is written and not committed.
    EndBeforeCommit = "end.before_commit",
    /// It is committed; the shim does not know.
    EndAfterCommit = "end.after_commit",
    /// A stop is written and not committed.
    StopBeforeCommit = "stop.before_commit",
    /// It is committed; nothing has been ended.
    StopAfterCommit = "stop.after_commit",
    /// The shim has been asked to end.
    EndAsked = "end.asked",
    /// Claude Code, all that it started and the shim are gone; the ledger does not know.
    EndSeen = "end.seen",
    /// The end of a session is written and not committed.
    StoppedBeforeCommit = "stopped.before_commit",
    /// It is committed; nobody knows.
    StoppedAfterCommit = "stopped.after_commit",
}

/// The armed point's place in [`FailPoint::ALL`], from 1; 0 while none is.
static ARMED: AtomicUsize = AtomicUsize::new(0);
/// How many visits are left until it counts.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// The process is at this point. Ends it if that is what the environment asked for.
#[inline]
pub fn reach(point: FailPoint) {
    if cfg!(debug_assertions) && ARMED.load(Ordering::Relaxed) == point as usize + 1 {
        fall();
    }
}

#[cold]
fn fall() {
    use nix::sys::signal::{Signal, kill};
    if LEFT.fetch_sub(1, Ordering::AcqRel) == 1 {
        // Nothing runs after this line unless the signal could not be sent.
        let _ = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
    }
}

/// Arms the point that the environment names, if it names one. Release builds do not look.
pub fn arm_from_environment() {
    let Some(text) = std::env::var("GATEHOUSE_FAIL_AT").ok().filter(|_| cfg!(debug_assertions)) else {
        return;
    };
    if let Some((place, visits)) = parse(&text) {
        LEFT.store(visits, Ordering::Release);
        ARMED.store(place + 1, Ordering::Release);
    }
}

fn parse(text: &str) -> Option<(usize, u32)> {
    let (name, visits) = text.split_once(':').unwrap_or((text, "1"));
    let visits = visits.parse().ok().filter(|visits| *visits > 0)?;
    let place = FailPoint::ALL.iter().position(|point| point.as_str() == name)?;
    Some((place, visits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_named_with_the_visit_at_which_it_counts() {
        assert_eq!(parse("start.before_commit"), Some((0, 1)));
        assert_eq!(parse("start.after_commit:3"), Some((1, 3)));
        for wrong in ["", "swap", "start.before_commit:0", "start.before_commit:x", "elsewhere"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        for (place, point) in FailPoint::ALL.iter().enumerate() {
            assert_eq!(parse(point.as_str()), Some((place, 1)));
            assert_eq!(*point as usize, place);
        }
    }

    #[test]
    fn a_point_that_is_not_armed_is_passed() {
        FailPoint::ALL.iter().copied().for_each(reach);
    }
}
