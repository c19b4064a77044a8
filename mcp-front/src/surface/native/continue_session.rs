//! `native_session_continue`.

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::ContinueRequest;
use serde_json::{Map, Value};

use super::fields::{IDEMPOTENCY_KEY, LEASE, PROMPT, SESSION, WAIT_FOR_FIRST_TURN};
use super::input::{Arguments, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};

const NAME: &str = "native_session_continue";
const DESCRIPTION: &str = "\
Start the next run of a session that is idle (its last run ended), failed to launch, or whose runner is gone. It is the \
same Claude Code session, with the same working directory, profile and history. The result brings the run's first \
pending_turn, which you answer with native_session_reply_and_wait. Not for answering a turn: while a turn is pending or \
a run is under way this is refused with session_busy. If the answer is lost, call again with the same idempotency_key \
and the same arguments: no second run is started.";

pub(super) fn spec() -> ToolSpec {
    let properties = [
        SESSION.property(),
        LEASE.property(),
        PROMPT.property(),
        IDEMPOTENCY_KEY.property(),
        WAIT_FOR_FIRST_TURN.property(),
    ];
    ToolSpec {
        name: NAME,
        title: "Continue a Claude Code session",
        description: DESCRIPTION,
        effect: Effect::Additive,
        input_schema: object(properties, &[SESSION.name, LEASE.name, PROMPT.name, IDEMPOTENCY_KEY.name]),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let request = ContinueRequest {
        native_session_id: arguments.text(&SESSION),
        lease_id: arguments.text(&LEASE),
        prompt: arguments.text(&PROMPT),
        idempotency_key: arguments.text(&IDEMPOTENCY_KEY),
        wait_seconds: Some(arguments.wait(&WAIT_FOR_FIRST_TURN)),
    };
    arguments.finish(NAME)?;
    Ok(Call::Continue(request))
}
