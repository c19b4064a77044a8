//! The operator's service.

use std::pin::Pin;

use gatehouse_proto::ids::{RequestKey, ToolCallId};
use gatehouse_proto::v1::{self, operator_server::Operator};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status as Wire};

use super::refusals::spoken;
use super::{checks, view};
use crate::clock::Timestamp;
use crate::engine::{Engine, Fault, Once, parse};
use crate::ledger::actions::{self, ActionRow};
use crate::ledger::{LedgerError, SCHEMA_VERSION, journal, sessions};
use crate::session::{Command, Session, Status};

/// How much of inputs and receipts a list of actions carries: well within the message that a client takes.
const LISTED_BYTES: usize = 4 * 1024 * 1024;
/// How many journal entries are read at a time for a watcher.
const EVENTS_AT_A_TIME: u32 = 256;

/// The service.
#[derive(Debug, Clone)]
pub struct OperatorService {
    engine: Engine,
    started_at: Timestamp,
    shutdown: mpsc::Sender<()>,
}

fn ledger(error: LedgerError) -> Wire {
    spoken(Fault::from(error)).into()
}

impl OperatorService {
    /// The service of this engine; `shutdown` ends the executor.
    #[must_use]
    pub fn new(engine: Engine, shutdown: mpsc::Sender<()>) -> Self {
        let started_at = engine.now();
        Self { engine, started_at, shutdown }
    }

    async fn view(&self, session: Session) -> Result<v1::SessionView, Wire> {
        let (in_flight, now) = (self.engine.performing().of(&session.id), self.engine.now());
        self.engine
            .read(move |connection| view::session_view(connection, &session, &in_flight, now))
            .await
            .map_err(ledger)
    }

    /// Stops a session in the operator's name; one that is stopped already is as it should be.
    async fn stop(
        &self,
        id: &gatehouse_proto::ids::SessionId,
        request_id: RequestKey,
        reason: String,
    ) -> Result<Session, Fault> {
        let content_hash = gatehouse_proto::digest::digest(&serde_json::json!({ "reason": reason }));
        let once = Once { scope: format!("stop {id}"), key: request_id.clone(), content_hash, mints: None };
        let command = move |_: &rusqlite::Connection, claim| {
            Ok(Command::Stop { lease: None, claim, request_id, reason })
        };
        match self.engine.submit(id, Some(once), command).await {
            Ok(_)
            | Err(Fault::Refused(
                crate::session::Refusal::SessionStopped | crate::session::Refusal::SessionBusy(_),
            )) => {
                self.engine
                    .wait_until(id, std::time::Duration::from_secs(10), |s| {
                        s.state.status() == Status::Stopped
                    })
                    .await
            }
            Err(fault) => Err(fault),
        }
    }
}

/// The newest actions with input and receipt, as far as these fit into a message; the older ones without.
fn listed(rows: Vec<ActionRow>) -> Vec<v1::ActionView> {
    let mut left = LISTED_BYTES;
    let mut actions: Vec<_> = rows
        .into_iter()
        .rev()
        .map(|mut row| {
            let bytes = row.input.len() + row.receipt.as_ref().map_or(0, String::len);
            left = left.saturating_sub(bytes);
            if left == 0 {
                row.input.clear();
                row.receipt = None;
            }
            action_view(row)
        })
        .collect();
    actions.reverse();
    actions
}

fn action_view(row: ActionRow) -> v1::ActionView {
    v1::ActionView {
        tool_call_id: row.id,
        native_session_id: row.session_id,
        run_id: row.run_id.unwrap_or_default(),
        turn_id: row.turn_id.unwrap_or_default(),
        name: row.name,
        state: row.state,
        authorised_at_ms: row.authorised_at.millis(),
        finished_at_ms: row.finished_at.map(Timestamp::millis),
        ok: row.ok,
        code: row.code,
        input_json: row.input,
        receipt_json: row.receipt,
        receipt_sha256: row.receipt_sha256,
    }
}

/// Sends entries from `next` on, for as long as somebody listens.
async fn follow(
    engine: Engine,
    mut next: u64,
    session: Option<String>,
    out: mpsc::Sender<Result<v1::Event, Wire>>,
) {
    let mut head = engine.journal_head();
    loop {
        head.mark_unchanged();
        let wanted = session.clone();
        let read = engine.read(move |connection| {
            let entries = journal::entries(connection, next, wanted.as_deref(), EVENTS_AT_A_TIME)?;
            Ok((entries, journal::last_seq(connection)?))
        });
        let (entries, last) = match read.await {
            Ok(found) => found,
            Err(error) => {
                let _ = out.send(Err(ledger(error))).await;
                return;
            }
        };
        let full = entries.len() == EVENTS_AT_A_TIME as usize;
        next = if full { entries.last().map_or(next, |entry| entry.seq + 1) } else { next.max(last + 1) };
        for entry in entries {
            let event = v1::Event {
                seq: entry.seq,
                at_ms: entry.at.millis(),
                native_session_id: entry.session_id,
                kind: entry.kind,
                body_json: entry.body,
            };
            if out.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if !full {
            tokio::select! {
                changed = head.changed() => if changed.is_err() { return },
                () = out.closed() => return,
            }
        }
    }
}

#[tonic::async_trait]
impl Operator for OperatorService {
    async fn health(&self, _: Request<v1::HealthRequest>) -> Result<Response<v1::HealthReply>, Wire> {
        let (live_sessions, journal_seq) = self
            .engine
            .read(|connection| Ok((sessions::count_live(connection)?, journal::last_seq(connection)?)))
            .await
            .map_err(ledger)?;
        Ok(Response::new(v1::HealthReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: self.started_at.millis(),
            live_sessions,
            journal_seq,
            schema_version: SCHEMA_VERSION,
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsReply>, Wire> {
        let ask = request.into_inner();
        let limit = match ask.limit {
            0 => 200,
            limit => limit.min(1000),
        };
        let (engine, now) = (self.engine.clone(), self.engine.now());
        let listed = self.engine.read(move |connection| {
            let texts = sessions::list(connection, ask.live_only, ask.after.as_deref(), limit)?;
            let view = |text: &String| {
                let session = parse(text)?;
                view::listed_view(connection, &session, &engine.performing().of(&session.id), now)
            };
            texts.iter().map(view).collect::<Result<Vec<_>, _>>()
        });
        let sessions = listed.await.map_err(ledger)?;
        let next = (sessions.len() == limit as usize)
            .then(|| sessions.last().map(|s| s.native_session_id.clone()))
            .flatten();
        Ok(Response::new(v1::ListSessionsReply { sessions, next }))
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionReply>, Wire> {
        let id = checks::session_id(request.into_inner().native_session_id)?;
        let session = self.engine.load(&id).await.map_err(spoken)?;
        Ok(Response::new(v1::GetSessionReply { session: Some(self.view(session).await?) }))
    }

    type WatchEventsStream = Pin<Box<dyn Stream<Item = Result<v1::Event, Wire>> + Send>>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Wire> {
        let ask = request.into_inner();
        let next = match ask.from_seq {
            // The ledger counts up to the largest signed number.
            Some(seq) => seq.clamp(1, i64::MAX.unsigned_abs()),
            None => self.engine.read(journal::last_seq).await.map_err(ledger)? + 1,
        };
        let (out, events) = mpsc::channel(64);
        tokio::spawn(follow(self.engine.clone(), next, ask.native_session_id, out));
        Ok(Response::new(Box::pin(ReceiverStream::new(events))))
    }

    async fn list_actions(
        &self,
        request: Request<v1::ListActionsRequest>,
    ) -> Result<Response<v1::ListActionsReply>, Wire> {
        let id = checks::session_id(request.into_inner().native_session_id)?;
        self.engine.load(&id).await.map_err(spoken)?;
        let rows =
            self.engine.read(move |connection| actions::of_session(connection, &id)).await.map_err(ledger)?;
        Ok(Response::new(v1::ListActionsReply { actions: listed(rows) }))
    }

    async fn get_action(
        &self,
        request: Request<v1::GetActionRequest>,
    ) -> Result<Response<v1::ActionView>, Wire> {
        let unknown = || Wire::not_found("no action has this id");
        let id = ToolCallId::try_from(request.into_inner().tool_call_id).map_err(|_| unknown())?;
        let row = self.engine.read(move |connection| actions::load(connection, &id)).await.map_err(ledger)?;
        Ok(Response::new(action_view(row.ok_or_else(unknown)?)))
    }

    async fn stop_session(
        &self,
        request: Request<v1::StopSessionRequest>,
    ) -> Result<Response<v1::GetSessionReply>, Wire> {
        let ask = request.into_inner();
        let id = checks::session_id(ask.native_session_id)?;
        let request_id = checks::key("request_id", ask.request_id)?;
        let reason = checks::reason(Some(ask.reason))?;
        let session = self.stop(&id, request_id, reason).await.map_err(spoken)?;
        Ok(Response::new(v1::GetSessionReply { session: Some(self.view(session).await?) }))
    }

    async fn verify_ledger(
        &self,
        _: Request<v1::VerifyLedgerRequest>,
    ) -> Result<Response<v1::VerifyLedgerReply>, Wire> {
        let reply = match self.engine.read(journal::verify).await.map_err(ledger)? {
            journal::Verdict::Whole(entries) => v1::VerifyLedgerReply {
                ok: true,
                entries,
                broken_at_seq: None,
                message: format!("The chain of {entries} entries is whole."),
            },
            journal::Verdict::Broken(seq) => v1::VerifyLedgerReply {
                ok: false,
                entries: seq - 1,
                broken_at_seq: Some(seq),
                message: format!(
                    "Entry {seq} is missing or is not what was written; the {} before it are whole.",
                    seq - 1
                ),
            },
        };
        Ok(Response::new(reply))
    }

    async fn shutdown(
        &self,
        request: Request<v1::ShutdownRequest>,
    ) -> Result<Response<v1::ShutdownReply>, Wire> {
        let mut stopped_runners = 0;
        if request.into_inner().stop_runners {
            // First, so that no runner begins behind the back of the list.
            self.engine.allow_launches(false);
            stopped_runners = self
                .end_all_runs()
                .await
                .inspect_err(|_| self.engine.allow_launches(true))
                .map_err(ledger)?;
        }
        // Full only if a shutdown is under way already.
        let _ = self.shutdown.try_send(());
        Ok(Response::new(v1::ShutdownReply { stopped_runners }))
    }
}

impl OperatorService {
    /// Ends every run, all at the same time, and sees those out that are ending already; gives how many are gone.
    async fn end_all_runs(&self) -> Result<u32, LedgerError> {
        let mut ends = tokio::task::JoinSet::new();
        for session in self.with_a_process().await? {
            let this = self.clone();
            ends.spawn(async move {
                let id = session.id.clone();
                match this.end_run(session).await {
                    Ok(true) => return 1,
                    Ok(false) => tracing::error!(session = %id, "a runner did not end in time"),
                    Err(fault) => tracing::error!(session = %id, %fault, "a run could not be ended"),
                }
                0
            });
        }
        Ok(ends.join_all().await.into_iter().sum())
    }

    /// Sessions with a run under way, or with one whose process is still being ended.
    async fn with_a_process(&self) -> Result<Vec<Session>, LedgerError> {
        let looked = self.engine.read(|connection| {
            let mut texts = sessions::live(connection)?;
            texts.extend(sessions::expired_with_a_process(connection)?);
            texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()
        });
        let mut found = looked.await?;
        found.retain(|session| session.state.run().is_some() || session.ending.is_some());
        Ok(found)
    }

    /// Ends a session's run and keeps the session: it can be continued when the gateway is back. Gives whether the
    /// process is seen to be gone.
    async fn end_run(&self, session: Session) -> Result<bool, Fault> {
        if let Some((run_id, epoch)) = session.state.run().map(|run| (run.id.clone(), run.epoch)) {
            let command = Command::Interrupt { run_id, epoch, why: "the gateway was shut down".to_owned() };
            self.engine.submit(&session.id, None, move |_, _| Ok(command)).await?;
        }
        let limit = std::time::Duration::from_secs(10);
        let ended = self.engine.wait_until(&session.id, limit, |s| s.ending.is_none()).await?;
        Ok(ended.ending.is_none())
    }
}
