//! The operator's service.

mod actions;
mod asks;
mod diagnose;
mod ends;
mod events;
mod export;
mod verify;
mod worktrees;

use std::pin::Pin;
use std::sync::Arc;

use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1::{self, operator_server::Operator};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status as Wire};

use self::actions::{diff_view, listed};
use self::asks::told;
use super::refusals::spoken;
use super::{checks, view};
use crate::action::Actions;
use crate::clock::Timestamp;
use crate::engine::{Engine, Fault, parse};
use crate::ledger::{LedgerError, SCHEMA_VERSION, Trouble, actions as rows, journal, sessions};
use crate::session::Session;
use crate::worktree::Worktrees;

/// How much of a patch goes into one message, in bytes.
const PATCH_PART: usize = 1 << 20;

/// The service.
#[derive(Debug, Clone)]
pub struct OperatorService {
    engine: Engine,
    actions: Actions,
    worktrees: Arc<Worktrees>,
    started_at: Timestamp,
    shutdown: mpsc::Sender<()>,
}

fn ledger(error: LedgerError) -> Wire {
    spoken(Fault::from(error)).into()
}

impl OperatorService {
    /// The service of this engine; `shutdown` ends the executor.
    #[must_use]
    pub fn new(
        engine: Engine,
        actions: Actions,
        worktrees: Arc<Worktrees>,
        shutdown: mpsc::Sender<()>,
    ) -> Self {
        let started_at = engine.now();
        Self { engine, actions, worktrees, started_at, shutdown }
    }

    async fn view(&self, session: Session) -> Result<v1::SessionView, Wire> {
        let (in_flight, now) = (self.engine.performing().of(&session.id), self.engine.now());
        let engine = self.engine.clone();
        self.engine
            .read(move |connection| view::session_view(connection, &session, &in_flight, &engine, now))
            .await
            .map_err(ledger)
    }
}

#[tonic::async_trait]
impl Operator for OperatorService {
    async fn health(&self, _: Request<v1::HealthRequest>) -> Result<Response<v1::HealthReply>, Wire> {
        let read = self
            .engine
            .read(|connection| Ok((sessions::count_live(connection)?, journal::last_seq(connection)?)))
            .await;
        let unread = read.as_ref().err().map(LedgerError::trouble);
        let damage = self.engine.damage();
        let trouble = self.engine.trouble().or(unread).or_else(|| damage.as_ref().map(|_| Trouble::Damaged));
        let (live_sessions, journal_seq) = read.unwrap_or_default();
        Ok(Response::new(v1::HealthReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: self.started_at.millis(),
            live_sessions,
            journal_seq,
            schema_version: SCHEMA_VERSION,
            ledger_trouble: trouble.map(|trouble| trouble.as_str().to_owned()),
            ledger_message: trouble.map(|trouble| match damage {
                Some(damage) if trouble == Trouble::Damaged => format!("{} ({damage})", trouble.message()),
                _ => trouble.message().to_owned(),
            }),
            what_to_do: trouble.map(|trouble| trouble.what_to_do().to_owned()),
            live_sessions_limit: self.engine.settings().limits.live_sessions,
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
            let page = sessions::list_readable(connection, ask.live_only, ask.after.as_deref(), limit)?;
            let full = page.texts.len() + page.damaged.len() == limit as usize;
            let mut reply =
                v1::ListSessionsReply { damaged: page.damaged, ..v1::ListSessionsReply::default() };
            for text in &page.texts {
                let session = parse(text)?;
                let in_flight = engine.performing().of(&session.id);
                match view::listed_view(connection, &session, &in_flight, &engine, now) {
                    Ok(view) => reply.sessions.push(view),
                    Err(error) if error.trouble() == Trouble::Damaged => {
                        reply.damaged.push(session.id.to_string());
                    }
                    Err(error) => return Err(error),
                }
                reply.next = full.then(|| session.id.to_string());
            }
            Ok(reply)
        });
        Ok(Response::new(listed.await.map_err(ledger)?))
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionReply>, Wire> {
        let id = checks::session_id(request.into_inner().native_session_id)?;
        let session = self.engine.load(&id).map_err(spoken)?;
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
        tokio::spawn(events::follow(self.engine.clone(), next, ask.native_session_id, out));
        Ok(Response::new(Box::pin(ReceiverStream::new(events))))
    }

    async fn list_actions(
        &self,
        request: Request<v1::ListActionsRequest>,
    ) -> Result<Response<v1::ListActionsReply>, Wire> {
        let ask = request.into_inner();
        let id = checks::session_id(ask.native_session_id)?;
        let before = ask.before.map(ToolCallId::try_from).transpose();
        let before = before.map_err(|_| Wire::not_found("no action has this id"))?;
        let limit = match ask.limit {
            0 => 1000,
            limit => limit.min(1000),
        };
        let uncertain = self.engine.load(&id).map_err(spoken)?.uncertain;
        let list = move |connection: &_| {
            listed(rows::of_session(connection, &id, before.as_ref(), limit)?, &uncertain)
        };
        let actions = self.engine.read(list).await.map_err(ledger)?;
        let full = actions.len() == limit as usize;
        let earlier = actions.first().filter(|_| full).map(|action| action.tool_call_id.clone());
        Ok(Response::new(v1::ListActionsReply { actions, earlier }))
    }

    async fn get_action(
        &self,
        request: Request<v1::GetActionRequest>,
    ) -> Result<Response<v1::ActionView>, Wire> {
        let unknown = || Wire::not_found("no action has this id");
        let id = ToolCallId::try_from(request.into_inner().tool_call_id).map_err(|_| unknown())?;
        Ok(Response::new(self.find_action(id).await?.ok_or_else(unknown)?))
    }

    async fn get_diff(&self, request: Request<v1::GetDiffRequest>) -> Result<Response<v1::DiffView>, Wire> {
        let ask = request.into_inner();
        let (session, action) = asks::named(ask.native_session_id, ask.tool_call_id)?;
        let found = self.actions.difference(&session, &action).await.map_err(told)?;
        Ok(Response::new(diff_view(found)))
    }

    async fn undo_action(
        &self,
        request: Request<v1::UndoActionRequest>,
    ) -> Result<Response<v1::ActionView>, Wire> {
        let ask = request.into_inner();
        let ask = asks::request(ask.native_session_id, ask.tool_call_id, ask.request_id)?;
        let undo = self.actions.undo(ask).await.map_err(told)?;
        Ok(Response::new(self.shown(undo).await?))
    }

    async fn resolve_action(
        &self,
        request: Request<v1::ResolveActionRequest>,
    ) -> Result<Response<v1::ActionView>, Wire> {
        let ask = request.into_inner();
        let decision = asks::decision(ask.decision())?;
        let ask = asks::request(ask.native_session_id, ask.tool_call_id, ask.request_id)?;
        let resolve = self.actions.resolve(ask, decision).await.map_err(told)?;
        Ok(Response::new(self.shown(resolve).await?))
    }

    type PruneStream = Pin<Box<dyn Stream<Item = Result<v1::PruneProgress, Wire>> + Send>>;

    async fn prune(&self, request: Request<v1::PruneRequest>) -> Result<Response<Self::PruneStream>, Wire> {
        let progress = asks::prune(self.clone(), request.into_inner());
        Ok(Response::new(Box::pin(ReceiverStream::new(progress))))
    }

    async fn list_worktrees(
        &self,
        _: Request<v1::ListWorktreesRequest>,
    ) -> Result<Response<v1::ListWorktreesReply>, Wire> {
        Ok(Response::new(v1::ListWorktreesReply { worktrees: self.worktrees().await? }))
    }

    type GetWorktreePatchStream = Pin<Box<dyn Stream<Item = Result<v1::PatchPart, Wire>> + Send>>;

    async fn get_worktree_patch(
        &self,
        request: Request<v1::GetWorktreePatchRequest>,
    ) -> Result<Response<Self::GetWorktreePatchStream>, Wire> {
        let id = checks::session_id(request.into_inner().native_session_id)?;
        let patch = self.patch(&id).await?;
        let parts: Vec<_> =
            patch.chunks(PATCH_PART).map(|part| Ok(v1::PatchPart { bytes: part.to_vec() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn remove_worktree(
        &self,
        request: Request<v1::RemoveWorktreeRequest>,
    ) -> Result<Response<v1::WorktreeView>, Wire> {
        let ask = request.into_inner();
        let id = checks::session_id(ask.native_session_id)?;
        Ok(Response::new(Self::remove_worktree(self, &id, ask.saved_patch_sha256).await?))
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

    type ExportSessionStream = Pin<Box<dyn Stream<Item = Result<v1::ExportPart, Wire>> + Send>>;

    async fn export_session(
        &self,
        request: Request<v1::ExportSessionRequest>,
    ) -> Result<Response<Self::ExportSessionStream>, Wire> {
        let id = checks::session_id(request.into_inner().native_session_id)?;
        let parts = self.export(self.exported(&id).await?);
        Ok(Response::new(Box::pin(ReceiverStream::new(parts))))
    }

    async fn verify_ledger(
        &self,
        _: Request<v1::VerifyLedgerRequest>,
    ) -> Result<Response<v1::VerifyLedgerReply>, Wire> {
        Ok(Response::new(self.verify(None).await.map_err(spoken)?))
    }

    type VerifyLedgerStepStream = Pin<Box<dyn Stream<Item = Result<v1::VerifyLedgerProgress, Wire>> + Send>>;

    async fn verify_ledger_step(
        &self,
        _: Request<v1::VerifyLedgerRequest>,
    ) -> Result<Response<Self::VerifyLedgerStepStream>, Wire> {
        let progress = verify::steps(self.clone());
        Ok(Response::new(Box::pin(ReceiverStream::new(progress))))
    }

    async fn diagnose(&self, _: Request<v1::DiagnoseRequest>) -> Result<Response<v1::DiagnoseReply>, Wire> {
        Ok(Response::new(self.diagnosis().await?))
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
