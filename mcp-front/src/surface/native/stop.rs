//! `native_session_stop`.

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::StopRequest;
use serde_json::{Map, Value};

use super::fields::{LEASE, REQUEST_ID, SESSION};
use super::input::{Arguments, Limits, TextField, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};

const NAME: &str = "native_session_stop";
const DESCRIPTION: &str = "\
End a session for good: its process and its commands are ended, and it cannot be continued. Its history, its receipts \
and, for worktree_write, its worktree are kept for the user. Call it when the user is done with the session or asks to \
stop; an idle session uses no process and need not be stopped between tasks. Never refused because the session is busy.";

const REASON: TextField = TextField {
    name: "reason",
    description: "Why, in a sentence; it is kept with the session.",
    limits: Limits::Characters(0, 500),
};

pub(super) fn spec() -> ToolSpec {
    let properties = [SESSION.property(), LEASE.property(), REQUEST_ID.property(), REASON.property()];
    ToolSpec {
        name: NAME,
        title: "Stop a Claude Code session",
        description: DESCRIPTION,
        effect: Effect::Destructive,
        input_schema: object(properties, &[SESSION.name, LEASE.name, REQUEST_ID.name]),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let request = StopRequest {
        native_session_id: arguments.text(&SESSION),
        lease_id: arguments.text(&LEASE),
        request_id: arguments.text(&REQUEST_ID),
        reason: arguments.optional_text(&REASON),
    };
    arguments.finish(NAME)?;
    Ok(Call::Stop(request))
}
