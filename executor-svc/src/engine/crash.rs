//! Which commits a test can crash before and after.

use crate::fail_point::{FailPoint, reach};
use crate::session::Effect;

/// A step is written and not committed.
pub(super) fn before_commit(effects: &[Effect]) {
    effects.iter().filter_map(points).for_each(|(before, _)| reach(before));
}

/// A step is committed, and nobody has been told.
pub(super) fn after_commit(effects: &[Effect]) {
    effects.iter().filter_map(points).for_each(|(_, after)| reach(after));
}

const fn points(effect: &Effect) -> Option<(FailPoint, FailPoint)> {
    use FailPoint as At;
    Some(match effect {
        Effect::SessionCreated => (At::StartBeforeCommit, At::StartAfterCommit),
        Effect::RunOpened { ordinal, .. } if *ordinal > 1 => {
            (At::ContinueBeforeCommit, At::ContinueAfterCommit)
        }
        Effect::Attached => (At::AttachBeforeCommit, At::AttachAfterCommit),
        Effect::TurnOpened { .. } => (At::TurnBeforeCommit, At::TurnAfterCommit),
        Effect::ReplyCommitted { .. } => (At::ReplyBeforeCommit, At::ReplyAfterCommit),
        Effect::ActionPrepared { .. } => (At::PreparedBeforeCommit, At::PreparedAfterCommit),
        Effect::ActionSettled { .. } => (At::ReceiptBeforeCommit, At::ReceiptAfterCommit),
        Effect::LeaseRotated => (At::LeaseBeforeCommit, At::LeaseAfterCommit),
        Effect::RunClosed { .. } => (At::EndBeforeCommit, At::EndAfterCommit),
        Effect::StopRequested => (At::StopBeforeCommit, At::StopAfterCommit),
        Effect::Stopped => (At::StoppedBeforeCommit, At::StoppedAfterCommit),
        _ => return None,
    })
}
