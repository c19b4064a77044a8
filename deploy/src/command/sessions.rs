//! `gatehouse sessions`.

use std::io::Write;

use gatehouse_proto::v1::{ListSessionsRequest, SessionView};
use serde_json::Value;

use super::view::{ago, known, session_json};
use crate::cli::Sessions;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, clean};

pub(super) async fn run(
    mut operator: Operator,
    options: &Sessions,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let (sessions, damaged) = list(&mut operator, !options.all).await?;
    if !damaged.is_empty() {
        // Standard output has what can be read; that something cannot must not be overlooked.
        let ids: Vec<_> = damaged.iter().map(|id| clean(id, 60)).collect();
        let _ = writeln!(
            std::io::stderr(),
            "gatehouse: the ledger is damaged, and these sessions cannot be read: {}; `gatehouse verify` says more",
            ids.join(", ")
        );
    }
    if options.json {
        let all = sessions.iter().map(session_json).collect::<Vec<Value>>();
        screen.line(Value::Array(all).to_string())?;
        return Ok(());
    }
    if sessions.is_empty() {
        screen.line(if options.all {
            "No sessions."
        } else {
            "No live sessions; `--all` shows stopped ones."
        })?;
        return Ok(());
    }
    let rows: Vec<_> = sessions.iter().map(row).collect();
    screen.table(&["SESSION", "STATUS", "PROFILE", "LAST CALL", "DIRECTORY", "LABEL"], &rows)?;
    Ok(())
}

/// All pages, and the ids of those that cannot be read.
async fn list(operator: &mut Operator, live_only: bool) -> Result<(Vec<SessionView>, Vec<String>), Failure> {
    let (mut sessions, mut damaged) = (Vec::new(), Vec::new());
    let mut after = None;
    loop {
        let page =
            operator.list_sessions(ListSessionsRequest { live_only, limit: 1000, after }).await?.into_inner();
        sessions.extend(page.sessions);
        damaged.extend(page.damaged);
        after = page.next;
        if after.is_none() {
            return Ok((sessions, damaged));
        }
    }
}

fn row(session: &SessionView) -> Vec<String> {
    vec![
        session.native_session_id.clone(),
        known(session.status().name()).to_owned(),
        known(session.capability_profile().name()).to_owned(),
        ago(session.last_call_at_ms),
        clean(&session.working_directory, 60),
        clean(session.session_label.as_deref().unwrap_or("-"), 80),
    ]
}
