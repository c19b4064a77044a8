//! `native_session_recover`.

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::RecoverRequest;
use serde_json::{Map, Value};

use super::fields::{RECOVERY_ID, RECOVERY_TOKEN, SESSION};
use super::input::{Arguments, WaitField, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};

const NAME: &str = "native_session_recover";
const DESCRIPTION: &str = "\
Get a session back whose lease expired, was lost or was replaced (lease_mismatch, lease_expired), for example from a new \
chat. Needs the recovery_token that native_session_start returned. Gives a new lease_id, ends the old one, and shows \
where the session stands: the same pending_turn if one is open, or idle if its process has ended \
(native_session_continue then goes on). Nothing that was authorised is cancelled or done twice. Not needed after an \
ordinary lost answer: for that, make the same call again with the same ids.";

const WAIT: WaitField =
    WaitField { description: "How long to wait for a pending_turn before answering.", default: 0 };

pub(super) fn spec() -> ToolSpec {
    let properties = [SESSION.property(), RECOVERY_TOKEN.property(), RECOVERY_ID.property(), WAIT.property()];
    ToolSpec {
        name: NAME,
        title: "Recover a Claude Code session",
        description: DESCRIPTION,
        effect: Effect::Additive,
        input_schema: object(properties, &[SESSION.name, RECOVERY_TOKEN.name, RECOVERY_ID.name]),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let request = RecoverRequest {
        native_session_id: arguments.text(&SESSION),
        recovery_token: arguments.text(&RECOVERY_TOKEN),
        recovery_id: arguments.text(&RECOVERY_ID),
        wait_seconds: Some(arguments.wait(&WAIT)),
    };
    arguments.finish(NAME)?;
    Ok(Call::Recover(request))
}
