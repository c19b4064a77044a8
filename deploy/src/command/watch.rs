//! `gatehouse watch`.

use std::io::{IsTerminal, Write};

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::{Event, WatchEventsRequest};
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use super::view::moment;
use crate::cli::Watch;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, Style, clean};

pub(super) async fn run(mut operator: Operator, options: Watch, screen: &mut Screen) -> Result<(), Failure> {
    let request = WatchEventsRequest { from_seq: options.from, native_session_id: options.session };
    let mut events = operator.watch_events(request).await?.into_inner();
    // Nothing may happen for long; whoever looks at a terminal shall not wonder.
    if std::io::stderr().is_terminal() {
        let _ = writeln!(
            std::io::stderr(),
            "Watching. What sessions do is shown as it happens; Ctrl-C ends this."
        );
    }
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            _ = &mut stop => return Ok(()),
            event = events.next() => match event {
                Some(Ok(event)) if options.json => screen.line(as_json(&event).to_string())?,
                Some(Ok(event)) => screen.line(as_line(&event, screen))?,
                Some(Err(status)) if Refusal::from_status(&status).is_some() => return Err(status.into()),
                // The stream has no end of its own: it breaks when the gateway goes.
                Some(Err(_)) | None => return Err(Failure::unreachable()),
            },
        }
    }
}

fn body(event: &Event) -> Value {
    serde_json::from_str(&event.body_json).unwrap_or(Value::Null)
}

fn as_json(event: &Event) -> Value {
    json!({
        "seq": event.seq,
        "at": moment(event.at_ms),
        "native_session_id": event.native_session_id,
        "kind": event.kind,
        "body": body(event),
    })
}

fn as_line(event: &Event, screen: &Screen) -> String {
    let facts = match body(event) {
        Value::Object(facts) => {
            facts.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    let seq = screen.paint(Style::Dim, &format!("{:>6} {}", event.seq, moment(event.at_ms)));
    let kind = screen.paint(Style::Bold, &format!("{:<20}", clean(&event.kind, 40)));
    let session = match event.native_session_id.as_str() {
        "" => "-".to_owned(),
        id => clean(id, 40),
    };
    format!("{seq}  {session:<35}  {kind}  {}", clean(&facts, 160))
}
