//! `native_session_status`.

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::StatusRequest;
use serde_json::{Map, Value};

use super::fields::{LEASE, SESSION};
use super::input::{Arguments, WaitField, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};

const NAME: &str = "native_session_status";
const DESCRIPTION: &str = "\
Look at a session: its status, its pending_turn with all receipts, its current run and its last result. Changes \
nothing. With wait_seconds it answers as soon as the state changes, which is the way to wait while a session is \
starting or running. Also the way to see the pending turn again, at any time.";

const WAIT: WaitField = WaitField {
    description: "How long to wait for a change of the session's state; 0 answers at once. 25 is a good value while a \
                  session is starting or running.",
    default: 0,
};

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        title: "Look at a Claude Code session",
        description: DESCRIPTION,
        effect: Effect::ReadOnly,
        input_schema: object(
            [SESSION.property(), LEASE.property(), WAIT.property()],
            &[SESSION.name, LEASE.name],
        ),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let request = StatusRequest {
        native_session_id: arguments.text(&SESSION),
        lease_id: arguments.text(&LEASE),
        wait_seconds: Some(arguments.wait(&WAIT)),
    };
    arguments.finish(NAME)?;
    Ok(Call::Status(request))
}
