//! The one RPC client of the shim: asks until it is answered.
//!
//! Every question is a re-ask by key, so a lost answer costs nothing but the asking. After each loss of contact the
//! shim attaches anew before it asks anything else, with growing pauses. Contact also keeps the lease's clock: an
//! executor that stays away for longer than the lease it last told ends the run.

mod lease;
mod verdict;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gatehouse_proto::ids::{LINK_METADATA, LinkToken};
use gatehouse_proto::socket::{MAX_MESSAGE, channel_noting};
use gatehouse_proto::v1;
use gatehouse_proto::v1::runner_client::RunnerClient;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use lease::LeaseClock;
pub use verdict::Refused;
use verdict::Verdict;

type Client = RunnerClient<InterceptedService<Channel, Credentials>>;

/// How long an answer that needs no waiting may take.
const PROMPT: Duration = Duration::from_secs(10);
/// How long one `AwaitReply` is held open by the executor.
const HOLD: Duration = Duration::from_secs(45);
/// The first and the longest pause before asking again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Puts the link token on every request.
#[derive(Clone)]
struct Credentials(MetadataValue<Ascii>);

impl tonic::service::Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(LINK_METADATA, self.0.clone());
        Ok(request)
    }
}

/// The link to the executor.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    client: Client,
    /// How many connections there have been.
    connections: Arc<AtomicU64>,
    /// The one of them over which the shim has attached; 0: attach before anything else.
    attached: AtomicU64,
    attaching: tokio::sync::Mutex<()>,
    lease: Mutex<LeaseClock>,
    enforced_by: OnceLock<Vec<String>>,
}

/// What ends a run from the executor's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// The executor says that the run is over.
    Ordered,
    /// The executor does not know, or no longer accepts, this link.
    Refused,
    /// The executor has been away for longer than the lease.
    Alone,
}

/// How a turn came out.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// ChatGPT's reply.
    Reply(v1::CommittedReply),
    /// The turn is closed without one.
    Closed(String),
}

impl Link {
    /// A link that connects when it is first used.
    ///
    /// # Errors
    /// When the socket's path is unusable.
    pub fn new(socket: &Path, token: &LinkToken) -> io::Result<Self> {
        let mut value: MetadataValue<Ascii> = token.to_hex().parse().map_err(io::Error::other)?;
        value.set_sensitive(true);
        let connections = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&connections);
        let channel = channel_noting(socket, move || {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        let client = RunnerClient::with_interceptor(channel, Credentials(value))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self(Arc::new(Inner {
            client,
            connections,
            attached: AtomicU64::new(0),
            attaching: tokio::sync::Mutex::new(()),
            lease: Mutex::new(LeaseClock::unheard(Instant::now())),
            enforced_by: OnceLock::new(),
        })))
    }

    /// First contact: the plan of the run.
    ///
    /// # Errors
    /// When the executor refuses the link, or cannot be reached for as long as a link is given before first contact.
    pub async fn first_attach(&self) -> Result<v1::RunPlan, Parting> {
        let mut pause = Pause::new();
        loop {
            let waited_enough = self.is_alone();
            match self.attach_once().await {
                Ok(plan) => return Ok(plan),
                Err(Verdict::Refused(_)) => return Err(Parting::Refused),
                Err(Verdict::Lost) if waited_enough => return Err(Parting::Alone),
                Err(Verdict::Lost) => pause.wait().await,
            }
        }
    }

    /// Tells which layers confine Claude Code, at every attach from now on. One is due now, before anything else is asked:
    /// so no turn is open of which the executor does not know that.
    pub fn report_layers(&self, layers: Vec<String>) {
        let _ = self.0.enforced_by.set(layers);
        self.0.attached.store(0, Ordering::Relaxed);
        // Not left to the first question, which would have to wait for it. If it fails, that one attaches.
        let link = self.clone();
        tokio::spawn(async move { link.reattach().await.is_ok() });
    }

    /// Keeps the contact until the executor, or its absence, ends the run.
    pub async fn heartbeats(&self) -> Parting {
        loop {
            // A process that was stopped finds its question unanswered when it wakes up, however well the executor is. So
            // only a question that was put after the lease was over shows that nobody is there.
            let lease_was_over = self.is_alone();
            match self.heartbeat_once().await {
                Ok(reply) if reply.end_run => return Parting::Ordered,
                Ok(reply) => tokio::time::sleep(lease::until_next_heartbeat(reply.lease_seconds_left)).await,
                Err(Verdict::Refused(_)) => return Parting::Refused,
                Err(Verdict::Lost) if lease_was_over => return Parting::Alone,
                Err(Verdict::Lost) => tokio::time::sleep(PAUSES.1).await,
            }
        }
    }

    /// Opens a turn, or joins the one of that key. Waits for receipts that are still being made.
    ///
    /// # Errors
    /// When the executor refuses it.
    pub async fn open_turn(&self, request: v1::OpenTurnRequest) -> Result<String, Refused> {
        let asked = self.ask(|mut client| {
            let request = request.clone();
            async move { client.open_turn(request).await }
        });
        Ok(asked.await?.turn_id)
    }

    /// Waits for a turn's reply, however long that takes.
    ///
    /// # Errors
    /// When the executor refuses the question.
    pub async fn await_reply(&self, turn_id: &str) -> Result<Outcome, Refused> {
        use v1::await_reply_reply::Outcome as Told;
        let wait_ms = u32::try_from(HOLD.as_millis()).unwrap_or(0);
        loop {
            let request = v1::AwaitReplyRequest { turn_id: turn_id.to_owned(), wait_ms };
            let answer = self.ask(|mut client| {
                let request = request.clone();
                async move { within(HOLD + PROMPT, client.await_reply(request)).await }
            });
            match answer.await?.outcome {
                Some(Told::Reply(reply)) => return Ok(Outcome::Reply(reply)),
                Some(Told::Closed(reason)) => return Ok(Outcome::Closed(reason)),
                Some(Told::Pending(_)) => {}
                // An answer of a kind that we do not know: not to be asked for in a tight loop.
                None => tokio::time::sleep(PAUSES.1).await,
            }
        }
    }

    /// Has an authorised action performed, or gets the result that it had.
    ///
    /// # Errors
    /// When the executor refuses it: no such action, or not with this input.
    pub async fn invoke_tool(&self, request: v1::InvokeToolRequest) -> Result<v1::InvokeToolReply, Refused> {
        self.ask(|mut client| {
            let request = request.clone();
            async move { client.invoke_tool(request).await }
        })
        .await
    }

    /// Tells how the run ended, until that is heard or nobody is to be told any more.
    pub async fn end_run(&self, outcome: v1::end_run_request::Outcome) {
        let request = v1::EndRunRequest { outcome: Some(outcome) };
        let told = self.ask(|mut client| {
            let request = request.clone();
            async move { within(PROMPT, client.end_run(request)).await }
        });
        let alone = async {
            while !self.is_alone() {
                tokio::time::sleep(PAUSES.1).await;
            }
        };
        tokio::select! {
            _ = told => {}
            () = alone => {}
        }
    }

    /// Asks until there is an answer or a refusal.
    async fn ask<A, F>(&self, call: impl Fn(Client) -> F) -> Result<A, Refused>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut pause = Pause::new();
        loop {
            let answer = match self.reattach().await {
                Ok(()) => call(self.0.client.clone()).await.map_err(|status| verdict::of_question(&status)),
                Err(verdict) => Err(verdict),
            };
            match answer {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(Verdict::Refused(refused)) => return Err(refused),
                Err(Verdict::Lost) => {
                    self.0.attached.store(0, Ordering::Relaxed);
                    pause.wait().await;
                }
            }
        }
    }

    /// Attaches if this is another connection than the last time, which an executor that was restarted must learn; one at
    /// a time.
    async fn reattach(&self) -> Result<(), Verdict> {
        let _one_at_a_time = self.0.attaching.lock().await;
        if self.0.attached.load(Ordering::Relaxed) != self.0.connections.load(Ordering::Relaxed) {
            self.attach_once().await?;
        }
        Ok(())
    }

    async fn attach_once(&self) -> Result<v1::RunPlan, Verdict> {
        let request =
            v1::AttachRequest { enforced_by: self.0.enforced_by.get().cloned().unwrap_or_default() };
        let mut client = self.0.client.clone();
        let plan = within(PROMPT, client.attach(request))
            .await
            .map_err(|status| verdict::of_link(&status))?
            .into_inner();
        self.heard(plan.lease_seconds_left);
        self.0.attached.store(self.0.connections.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(plan)
    }

    async fn heartbeat_once(&self) -> Result<v1::HeartbeatReply, Verdict> {
        self.reattach().await?;
        let mut client = self.0.client.clone();
        match within(PROMPT, client.heartbeat(v1::HeartbeatRequest {})).await {
            Ok(reply) => {
                self.heard(reply.get_ref().lease_seconds_left);
                Ok(reply.into_inner())
            }
            Err(status) => {
                self.0.attached.store(0, Ordering::Relaxed);
                Err(verdict::of_link(&status))
            }
        }
    }

    fn heard(&self, lease_seconds_left: u64) {
        *self.lease() = LeaseClock::heard(Instant::now(), lease_seconds_left);
    }

    fn is_alone(&self) -> bool {
        self.lease().is_out(Instant::now())
    }

    fn lease(&self) -> std::sync::MutexGuard<'_, LeaseClock> {
        self.0.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

/// A deadline on our side too: an executor that is stopped, not gone, answers nothing.
async fn within<A>(limit: Duration, call: impl Future<Output = Result<A, Status>>) -> Result<A, Status> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")))
}

/// Growing pauses between two tries.
struct Pause(Duration);

impl Pause {
    const fn new() -> Self {
        Self(PAUSES.0)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSES.1);
    }
}
