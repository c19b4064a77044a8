//! One session as ChatGPT holds it: the ids that it was given, and the six tools with them filled in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::answer::State;
use super::client::{Client, ClientError};

/// A fresh id for `idempotency_key`, `reply_id`, `request_id` or `recovery_id`.
#[must_use]
pub fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The arguments of `native_session_start`.
#[derive(Debug, Clone)]
pub struct Start {
    /// `prompt`.
    pub prompt: String,
    /// `working_directory`.
    pub working_directory: String,
    /// `capability_profile`.
    pub profile: &'static str,
    /// `subagent_policy`, unless it is left out.
    pub subagent_policy: Option<&'static str>,
    /// `idempotency_key`.
    pub idempotency_key: String,
    /// `wait_seconds`.
    pub wait_seconds: u32,
    /// `session_label`.
    pub label: Option<String>,
    /// `skill_contexts`.
    pub skills: Vec<Value>,
}

impl Start {
    /// A read-only session with a fresh key.
    pub fn new(prompt: impl Into<String>, working_directory: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            working_directory: working_directory.into(),
            profile: "read_only",
            subagent_policy: None,
            idempotency_key: fresh_id(),
            wait_seconds: 30,
            label: None,
            skills: Vec::new(),
        }
    }

    /// The call's arguments.
    #[must_use]
    pub fn arguments(&self) -> Value {
        let mut arguments = json!({
            "prompt": self.prompt,
            "working_directory": self.working_directory,
            "idempotency_key": self.idempotency_key,
            "capability_profile": self.profile,
            "wait_seconds": self.wait_seconds,
        });
        if let Some(policy) = self.subagent_policy {
            arguments["subagent_policy"] = json!(policy);
        }
        if let Some(label) = &self.label {
            arguments["session_label"] = json!(label);
        }
        if !self.skills.is_empty() {
            arguments["skill_contexts"] = json!(self.skills);
        }
        arguments
    }
}

/// One tool call of a reply.
#[derive(Debug, Clone)]
pub struct Call {
    name: String,
    input: Value,
}

impl Call {
    /// A call of the logical tool `name`.
    pub fn new(name: impl Into<String>, input: Value) -> Self {
        Self { name: name.into(), input }
    }

    /// The call as it stands in `tool_calls`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "input": self.input})
    }

    /// The logical tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its input.
    #[must_use]
    pub const fn input(&self) -> &Value {
        &self.input
    }
}

/// The scripted ChatGPT in one session.
#[derive(Debug)]
pub struct Brain {
    client: Arc<Client>,
    session_id: String,
    lease_id: String,
    recovery_token: String,
    state: State,
}

impl Brain {
    /// Starts a session.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn start(client: Arc<Client>, start: &Start) -> Result<Self, ClientError> {
        let state = client.call("native_session_start", start.arguments()).await?;
        Ok(Self {
            client,
            session_id: state.session_id().to_owned(),
            lease_id: state.lease_id().to_owned(),
            recovery_token: state.recovery_token().unwrap_or_default().to_owned(),
            state,
        })
    }

    /// The latest state that was seen.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The lease that the next call will carry.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        &self.lease_id
    }

    /// The recovery token from start.
    #[must_use]
    pub fn recovery_token(&self) -> &str {
        &self.recovery_token
    }

    /// The pending turn's id, as far as this side has seen.
    #[must_use]
    pub fn turn_id(&self) -> &str {
        self.state.turn_id().unwrap_or_default()
    }

    /// Goes on over another connection, for example to a front that was started again.
    pub fn use_client(&mut self, client: Arc<Client>) {
        self.client = client;
    }

    /// Calls a tool with this session's ids beside `arguments`, and keeps what comes back.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<&State, ClientError> {
        let state = self.client.call(tool, self.with_ids(arguments)).await?;
        state.lease_id().clone_into(&mut self.lease_id);
        self.state = state;
        Ok(&self.state)
    }

    /// `arguments` with the session's id and lease, where it does not name others.
    #[must_use]
    pub fn with_ids(&self, arguments: Value) -> Value {
        let mut all = Map::new();
        all.insert("native_session_id".to_owned(), json!(self.session_id));
        all.insert("lease_id".to_owned(), json!(self.lease_id));
        if let Value::Object(given) = arguments {
            all.extend(given);
        }
        Value::Object(all)
    }

    /// The arguments of a reply to the pending turn.
    #[must_use]
    pub fn reply_arguments(&self, text: Option<&str>, calls: &[Call]) -> Value {
        let mut arguments = json!({"turn_id": self.turn_id(), "reply_id": fresh_id()});
        if let Some(text) = text {
            arguments["text"] = json!(text);
        }
        if !calls.is_empty() {
            arguments["tool_calls"] = calls.iter().map(Call::to_json).collect();
        }
        self.with_ids(arguments)
    }

    /// Answers the pending turn with calls, and waits until Claude Code asks again or the run ends.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn act(&mut self, text: Option<&str>, calls: &[Call]) -> Result<&State, ClientError> {
        let arguments = self.reply_arguments(text, calls);
        self.call("native_session_reply_and_wait", arguments).await?;
        self.settle().await
    }

    /// Answers the pending turn with text alone, which ends the run, and waits for that.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn finish(&mut self, text: &str) -> Result<&State, ClientError> {
        self.act(Some(text), &[]).await
    }

    /// Starts the next run and waits for its first turn.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn go_on(&mut self, prompt: &str) -> Result<&State, ClientError> {
        let arguments = json!({"prompt": prompt, "idempotency_key": fresh_id(), "wait_seconds": 30});
        self.call("native_session_continue", arguments).await?;
        self.settle().await
    }

    /// Recovers the session: a new lease, the same process if it still lives.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn recover(&mut self) -> Result<&State, ClientError> {
        let arguments = json!({
            "native_session_id": self.session_id,
            "recovery_token": self.recovery_token,
            "recovery_id": fresh_id(),
        });
        let state = self.client.call("native_session_recover", arguments).await?;
        self.take_up(&state);
        Ok(&self.state)
    }

    /// Goes on from a state that came another way, with the lease that it carries.
    pub fn take_up(&mut self, state: &State) {
        state.lease_id().clone_into(&mut self.lease_id);
        self.state = state.clone();
    }

    /// Asks for the state, waiting up to `wait_seconds` for a change.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn status(&mut self, wait_seconds: u32) -> Result<&State, ClientError> {
        self.call("native_session_status", json!({"wait_seconds": wait_seconds})).await
    }

    /// Asks the session to stop.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn stop(&mut self, reason: &str) -> Result<&State, ClientError> {
        self.call("native_session_stop", json!({"request_id": fresh_id(), "reason": reason})).await
    }

    /// Long-polls until the session is neither starting nor running nor stopping.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn settle(&mut self) -> Result<&State, ClientError> {
        self.until(|state| !matches!(state.status(), "starting" | "running" | "stopping")).await
    }

    /// Long-polls until `wanted` holds of the state, for at most a minute and a half.
    ///
    /// # Errors
    /// As [`Client::call`], and [`ClientError::TimedOut`].
    pub async fn until(&mut self, wanted: impl Fn(&State) -> bool) -> Result<&State, ClientError> {
        let deadline = Instant::now() + Duration::from_secs(90);
        while !wanted(&self.state) {
            if Instant::now() > deadline {
                return Err(ClientError::TimedOut);
            }
            self.status(15).await?;
        }
        Ok(&self.state)
    }
}
