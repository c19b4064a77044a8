//! The broker between a subagent and its provider.
//!
//! A subagent's Claude Code asks its shim, and its shim asks the executor, as every Claude Code does: by turn key. What is
//! sent to the provider is made here, from the ledger: the prompt, the answers so far, and the receipts. Nothing of what
//! Claude Code itself wrote leaves the machine. The answer is read whole, held against the model that was asked for, and
//! committed with every call that it authorises; only then the shim hears of it. A request that fails ends the
//! subagent, in the provider's own words; nothing else is tried.
//!
//! This is the one place of the executor that opens a connection to the network.

mod answer;
mod client;
mod connect;
mod failure;
mod history;
mod reply;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gatehouse_proto::ids::{SessionId, TurnId};

use self::client::Client;
use self::failure::AskError;
use crate::config::DeepseekSettings;
use crate::credential::Credential;
use crate::engine::{Engine, Fault};
use crate::session::{Command, Session, Subagent, SubagentAnswer, SubagentFailure};

/// Between two tries of what must come through in the end.
const AGAIN: Duration = Duration::from_secs(1);

/// The broker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    client: Client,
    /// The turns that are being asked about, so that each is asked about once at a time.
    asking: Mutex<HashSet<TurnId>>,
}

impl Broker {
    /// The broker of this engine's subagents.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { shared: Arc::new(Shared { engine, client: Client::default(), asking: Mutex::default() }) }
    }

    /// Asks for a turn's answer in the background, unless that is being done.
    pub fn ask(&self, session: SessionId, turn: TurnId) {
        if !self.asking().insert(turn.clone()) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            this.see_to(&session, &turn).await;
            this.asking().remove(&turn);
        });
    }

    fn asking(&self) -> std::sync::MutexGuard<'_, HashSet<TurnId>> {
        self.shared.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn see_to(&self, session: &SessionId, turn: &TurnId) {
        let begin = Command::BeginRequest { turn_id: turn.clone() };
        let Some(begun) = self.submit(session, begin).await else { return };
        // A limit may have ended it.
        let Some(subagent) = begun.subagent.clone().filter(|subagent| subagent.asks(turn)) else { return };
        let outcome = tokio::select! {
            outcome = self.answer(&begun, &subagent, turn) => outcome,
            // With the connection, which is dropped, the provider's work ends too.
            () = self.given_up(session, turn) => return,
        };
        let command = match outcome {
            Ok(answer) => Command::SubagentAnswer(Box::new(answer)),
            Err(failure) => {
                tracing::warn!(%session, subagent = %subagent.id, kind = failure.kind, "a subagent got no answer");
                Command::SubagentFailed { turn_id: turn.clone(), failure }
            }
        };
        self.submit(session, command).await;
    }

    /// Commits it, however long the ledger cannot be written; `None` if the subagent does not wait for it any more.
    async fn submit(&self, session: &SessionId, command: Command) -> Option<Session> {
        loop {
            let said = command.clone();
            match self.shared.engine.submit(session, None, move |_, _| Ok(said)).await {
                Ok(outcome) => return Some(outcome.session),
                Err(Fault::Ledger(error)) => {
                    tracing::error!(%session, %error, "what became of a model request could not be recorded yet");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Returns when nobody waits for this turn's answer any more.
    async fn given_up(&self, session: &SessionId, turn: &TurnId) {
        let mut changes = self.shared.engine.watch(session);
        loop {
            let asks = match self.shared.engine.load(session) {
                Ok(session) => session.subagent.is_some_and(|subagent| subagent.asks(turn)),
                // It cannot be read just now, which says nothing.
                Err(_) => true,
            };
            if !asks || changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn answer(
        &self,
        session: &Session,
        subagent: &Subagent,
        turn: &TurnId,
    ) -> Result<SubagentAnswer, SubagentFailure> {
        let settings = self.shared.engine.settings();
        let Some(deepseek) = &settings.deepseek else { return Err(failure::switched_off()) };
        let model = deepseek.model(subagent.grade.route());
        let limit =
            tokio::time::timeout(deepseek.request_timeout, self.ask_provider(deepseek, session, subagent));
        match limit.await {
            Ok(Ok(message)) => reply::answer(message, subagent, turn),
            Ok(Err(error)) => Err(error.told(model)),
            Err(_) => Err(AskError::TimedOut(deepseek.request_timeout).told(model)),
        }
    }

    async fn ask_provider(
        &self,
        deepseek: &DeepseekSettings,
        session: &Session,
        subagent: &Subagent,
    ) -> Result<answer::Message, AskError> {
        let model = deepseek.model(subagent.grade.route());
        let body = history::request(&self.shared.engine, deepseek, session, subagent).await?;
        let path = deepseek.credential_file.clone();
        let read = tokio::task::spawn_blocking(move || Credential::read(&path)).await;
        let credential = read.map_err(|_| AskError::Interrupted)??;
        self.shared.client.ask(deepseek, model, &credential, body).await
    }
}
