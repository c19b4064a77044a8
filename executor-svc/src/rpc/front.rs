//! The front's service: the six session tools.

use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::digest::digest;
use gatehouse_proto::ids::{LeaseId, RunId, SessionId};
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1::{self, front_server::Front};
use serde_json::json;
use tonic::{Request, Response, Status as Wire};

use super::place::Places;
use super::refusals::{of_ledger, spoken};
use super::{checks, figures, reply, skills, subagents, view};
use crate::action::Actions;
use crate::engine::{
    self, Engine, Fault, Guess, Once, Outcome, RecoverySecret, START_SCOPE, taken_meanwhile,
};
use crate::ledger::{LedgerError, turns};
use crate::session::{
    Command, NewSession, Profile, Refusal, RootStanding, Session, Status, SubagentPolicy, TokenStanding,
    TurnStanding,
};
use crate::tools::Toolset;
use crate::worktree::Worktrees;

/// How long a start or continue waits for the first turn, unless asked otherwise.
const START_WAIT: Duration = Duration::from_secs(30);

/// The service.
#[derive(Debug, Clone)]
pub struct FrontService {
    engine: Engine,
    places: Places,
    actions: Actions,
    skills: skills::Library,
}

type Answer = Result<Response<v1::SessionReply>, Wire>;

/// What the caller may be given: the lease that it holds, and no other.
struct Held {
    lease: LeaseId,
    replay: bool,
    gives: Gives,
}

impl Held {
    fn by(outcome: &Outcome, gives: Gives) -> Self {
        Self { lease: outcome.session.lease.id.clone(), replay: outcome.is_replay(), gives }
    }
}

/// Whether the recovery token is part of the answer.
enum Gives {
    Lease,
    LeaseAndToken,
}

impl FrontService {
    /// The service of this engine.
    #[must_use]
    pub fn new(engine: Engine, actions: Actions, worktrees: Arc<Worktrees>) -> Self {
        let skills = skills::Library::new(&engine.settings().skills);
        Self { places: Places { engine: engine.clone(), worktrees }, skills, engine, actions }
    }

    /// Waits while the gateway is at work, then tells where the session stands.
    async fn settle(&self, outcome: Outcome, wait: Duration, gives: Gives) -> Answer {
        let held = Held::by(&outcome, gives);
        let id = outcome.session.id.clone();
        let settled = |session: &Session| !session.state.status().is_transient();
        let session = if wait.is_zero() || settled(&outcome.session) {
            outcome.session
        } else {
            // A lease that is rotated meanwhile is dead at once: its holder is told so now, not when the wait is over.
            let enough = |session: &Session| settled(session) || session.lease.id != held.lease;
            self.engine.wait_until(&id, wait, enough).await.map_err(spoken)?
        };
        self.tell(session, held).await
    }

    async fn tell(&self, session: Session, held: Held) -> Answer {
        if session.lease.id != held.lease {
            // It was rotated while this call waited: the new one belongs to whoever recovered.
            return Err(spoken(Fault::Refused(Refusal::LeaseMismatch)).into());
        }
        let (in_flight, now) = (self.engine.performing().of(&session.id), self.engine.now());
        let view = self
            .engine
            .glance(|connection| view::brain_view(connection, &session, &in_flight, &self.engine, now))
            .map_err(|error| spoken(error.into()))?;
        let token = match held.gives {
            Gives::Lease => None,
            Gives::LeaseAndToken => Some(self.engine.secret().token(&session.id)),
        };
        Ok(Response::new(v1::SessionReply {
            session: Some(view),
            replay: held.replay,
            lease_id: session.lease.id.to_string(),
            lease_expires_at_ms: session.lease.expires_at.millis(),
            recovery_token: token,
        }))
    }

    fn wait(&self, asked: Option<u32>, default: Duration) -> Result<Duration, Spoken> {
        checks::wait(asked, default, self.engine.settings().limits.max_wait)
    }

    /// Whether the session's root is still what it was made for.
    async fn root_standing(&self, id: &SessionId) -> Result<RootStanding, Spoken> {
        let session = self.engine.load(id).map_err(spoken)?;
        Ok(self.places.standing(session).await)
    }

    async fn start_session(&self, ask: v1::StartRequest) -> Result<(Outcome, Duration), Spoken> {
        let wait = self.wait(ask.wait_seconds, START_WAIT)?;
        let key = checks::start_key(ask.idempotency_key.clone())?;
        let (prompt, label) =
            (checks::prompt(ask.prompt.clone())?, checks::label(ask.session_label.clone())?);
        let profile = checks::profile(ask.capability_profile());
        let subagents =
            subagents::policy(ask.subagent_policy(), profile, self.engine.settings().deepseek.as_ref())
                .await?;
        let content_hash = start_hash(&ask, profile, subagents);
        let skills = skills::asked(ask.skill_contexts)?;
        // A repeat is answered also if the directory is gone meanwhile.
        if let Some(outcome) =
            self.engine.replayed_start(key.clone(), content_hash.clone()).await.map_err(spoken)?
        {
            // It is a valid call with the lease that the first one minted, and renews it like any other.
            let lease = outcome.session.lease.id.clone();
            let session = self.engine.look(&outcome.session.id, lease).await.map_err(spoken)?.session;
            return Ok((Outcome { session, ..outcome }, wait));
        }
        let (id, lease_id) = (SessionId::mint(), LeaseId::mint());
        let place = self.places.of_start(ask.working_directory, profile, &id).await?;
        let skills = self.skills.freeze(skills, &place.source).await?;
        let once = Once { scope: START_SCOPE.to_owned(), key, content_hash, mints: Some(lease_id.clone()) };
        let new = NewSession {
            recovery_hash: RecoverySecret::hash(&self.engine.secret().token(&id)),
            id,
            label,
            profile,
            subagents,
            source_directory: place.source,
            root: place.root,
            isolation: place.isolation,
            claude_session_id: uuid::Uuid::new_v4().to_string(),
            lease_id,
            lease_ttl: self.engine.settings().limits.lease,
            run_id: RunId::mint(),
            prompt,
            skills,
        };
        Ok((self.engine.create(new, once).await.map_err(spoken)?, wait))
    }

    async fn commit_reply(&self, ask: v1::ReplyRequest) -> Result<Outcome, Spoken> {
        let id = checks::session_id(ask.native_session_id)?;
        let lease = checks::lease_id(ask.lease_id)?;
        let reply_id = checks::key("reply_id", ask.reply_id)?;
        let turn_id = checks::turn_id(ask.turn_id)?;
        let text = ask.text.unwrap_or_default();
        let content_hash = reply::content_hash(turn_id.as_str(), &text, &ask.tool_calls);
        let set = Toolset::of(&self.engine.load(&id).map_err(spoken)?);
        let calls = reply::check(set, &text, &ask.tool_calls);
        let once = Once { scope: format!("reply {id}"), key: reply_id.clone(), content_hash, mints: None };
        let (session, wanted) = (id.clone(), turn_id.clone());
        let began = std::time::Instant::now();
        let submitted = self.engine.submit(&id, Some(once), move |tx, claim| {
            let turn = turns::load(tx, &wanted)?.filter(|row| row.session_id == session.as_str());
            let turn = turn.map(|row| standing(&row.state));
            Ok(Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls })
        });
        let outcome = submitted.await.map_err(spoken)?;
        self.engine.metrics().reply_committed(began.elapsed());
        Ok(outcome)
    }

    async fn recover_session(&self, ask: v1::RecoverRequest) -> Result<Outcome, Spoken> {
        let id = checks::session_id(ask.native_session_id)?;
        let key = checks::key("recovery_id", ask.recovery_id)?;
        let session = self.engine.load(&id).map_err(spoken)?;
        let now = self.engine.now();
        let token = match self.engine.tries().judge(&id, &session.recovery_hash, &ask.recovery_token, now) {
            Guess::Right => TokenStanding::Right,
            Guess::Wrong => TokenStanding::Wrong,
            Guess::Locked => TokenStanding::Locked,
        };
        let root = self.root_standing(&id).await?;
        let lease_id = LeaseId::mint();
        // The token is not part of the content: a wrong one must not use the key up, and a right one is always the same.
        let once = Once {
            scope: format!("recover {id}"),
            key,
            content_hash: "recover".to_owned(),
            mints: Some(lease_id.clone()),
        };
        let recovered = id.clone();
        let submitted = self.engine.submit(&id, Some(once), move |tx, claim| {
            let root = match taken_by_now(tx, &recovered)? {
                Some(path) => {
                    RootStanding::Changed(format!("another live session works in {} by now", path.display()))
                }
                None => root,
            };
            Ok(Command::Recover { token, claim, lease_id, root })
        });
        submitted.await.map_err(spoken)
    }

    async fn continue_session(&self, ask: v1::ContinueRequest) -> Result<Outcome, Spoken> {
        let id = checks::session_id(ask.native_session_id)?;
        let lease = checks::lease_id(ask.lease_id)?;
        let key = checks::key("idempotency_key", ask.idempotency_key)?;
        let prompt = checks::prompt(ask.prompt)?;
        // The process of the run before may still be on its way out; that is over soon, and no reason to refuse.
        let limit = STOP_WAIT.min(self.engine.settings().limits.max_wait);
        let over = |session: &Session| !session.is_ending() || session.lease.id != lease;
        self.engine.wait_until(&id, limit, over).await.map_err(spoken)?;
        let root = self.root_standing(&id).await?;
        let once = Once {
            scope: format!("continue {id}"),
            key,
            content_hash: digest(&json!({ "prompt": prompt })),
            mints: None,
        };
        let run_id = RunId::mint();
        let submitted = self.engine.submit(&id, Some(once), move |_, claim| {
            Ok(Command::Continue { lease, claim, run_id, prompt, root })
        });
        submitted.await.map_err(spoken)
    }

    async fn stop_session(&self, ask: v1::StopRequest) -> Result<Outcome, Spoken> {
        let id = checks::session_id(ask.native_session_id)?;
        let lease = Some(checks::lease_id(ask.lease_id)?);
        let request_id = checks::key("request_id", ask.request_id)?;
        let reason = checks::reason(ask.reason)?;
        let content_hash = digest(&json!({ "reason": reason }));
        let once = Once { scope: format!("stop {id}"), key: request_id.clone(), content_hash, mints: None };
        let submitted = self
            .engine
            .submit(&id, Some(once), move |_, claim| Ok(Command::Stop { lease, claim, request_id, reason }));
        submitted.await.map_err(spoken)
    }
}

/// Where another session works by now that a session which has expired would write in.
fn taken_by_now(
    tx: &rusqlite::Connection,
    id: &SessionId,
) -> Result<Option<std::path::PathBuf>, LedgerError> {
    match engine::load(tx, id)? {
        Some(session) if session.state.status() == Status::LeaseExpired => taken_meanwhile(tx, &session),
        _ => Ok(None),
    }
}

/// Everything that makes a start what it is: a default that is left out is the same as one that is named, and how long
/// it waits is not part of it.
fn start_hash(ask: &v1::StartRequest, profile: Profile, subagents: SubagentPolicy) -> String {
    let skills: Vec<_> =
        ask.skill_contexts.iter().map(|s| json!({ "skill_id": s.skill_id, "content": s.content })).collect();
    digest(&json!({
        "prompt": ask.prompt,
        "working_directory": ask.working_directory,
        "capability_profile": profile,
        "subagent_policy": subagents,
        "skill_contexts": skills,
        "session_label": ask.session_label,
    }))
}

fn standing(state: &str) -> TurnStanding {
    match state {
        "answered" => TurnStanding::Answered,
        "abandoned" => TurnStanding::Abandoned,
        _ => TurnStanding::Pending,
    }
}

/// The longest that a stop, or what comes after a run, waits for the process to be gone.
const STOP_WAIT: Duration = Duration::from_secs(10);

#[tonic::async_trait]
impl Front for FrontService {
    async fn start(&self, request: Request<v1::StartRequest>) -> Answer {
        let (outcome, wait) = self.start_session(request.into_inner()).await?;
        self.settle(outcome, wait, Gives::LeaseAndToken).await
    }

    async fn r#continue(&self, request: Request<v1::ContinueRequest>) -> Answer {
        let ask = request.into_inner();
        let wait = self.wait(ask.wait_seconds, START_WAIT)?;
        let outcome = self.continue_session(ask).await?;
        self.settle(outcome, wait, Gives::Lease).await
    }

    async fn recover(&self, request: Request<v1::RecoverRequest>) -> Answer {
        let ask = request.into_inner();
        let wait = self.wait(ask.wait_seconds, Duration::ZERO)?;
        let outcome = self.recover_session(ask).await?;
        self.settle(outcome, wait, Gives::Lease).await
    }

    async fn reply_and_wait(&self, request: Request<v1::ReplyRequest>) -> Answer {
        let ask = request.into_inner();
        let reply_wait = self.engine.settings().limits.reply_wait;
        let wait = self.wait(ask.wait_seconds, reply_wait)?.min(reply_wait);
        let outcome = self.commit_reply(ask).await?;
        self.settle(outcome, wait, Gives::Lease).await
    }

    async fn get_status(&self, request: Request<v1::StatusRequest>) -> Answer {
        let ask = request.into_inner();
        let wait = self.wait(ask.wait_seconds, Duration::ZERO)?;
        let id = checks::session_id(ask.native_session_id)?;
        let outcome = self.engine.look(&id, checks::lease_id(ask.lease_id)?).await.map_err(spoken)?;
        let held = Held::by(&outcome, Gives::Lease);
        let seen = (outcome.session.revision, outcome.session.state.status());
        if wait.is_zero() || !seen.1.is_transient() {
            return self.tell(outcome.session, held).await;
        }
        let changed = |session: &Session| session.revision != seen.0;
        let session = self.engine.wait_until(&id, wait, changed).await.map_err(spoken)?;
        self.tell(session, held).await
    }

    async fn stop(&self, request: Request<v1::StopRequest>) -> Answer {
        let outcome = self.stop_session(request.into_inner()).await?;
        let id = outcome.session.id.clone();
        let held = Held::by(&outcome, Gives::Lease);
        let gone = |session: &Session| session.state.status() != Status::Stopping;
        let wait = STOP_WAIT.min(self.engine.settings().limits.max_wait);
        let session = self.engine.wait_until(&id, wait, gone).await.map_err(spoken)?;
        self.tell(session, held).await
    }

    async fn ready(&self, _: Request<v1::ReadyRequest>) -> Result<Response<v1::ReadyReply>, Wire> {
        self.engine
            .read(crate::ledger::sessions::count_live)
            .await
            .map_err(|error| spoken(Fault::from(error)))?;
        // Status still answers then; but nothing can be begun.
        match self.engine.trouble() {
            Some(trouble) => Err(of_ledger(trouble).into()),
            None => Ok(Response::new(v1::ReadyReply {})),
        }
    }

    async fn note(&self, request: Request<v1::Contact>) -> Result<Response<v1::NoteReply>, Wire> {
        let (engine, told) = (self.engine.clone(), request.into_inner());
        let noted = tokio::task::spawn_blocking(move || engine.contact().add(told)).await;
        if let Ok(Err(error)) = noted {
            tracing::warn!(kind = %error.kind(), "what the front has seen could not be written down");
        }
        Ok(Response::new(v1::NoteReply {}))
    }

    async fn metrics(&self, _: Request<v1::MetricsRequest>) -> Result<Response<v1::MetricsReply>, Wire> {
        let text = figures::text(&self.engine, &self.actions).await.map_err(|error| spoken(error.into()))?;
        Ok(Response::new(v1::MetricsReply { text }))
    }
}
