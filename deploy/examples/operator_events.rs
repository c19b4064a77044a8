//! The typed client: lists the sessions of a running gateway, then follows its journal from a sequence number on.
//!
//! `cargo run -p gatehouse --example operator_events -- RUNTIME_DIR FROM_SEQ COUNT`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use gatehouse_proto::socket::{MAX_MESSAGE, Role, channel};
use gatehouse_proto::v1::operator_client::OperatorClient;
use gatehouse_proto::v1::{ListSessionsRequest, WatchEventsRequest};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let runtime_dir = PathBuf::from(arguments.next().ok_or("the runtime directory is missing")?);
    let from_seq: u64 = arguments.next().unwrap_or_else(|| "1".to_owned()).parse()?;
    let count: usize = arguments.next().unwrap_or_else(|| "10".to_owned()).parse()?;
    let mut out = std::io::stdout();

    let socket = Role::Operator.socket(&runtime_dir);
    let mut operator = OperatorClient::new(channel(&socket)?).max_decoding_message_size(MAX_MESSAGE);

    let listed = operator.list_sessions(ListSessionsRequest::default()).await?.into_inner();
    for session in listed.sessions {
        let status = session.status().as_str_name();
        writeln!(out, "{}\t{status}\t{}", session.native_session_id, session.working_directory)?;
    }

    // To go on after an interruption, ask from the number after the last one that was seen.
    let request = WatchEventsRequest { from_seq: Some(from_seq), native_session_id: None };
    let mut events = operator.watch_events(request).await?.into_inner();
    for _ in 0..count {
        let Some(event) = events.message().await? else { break };
        writeln!(out, "{}\t{}\t{}", event.seq, event.native_session_id, event.kind)?;
    }
    Ok(())
}
