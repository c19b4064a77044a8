//! The scripted ChatGPT as a sensible one behaves when the gateway dies under it: the same call again with the same ids,
//! and a recovery when its lease is not the current one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse::chatgpt::{Brain, Client, ClientError, Start, State, ToolError, fresh_id};
use serde_json::{Value, json};

/// How long one call is repeated.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// A session in the hands of somebody who does not give up.
#[derive(Debug)]
pub struct Patient {
    client: Arc<Client>,
    brain: Brain,
    /// How many calls had to be made again.
    pub repeats: usize,
    /// How often the session was recovered.
    pub recoveries: usize,
}

/// What is done about an error.
enum Remedy {
    Again,
    Recover,
    Accept(ToolError),
}

fn remedy(error: ClientError) -> Remedy {
    match error {
        ClientError::Http(_) | ClientError::Pipe(_) | ClientError::TimedOut => Remedy::Again,
        ClientError::Tool(refused) if refused.retryable => Remedy::Again,
        ClientError::Tool(refused) if matches!(&*refused.code, "lease_mismatch" | "lease_expired") => {
            Remedy::Recover
        }
        ClientError::Tool(refused) => Remedy::Accept(*refused),
        other @ (ClientError::Rpc(_) | ClientError::Shape(_)) => {
            panic!("the front broke the protocol: {other}")
        }
    }
}

impl Patient {
    /// Starts a session.
    ///
    /// # Panics
    /// When the start is refused, or does not come through for two minutes.
    pub async fn start(client: Arc<Client>, start: &Start) -> Self {
        let (deadline, mut repeats) = (Instant::now() + PATIENCE, 0);
        loop {
            match Brain::start(client.clone(), start).await {
                Ok(brain) => return Self { client, brain, repeats, recoveries: 0 },
                Err(error) => match remedy(error) {
                    Remedy::Again if Instant::now() < deadline => repeats += 1,
                    Remedy::Accept(refused) => panic!("the start was refused: {refused}"),
                    Remedy::Again | Remedy::Recover => panic!("the start does not come through"),
                },
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The session as it was last seen.
    #[must_use]
    pub const fn brain(&self) -> &Brain {
        &self.brain
    }

    /// The latest state that was seen.
    #[must_use]
    pub const fn state(&self) -> &State {
        self.brain.state()
    }

    /// Calls a tool until it is answered; `arguments` without the session's ids.
    ///
    /// # Errors
    /// The refusal that repeating does not change.
    ///
    /// # Panics
    /// When there is no answer for two minutes.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<State, ToolError> {
        let (deadline, began) = (Instant::now() + PATIENCE, self.recoveries);
        loop {
            let error = match self.brain.call(tool, arguments.clone()).await {
                Ok(state) => return Ok(state.clone()),
                Err(error) => error,
            };
            let shown = error.to_string();
            match remedy(error) {
                Remedy::Accept(refused) => return Err(refused),
                Remedy::Recover if self.recoveries - began < 10 => {
                    self.recover().await?;
                }
                Remedy::Again | Remedy::Recover => {
                    self.repeats += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
            assert!(Instant::now() < deadline, "{tool} is not answered for two minutes: {shown}");
        }
    }

    /// Recovers the session.
    ///
    /// # Errors
    /// The refusal.
    ///
    /// # Panics
    /// When there is no answer for two minutes.
    pub async fn recover(&mut self) -> Result<State, ToolError> {
        let deadline = Instant::now() + PATIENCE;
        // The same id in each repetition.
        let arguments = json!({"native_session_id": self.brain.session_id(),
            "recovery_token": self.brain.recovery_token(), "recovery_id": fresh_id()});
        loop {
            let error = match self.client.call("native_session_recover", arguments.clone()).await {
                Ok(state) => {
                    self.recoveries += 1;
                    self.brain.take_up(&state);
                    return Ok(state);
                }
                Err(error) => error,
            };
            match remedy(error) {
                Remedy::Again if Instant::now() < deadline => self.repeats += 1,
                Remedy::Accept(refused) => return Err(refused),
                Remedy::Again | Remedy::Recover => panic!("the recovery is not answered for two minutes"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks for the state until `wanted` holds of it.
    ///
    /// # Panics
    /// When it does not within two minutes, or the look is refused.
    pub async fn until(&mut self, wanted: impl Fn(&State) -> bool) -> State {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let look = self.call("native_session_status", &json!({"wait_seconds": 15})).await;
            let state = look.unwrap_or_else(|refused| panic!("a look was refused: {refused}"));
            if wanted(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "waited two minutes in vain: {}", state.0);
        }
    }
}
