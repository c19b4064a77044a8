//! The executor, as the front sees it: six calls and one question.
//!
//! A call that changes something is carried on in a task of its own: a client that hangs up does not take it along. A
//! connection that breaks in the middle is tried again for some seconds with the same ids, because every call is
//! idempotent by them and an executor that restarts answers as if nothing had been.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::{self, MAX_MESSAGE};
use gatehouse_proto::v1::{
    Contact, ContinueRequest, MetricsRequest, ReadyRequest, RecoverRequest, ReplyRequest, SessionReply,
    StartRequest, StatusRequest, StopRequest, front_client::FrontClient,
};
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::errors::{self, Failure};
use crate::metrics::Metrics;

/// What a call may take beyond its wait. A start looks at a whole repository before it answers.
const BEYOND_WAIT: Duration = Duration::from_secs(20);
/// For how long a lost executor is looked for again.
const LOOK_AGAIN_FOR: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// An attempt that lasted longer had an executor: losing it starts the time to look again anew.
const WAS_THERE: Duration = Duration::from_secs(1);
const READY_WITHIN: Duration = Duration::from_secs(2);

/// A session tool's call, as the executor takes it.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Make a session.
    Start(StartRequest),
    /// Start the next run.
    Continue(ContinueRequest),
    /// Rotate the lease.
    Recover(RecoverRequest),
    /// Answer a turn.
    Reply(ReplyRequest),
    /// Look.
    Status(StatusRequest),
    /// End the session.
    Stop(StopRequest),
}

impl Call {
    /// How long it asks to wait.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let seconds = match self {
            Self::Start(call) => call.wait_seconds,
            Self::Continue(call) => call.wait_seconds,
            Self::Recover(call) => call.wait_seconds,
            Self::Reply(call) => call.wait_seconds,
            Self::Status(call) => call.wait_seconds,
            Self::Stop(_) => None,
        };
        Duration::from_secs(seconds.unwrap_or(0).into())
    }

    fn with_wait(&self, wait: Duration) -> Self {
        let seconds = Some(u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        let mut call = self.clone();
        match &mut call {
            Self::Start(call) => call.wait_seconds = seconds,
            Self::Continue(call) => call.wait_seconds = seconds,
            Self::Recover(call) => call.wait_seconds = seconds,
            Self::Reply(call) => call.wait_seconds = seconds,
            Self::Status(call) => call.wait_seconds = seconds,
            Self::Stop(_) => {}
        }
        call
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Continue(_) => "continue",
            Self::Recover(_) => "recover",
            Self::Reply(_) => "reply_and_wait",
            Self::Status(_) => "status",
            Self::Stop(_) => "stop",
        }
    }

    const fn only_looks(&self) -> bool {
        matches!(self, Self::Status(_))
    }
}

/// A connection to the executor that is made when needed, and again after each loss.
#[derive(Debug, Clone)]
pub struct Executor {
    client: FrontClient<Channel>,
    under_way: TaskTracker,
    metrics: Arc<Metrics>,
}

impl Executor {
    /// Talks to the `front` socket at `path`, whether anybody listens there yet or not. Needs a Tokio runtime.
    ///
    /// # Errors
    /// When `path` cannot be used as an address.
    pub fn at(path: &Path, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let client = FrontClient::new(socket::channel(path)?)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { client, under_way: TaskTracker::new(), metrics })
    }

    /// Whether an executor answers, now, and can take on work.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self) -> Result<(), Refusal> {
        let mut request = Request::new(ReadyRequest {});
        request.set_timeout(READY_WITHIN);
        let asked = self.client.clone().ready(request).await;
        asked.map(drop).map_err(|status| Failure::of(&status).into_refusal())
    }

    /// Tells the executor what was seen.
    ///
    /// # Errors
    /// When it cannot be told.
    pub async fn note(&self, seen: Contact) -> Result<(), Status> {
        let mut request = Request::new(seen);
        request.set_timeout(READY_WITHIN);
        self.client.clone().note(request).await.map(drop)
    }

    /// The executor's figures; `None` if it does not tell them now.
    pub async fn figures(&self) -> Option<String> {
        let mut request = Request::new(MetricsRequest {});
        request.set_timeout(READY_WITHIN);
        Some(self.client.clone().metrics(request).await.ok()?.into_inner().text)
    }

    /// Makes the call and waits for its answer, `wait` at most beyond what the call itself takes.
    ///
    /// # Errors
    /// The executor's own refusal, `executor_unavailable`, or `internal`.
    pub async fn call(&self, call: Call, wait: Duration) -> Result<SessionReply, Refusal> {
        if call.only_looks() {
            return self.ask(&call, wait).await;
        }
        let this = self.clone();
        let detached = self.under_way.spawn(async move { this.ask(&call, wait).await });
        detached.await.unwrap_or_else(|_| Err(errors::internal("The call ended without an answer.")))
    }

    /// Waits until all detached calls have had their answer, `at_most` long.
    pub async fn settle(&self, at_most: Duration) {
        self.under_way.close();
        if tokio::time::timeout(at_most, self.under_way.wait()).await.is_err() {
            tracing::warn!(calls = self.under_way.len(), "ended before the executor had answered");
        }
    }

    async fn ask(&self, call: &Call, wait: Duration) -> Result<SessionReply, Refusal> {
        let mut patience = Patience::new(wait);
        loop {
            let failure = match self.once(call, patience.next_attempt()).await {
                Ok(reply) => return Ok(reply),
                Err(status) => Failure::of(&status),
            };
            match patience.after(failure) {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(failure) => return Err(self.give_up(call, failure)),
            }
        }
    }

    fn give_up(&self, call: &Call, failure: Failure) -> Refusal {
        if !matches!(failure, Failure::Refused(_)) {
            self.metrics.rpc_failure(call.name(), failure.kind());
            tracing::warn!(call = call.name(), kind = failure.kind(), "the executor gave no answer");
        }
        failure.into_refusal()
    }

    async fn once(&self, call: &Call, left: Left) -> Result<SessionReply, Status> {
        let mut client = self.client.clone();
        let deadline = left.deadline;
        let answer = match call.with_wait(left.wait) {
            Call::Start(call) => client.start(timed(call, deadline)).await,
            Call::Continue(call) => client.r#continue(timed(call, deadline)).await,
            Call::Recover(call) => client.recover(timed(call, deadline)).await,
            Call::Reply(call) => client.reply_and_wait(timed(call, deadline)).await,
            Call::Status(call) => client.get_status(timed(call, deadline)).await,
            Call::Stop(call) => client.stop(timed(call, deadline)).await,
        };
        answer.map(tonic::Response::into_inner)
    }
}

/// What is left of a call's time when an attempt begins.
#[derive(Debug, Clone, Copy)]
struct Left {
    wait: Duration,
    deadline: Duration,
}

/// How long a call goes on through losses of the executor.
#[derive(Debug)]
struct Patience {
    began: Instant,
    wait: Duration,
    attempt: Instant,
    give_up: Option<Instant>,
    pause: Duration,
}

impl Patience {
    fn new(wait: Duration) -> Self {
        let now = Instant::now();
        Self { began: now, wait, attempt: now, give_up: None, pause: FIRST_PAUSE }
    }

    fn next_attempt(&mut self) -> Left {
        self.attempt = Instant::now();
        let gone = self.began.elapsed();
        let deadline = (self.wait + BEYOND_WAIT).saturating_sub(gone).max(FIRST_PAUSE);
        Left { wait: self.wait.saturating_sub(gone), deadline }
    }

    /// The pause before the next attempt, or the failure to report.
    fn after(&mut self, failure: Failure) -> Result<Duration, Failure> {
        if failure != Failure::Lost {
            return Err(failure);
        }
        // The transport reports its own deadline as a loss.
        if self.began.elapsed() >= self.wait + BEYOND_WAIT {
            return Err(Failure::Late);
        }
        if self.attempt.elapsed() > WAS_THERE {
            self.give_up = None;
            self.pause = FIRST_PAUSE;
        }
        let pause = self.pause;
        let until = *self.give_up.get_or_insert_with(|| Instant::now() + LOOK_AGAIN_FOR);
        if Instant::now() + pause > until {
            return Err(Failure::Lost);
        }
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Ok(pause)
    }
}

fn timed<T>(message: T, deadline: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}
