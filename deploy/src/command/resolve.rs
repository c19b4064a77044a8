//! `gatehouse resolve`.

use gatehouse_proto::v1::{self, ResolveActionRequest};

use super::undo::{facts, fresh_id, outcome};
use super::view::action_json;
use crate::cli::{Decision, Resolve};
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::Screen;

pub(super) async fn run(
    mut operator: Operator,
    options: Resolve,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let ask = ResolveActionRequest {
        native_session_id: options.action.session,
        tool_call_id: options.action.action,
        request_id: options.request_id.unwrap_or_else(fresh_id),
        decision: decision(&options.decision).into(),
    };
    let resolve = operator.resolve_action(ask).await?.into_inner();
    if options.action.json {
        screen.line(action_json(&resolve).to_string())?;
    }
    let receipt = outcome(&resolve)?;
    if !options.action.json {
        screen.line("Decided. The session's model is told.")?;
        screen.facts(&facts(&resolve, &receipt))?;
    }
    Ok(())
}

/// The command line has made sure that exactly one is set.
const fn decision(asked: &Decision) -> v1::Decision {
    match asked {
        Decision { restore_before: true, .. } => v1::Decision::RestoreBefore,
        Decision { restore_after: true, .. } => v1::Decision::RestoreAfter,
        Decision { keep_disk: true, .. } => v1::Decision::KeepDisk,
        Decision { .. } => v1::Decision::Unspecified,
    }
}
