//! A session as a whole, a part at a time: at no moment is more than a turn of it in memory.

use gatehouse_proto::ids::{SessionId, ToolCallId};
use gatehouse_proto::v1::{self, export_part::Part};
use tokio::sync::mpsc;
use tonic::Status as Wire;

use super::actions::{action_view, diff_view};
use super::asks::told;
use super::{OperatorService, ledger};
use crate::clock::Timestamp;
use crate::ledger::actions::{self, ActionRow};
use crate::ledger::export::{self, RunLine, TurnLine};
use crate::ledger::journal;
use crate::ledger::verify::{self, Verdict};
use crate::rpc::refusals::spoken;
use crate::session::Session;

/// How many parts may wait for a slow client.
const PARTS: usize = 4;

type Out = mpsc::Sender<Result<v1::ExportPart, Wire>>;

/// Why an export ends early.
enum Stop {
    /// Nobody listens any more.
    Gone,
    /// It cannot go on.
    Failed(Box<Wire>),
}

impl From<Wire> for Stop {
    fn from(wire: Wire) -> Self {
        Self::Failed(Box::new(wire))
    }
}

async fn send(out: &Out, part: Part) -> Result<(), Stop> {
    out.send(Ok(v1::ExportPart { part: Some(part) })).await.map_err(|_| Stop::Gone)
}

impl OperatorService {
    /// The parts of a session's export, in their order.
    pub(super) fn export(&self, session: Session) -> mpsc::Receiver<Result<v1::ExportPart, Wire>> {
        let (out, parts) = mpsc::channel(PARTS);
        let this = self.clone();
        tokio::spawn(async move {
            if let Err(Stop::Failed(wire)) = this.export_all(session, &out).await {
                // The client may have gone meanwhile.
                let _ = out.send(Err(*wire)).await;
            }
        });
        parts
    }

    async fn export_all(&self, session: Session, out: &Out) -> Result<(), Stop> {
        let (id, uncertain) = (session.id.clone(), session.uncertain.clone());
        send(out, Part::Session(self.view(session).await?)).await?;
        send(out, Part::Facts(self.export_facts(&id).await?)).await?;
        let mut last = None;
        while let Some(run) = self.run_after(&id, last.take()).await? {
            last = Some(run.clone());
            self.export_run(&id, run, &uncertain, out).await?;
        }
        let wanted = id.clone();
        let operations = self.engine.read(move |connection| actions::operations(connection, &wanted)).await;
        for row in operations.map_err(ledger)? {
            self.export_action(&id, row, &uncertain, out).await?;
        }
        Ok(())
    }

    async fn export_facts(&self, id: &SessionId) -> Result<v1::ExportFacts, Wire> {
        let wanted = id.clone();
        let read = self.engine.read_long(move |connection| {
            Ok((
                export::counts(connection, &wanted)?,
                verify::walk(connection)?,
                journal::last_hash(connection)?,
            ))
        });
        let (counts, verdict, hash) = read.await.map_err(ledger)?;
        let (journal_entries, broken_at_seq) = match verdict {
            Verdict::Whole(entries) => (entries, None),
            Verdict::Broken(seq) => (seq.saturating_sub(1), Some(seq)),
        };
        Ok(v1::ExportFacts {
            runs: counts.runs,
            turns: counts.turns,
            actions: counts.actions,
            entries: counts.entries,
            first_seq: counts.first_seq,
            last_seq: counts.last_seq,
            journal_entries,
            journal_sha256: hash,
            broken_at_seq,
            exported_at_ms: self.engine.now().millis(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    async fn run_after(&self, id: &SessionId, after: Option<RunLine>) -> Result<Option<RunLine>, Wire> {
        let id = id.clone();
        let read = self.engine.read(move |connection| export::run_after(connection, &id, after.as_ref()));
        read.await.map_err(ledger)
    }

    async fn export_run(
        &self,
        id: &SessionId,
        run: RunLine,
        uncertain: &[ToolCallId],
        out: &Out,
    ) -> Result<(), Stop> {
        let run_id = run.id.clone();
        send(out, Part::Run(run_view(run))).await?;
        let mut last: Option<TurnLine> = None;
        loop {
            let (wanted, after) = (run_id.clone(), last.take());
            let read = self.engine.read(move |connection| {
                let Some(turn) = export::turn_after(connection, &wanted, after.as_ref())? else {
                    return Ok(None);
                };
                let calls = actions::of_turn(connection, &turn.id)?;
                Ok(Some((turn, calls)))
            });
            let Some((turn, calls)) = read.await.map_err(ledger)? else { return Ok(()) };
            send(out, Part::Turn(turn_view(&turn, run_id.as_str()))).await?;
            for row in calls {
                self.export_action(id, row, uncertain, out).await?;
            }
            last = Some(turn);
        }
    }

    async fn export_action(
        &self,
        id: &SessionId,
        row: ActionRow,
        uncertain: &[ToolCallId],
        out: &Out,
    ) -> Result<(), Stop> {
        let changed = row.intent.is_some().then(|| ToolCallId::try_from(row.id.clone()).ok()).flatten();
        send(out, Part::Action(action_view(row, uncertain).map_err(ledger)?)).await?;
        let Some(call) = changed else { return Ok(()) };
        let diff = match self.actions.difference(id, &call).await {
            Ok(found) => diff_view(found),
            // The contents may have been pruned: the report goes on, and says so in its place.
            Err(fault) => {
                let note = told(fault).message().to_owned();
                v1::DiffView { tool_call_id: call.to_string(), note: Some(note), ..v1::DiffView::default() }
            }
        };
        send(out, Part::Diff(diff)).await
    }

    /// The session that is to be exported.
    pub(super) async fn exported(&self, id: &SessionId) -> Result<Session, Wire> {
        self.engine.load(id).map_err(|fault| spoken(fault).into())
    }
}

fn run_view(run: RunLine) -> v1::ExportRun {
    v1::ExportRun {
        run_id: run.id.to_string(),
        ordinal: run.ordinal,
        prompt: run.prompt,
        started_at_ms: run.started_at.millis(),
        ended_at_ms: run.ended_at.map(Timestamp::millis),
    }
}

fn turn_view(turn: &TurnLine, run_id: &str) -> v1::ExportTurn {
    v1::ExportTurn {
        turn_id: turn.id.to_string(),
        run_id: run_id.to_owned(),
        ordinal: turn.ordinal,
        kind: turn.kind.clone(),
        state: turn.state.clone(),
        opened_at_ms: turn.opened_at.millis(),
        answered_at_ms: turn.answered_at.map(Timestamp::millis),
        reply_text: turn.reply_text.clone(),
        closed_why: turn.closed_why.clone(),
    }
}
