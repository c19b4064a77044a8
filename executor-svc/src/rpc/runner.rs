//! The shims' service. Every call carries a link token, and the token alone says which run it is about.

use std::time::Duration;

use gatehouse_proto::ids::{LINK_METADATA, LinkHash, LinkToken, RunId, SessionId, ToolCallId, TurnId};
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1::{self, runner_server::Runner};
use rusqlite::Connection;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status as Wire};

use super::plan;
use super::refusals::{invalid, spoken};
use crate::action::{Actions, Invocation};
use crate::engine::{self, Engine, Fault};
use crate::ledger::{LedgerError, runs, turns};
use crate::runner::Runners;
use crate::session::{
    Answer, Command, KnownTurn, LaunchFailure, Refusal, RunOutcome, SeenResult, Session, TurnAsk, TurnKey,
};

/// The longest wait of one AwaitReply.
const AWAIT_LIMIT: Duration = Duration::from_secs(50);
/// The service.
#[derive(Debug, Clone)]
pub struct RunnerService {
    engine: Engine,
    actions: Actions,
    runners: Runners,
}

/// The run that a token names.
struct Link {
    session: SessionId,
    run: RunId,
    epoch: u32,
    hash: LinkHash,
}

fn unknown_link() -> Wire {
    Wire::permission_denied("no run has this link token")
}

/// The link token that a request carries, as the ledger knows it.
fn shown_link<T>(request: &Request<T>) -> Result<LinkHash, Wire> {
    let shown = request.metadata().get(LINK_METADATA).and_then(|value| value.to_str().ok());
    let token: LinkToken = shown.ok_or_else(unknown_link)?.parse().map_err(|_| unknown_link())?;
    Ok(token.hash())
}

fn link_of(connection: &Connection, hash: LinkHash) -> Result<Option<Link>, LedgerError> {
    let found = runs::by_link(connection, &hash)?;
    Ok(found.map(|(session, run, epoch)| Link { session, run, epoch, hash }))
}

impl RunnerService {
    /// The service of this engine.
    #[must_use]
    pub const fn new(engine: Engine, actions: Actions, runners: Runners) -> Self {
        Self { engine, actions, runners }
    }

    fn link<T>(&self, request: &Request<T>) -> Result<Link, Wire> {
        let hash = shown_link(request)?;
        let found = self.engine.glance(|connection| link_of(connection, hash));
        found.map_err(|error| spoken(error.into()))?.ok_or_else(unknown_link)
    }

    /// The same with its session, in one look: every shim asks this all the time.
    fn link_and_session<T>(&self, request: &Request<T>) -> Result<(Link, Session), Wire> {
        let hash = shown_link(request)?;
        let found = self.engine.glance(|connection| {
            let Some(link) = link_of(connection, hash)? else { return Ok(None) };
            Ok(engine::load(connection, &link.session)?.map(|session| (link, session)))
        });
        let (link, session) = found.map_err(|error| spoken(error.into()))?.ok_or_else(unknown_link)?;
        Ok((link, self.engine.with_grace(session)))
    }

    /// Opens the turn, or finds it open. Waits for receipts that are still being made.
    async fn open(&self, link: &Link, ask: v1::OpenTurnRequest) -> Result<TurnId, Wire> {
        let (key, marker, seen) = key_of(ask.key)?;
        loop {
            let mut changes = self.engine.watch(&link.session);
            let performing = self
                .engine
                .performing()
                .of(&link.session)
                .into_iter()
                .map(|performed| performed.id)
                .collect();
            let (run_id, epoch) = (link.run.clone(), link.epoch);
            let (key, seen, request_hash) = (key.clone(), seen.clone(), ask.request_sha256.clone());
            let submitted = self.engine.submit(&link.session, None, move |tx, _| {
                let known = match &key {
                    Ok(key) => turns::by_key(tx, &run_id, &key.as_text())?.map(|id| KnownTurn { id }),
                    Err(_) => None,
                };
                let turn_id = TurnId::mint();
                Ok(Command::OpenTurn(TurnAsk {
                    run_id,
                    epoch,
                    turn_id,
                    key,
                    marker,
                    known,
                    seen,
                    request_hash,
                    performing,
                }))
            });
            match submitted.await.map_err(spoken)?.answer {
                Answer::Turn(id) => return Ok(id),
                Answer::ProtocolBroken(why) => return Err(Wire::invalid_argument(why)),
                Answer::ReceiptsAwaited => {
                    let _ = changes.changed().await;
                }
                Answer::Done | Answer::Replayed => {
                    return Err(Wire::internal("a turn was asked for and none was named"));
                }
            }
        }
    }

    /// What has become of a turn.
    fn outcome(&self, link: &Link, id: &TurnId) -> Result<v1::await_reply_reply::Outcome, Wire> {
        use v1::await_reply_reply::Outcome;
        let found = self
            .engine
            .glance(|connection| {
                let row = turns::load(connection, id)?.filter(|row| row.run_id == link.run.as_str());
                let calls = crate::ledger::actions::of_turn(connection, id)?;
                Ok(row.map(|row| (row, calls)))
            })
            .map_err(|error| spoken(error.into()))?;
        let (row, calls) = found.ok_or_else(|| Wire::not_found("this run has no such turn"))?;
        Ok(match row.state.as_str() {
            "answered" => Outcome::Reply(v1::CommittedReply {
                text: row.reply_text.unwrap_or_default(),
                calls: calls
                    .into_iter()
                    .map(|call| v1::AuthorisedCall {
                        tool_call_id: call.id,
                        name: call.name,
                        input_json: call.input,
                    })
                    .collect(),
            }),
            "abandoned" => Outcome::Closed(row.closed_why.unwrap_or_default()),
            _ => Outcome::Pending(v1::Pending {}),
        })
    }
}

type Keyed = (Result<TurnKey, String>, Option<u32>, Vec<SeenResult>);

fn key_of(key: Option<v1::open_turn_request::Key>) -> Result<Keyed, Spoken> {
    use v1::open_turn_request::Key;
    Ok(match key {
        None => return Err(invalid("key", "is missing")),
        Some(Key::NoKey(why)) => (Err(why), None, Vec::new()),
        Some(Key::FirstOfRun(ordinal)) => (Ok(TurnKey::First), Some(ordinal), Vec::new()),
        Some(Key::ToolResults(set)) => match seen(set) {
            Ok(seen) => {
                (Ok(TurnKey::Results(seen.iter().map(|result| result.id.clone()).collect())), None, seen)
            }
            Err(why) => (Err(why), None, Vec::new()),
        },
    })
}

/// An id that is not of ours was never authorised, so the request fits no turn.
fn seen(set: v1::ToolResultSet) -> Result<Vec<SeenResult>, String> {
    set.results
        .into_iter()
        .map(|result| {
            let id = ToolCallId::try_from(result.tool_call_id)
                .map_err(|_| "it carries the result of a call that was never authorised".to_owned())?;
            Ok(SeenResult { id, text: result.text })
        })
        .collect()
}

fn outcome_of(outcome: Option<v1::end_run_request::Outcome>) -> Result<RunOutcome, Spoken> {
    use v1::end_run_request::Outcome;
    Ok(match outcome {
        None => return Err(invalid("outcome", "is missing")),
        Some(Outcome::Finished(end)) if !end.is_error => RunOutcome::Finished,
        Some(Outcome::Finished(end)) => RunOutcome::Erred(LaunchFailure {
            code: "claude_error".to_owned(),
            message: end.result_text,
            what_to_do: "Call native_session_continue to go on with the same Claude Code session.".to_owned(),
        }),
        Some(Outcome::Failed(end)) => RunOutcome::Failed(LaunchFailure {
            what_to_do: advice(&end.code).to_owned(),
            code: end.code,
            message: end.message,
        }),
    })
}

fn advice(code: &str) -> &'static str {
    match code {
        "claude_not_found" => {
            "Install Claude Code 2.1.247 or set CLAUDE_BIN, then call native_session_continue."
        }
        "claude_wrong_version" => {
            "Install Claude Code 2.1.247, or set claude.allow_unverified_version, then call native_session_continue."
        }
        "claude_init_mismatch" => {
            "Claude Code did not start with exactly the tools it was given; look for managed settings on this machine."
        }
        "sandbox_unavailable" => {
            "This machine does not give a layer of the sandbox that is required; the message names it and the remedy. \
             `sandbox-launch --probe` checks again. Then call native_session_continue."
        }
        _ => "Call native_session_continue to try again; the message says what Claude Code reported.",
    }
}

#[tonic::async_trait]
impl Runner for RunnerService {
    async fn attach(&self, request: Request<v1::AttachRequest>) -> Result<Response<v1::RunPlan>, Wire> {
        let link = self.link(&request)?;
        let pid = request
            .extensions()
            .get::<UdsConnectInfo>()
            .and_then(|info| info.peer_cred)
            .and_then(|cred| cred.pid());
        if let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok()) {
            self.runners
                .recognise(&link.session, &link.run, link.epoch, &link.hash, pid)
                .await
                .map_err(spoken)?;
        }
        let (run_id, epoch, enforced_by) = (link.run.clone(), link.epoch, request.into_inner().enforced_by);
        let attached = self
            .engine
            .submit(&link.session, None, move |_, _| Ok(Command::Attach { run_id, epoch, enforced_by }))
            .await
            .map_err(spoken)?;
        Ok(Response::new(plan::of_run(&self.engine, &self.runners, &attached.session, &link.run).await?))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Wire> {
        let (link, session) = self.link_and_session(&request)?;
        Ok(Response::new(v1::HeartbeatReply {
            lease_seconds_left: session.lease.left(self.engine.now()).as_secs(),
            end_run: !session.serves(&link.run, link.epoch),
        }))
    }

    async fn open_turn(
        &self,
        request: Request<v1::OpenTurnRequest>,
    ) -> Result<Response<v1::OpenTurnReply>, Wire> {
        let link = self.link(&request)?;
        let turn_id = self.open(&link, request.into_inner()).await?;
        self.runners.version_shown(&link.run);
        Ok(Response::new(v1::OpenTurnReply { turn_id: turn_id.to_string() }))
    }

    async fn await_reply(
        &self,
        request: Request<v1::AwaitReplyRequest>,
    ) -> Result<Response<v1::AwaitReplyReply>, Wire> {
        use v1::await_reply_reply::Outcome;
        let link = self.link(&request)?;
        let ask = request.into_inner();
        let id = TurnId::try_from(ask.turn_id).map_err(|_| Wire::not_found("this run has no such turn"))?;
        let wait = Duration::from_millis(u64::from(ask.wait_ms)).min(AWAIT_LIMIT);
        let deadline = tokio::time::Instant::now() + wait;
        let mut changes = self.engine.watch(&link.session);
        loop {
            let outcome = self.outcome(&link, &id)?;
            let pending = matches!(outcome, Outcome::Pending(_));
            if !pending || tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(Response::new(v1::AwaitReplyReply { outcome: Some(outcome) }));
            }
        }
    }

    async fn invoke_tool(
        &self,
        request: Request<v1::InvokeToolRequest>,
    ) -> Result<Response<v1::InvokeToolReply>, Wire> {
        let link = self.link(&request)?;
        let ask = request.into_inner();
        let id = ToolCallId::try_from(ask.tool_call_id)
            .map_err(|_| spoken(Fault::from(Refusal::NotAuthorised)))?;
        let call = Invocation {
            session: link.session,
            run: link.run,
            epoch: link.epoch,
            id,
            name: ask.name,
            input_sha256: ask.input_sha256,
        };
        let result = self.actions.invoke(call).await.map_err(spoken)?;
        Ok(Response::new(v1::InvokeToolReply { ok: result.ok, short_result: result.text }))
    }

    async fn end_run(&self, request: Request<v1::EndRunRequest>) -> Result<Response<v1::EndRunReply>, Wire> {
        let link = self.link(&request)?;
        let outcome = outcome_of(request.into_inner().outcome)?;
        let (run_id, epoch) = (link.run, link.epoch);
        self.engine
            .submit(&link.session, None, move |_, _| Ok(Command::EndRun { run_id, epoch, outcome }))
            .await
            .map_err(spoken)?;
        Ok(Response::new(v1::EndRunReply {}))
    }
}
