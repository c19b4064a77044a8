//! From a turn key to the answer: opens the turn, waits for its reply, and keeps the connection alive meanwhile.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use gatehouse_proto::v1::OpenTurnRequest;
use gatehouse_proto::v1::open_turn_request::Key;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::render::{self, Reply};
use super::request::{Asked, Form};
use super::{Bridge, Setup, api_error};
use crate::link::Outcome;
use crate::run::Order;

/// How soon after its request an answer may end a run, at least and at most. Claude Code writes its transcript in the
/// background; the prompt of a run that is over within some 50 ms is lost from it (seen with 2.1.247), and with it the
/// history of the next run. On a busy machine it takes longer, as its start did.
const EARLIEST_END: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The kind of every error here: one that Claude Code does not try again.
const FINAL: &str = "invalid_request_error";

impl Bridge {
    /// Answers a request that has a turn key.
    pub(super) async fn answer(&self, asked: Asked) -> Response {
        let Asked { form, turn } = asked;
        // Room for the few events of a reply; a client that reads slowly holds up nobody else.
        let (out, body) = mpsc::channel(16);
        let bridge = self.clone();
        tokio::spawn(async move {
            // A client that went away has nothing to be told; the turn stays open for its next request.
            tokio::select! {
                () = out.closed() => {}
                () = bridge.serve(form, turn, &out) => {}
            }
        });
        let kind = match form {
            Form::Stream => "text/event-stream",
            Form::Whole => "application/json",
        };
        let body = Body::from_stream(ReceiverStream::new(body).map(Ok::<Bytes, Infallible>));
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
        response
    }

    /// Answers a request that fits no turn. The executor is told, and the run is over: whatever Claude Code is asking, it
    /// is not what it was started for.
    pub(super) async fn refuse(&self, reason: String) -> Response {
        let key = Some(Key::NoKey(reason.clone()));
        let _ = self.link.open_turn(OpenTurnRequest { key, request_sha256: String::new() }).await;
        let response = api_error(StatusCode::BAD_REQUEST, FINAL, &reason);
        self.orders.give(Order::Protocol(reason));
        response
    }

    async fn serve(&self, form: Form, turn: OpenTurnRequest, out: &mpsc::Sender<Bytes>) {
        let asked_at = Instant::now();
        if form == Form::Stream {
            send(out, render::message_start(&self.model)).await;
        }
        let last_words = match self.wait_for_reply(form, turn, out).await {
            Ok(reply) => {
                if reply.ends_the_run() {
                    sleep_until(asked_at + self.time_to_write_down()).await;
                }
                let parts = match form {
                    Form::Stream => {
                        self.binding.streamed();
                        Ok(render::events(&reply))
                    }
                    Form::Whole => {
                        self.binding.given_whole(reply.given_calls());
                        render::whole(&reply, &self.model).map(|message| vec![message])
                    }
                };
                match parts {
                    Ok(parts) => return send_all(out, parts).await,
                    Err(_) => Order::Protocol("the reply cannot be rendered".into()),
                }
            }
            Err(order) => order,
        };
        let message = "this run is over";
        let error = match form {
            Form::Stream => render::error_event(FINAL, message),
            Form::Whole => Bytes::from(render::error(FINAL, message).to_string()),
        };
        send(out, error).await;
        self.orders.give(last_words);
    }

    /// How long Claude Code may need to write down what it has asked.
    fn time_to_write_down(&self) -> Duration {
        match *self.setup.borrow() {
            Setup::Good(startup) => earliest_end(startup),
            Setup::Unchecked => EARLIEST_END.1,
        }
    }

    /// The reply, or what ends the run. Sends a sign of life at each interval: a ping event, or a space before the JSON.
    async fn wait_for_reply(
        &self,
        form: Form,
        turn: OpenTurnRequest,
        out: &mpsc::Sender<Bytes>,
    ) -> Result<Reply, Order> {
        let mut ticks = tokio::time::interval(self.ping);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let reply = self.reply_to(turn);
        tokio::pin!(reply);
        loop {
            tokio::select! {
                reply = &mut reply => return reply,
                _ = ticks.tick() => {
                    let sign = match form {
                        Form::Stream => render::ping(),
                        Form::Whole => Bytes::from_static(b" "),
                    };
                    send(out, sign).await;
                }
            }
        }
    }

    async fn reply_to(&self, turn: OpenTurnRequest) -> Result<Reply, Order> {
        // The sender lives as long as the run; without it the run is over anyway.
        let mut setup = self.setup.clone();
        if setup.wait_for(|setup| matches!(setup, Setup::Good(_))).await.is_err() {
            return Err(Order::Closed("the run is over".into()));
        }
        let refused = |refused: crate::link::Refused| Order::Protocol(refused.to_string());
        let turn_id = self.link.open_turn(turn).await.map_err(refused)?;
        match self.link.await_reply(&turn_id).await.map_err(refused)? {
            Outcome::Reply(reply) => {
                Reply::try_from(reply).map_err(|error| Order::Protocol(error.to_string()))
            }
            Outcome::Closed(reason) => Err(Order::Closed(reason)),
        }
    }
}

/// A start takes some half a second where nothing else runs.
fn earliest_end(startup: Duration) -> Duration {
    (startup / 2).clamp(EARLIEST_END.0, EARLIEST_END.1)
}

async fn send_all(out: &mpsc::Sender<Bytes>, parts: Vec<Bytes>) {
    for part in parts {
        send(out, part).await;
    }
}

async fn send(out: &mpsc::Sender<Bytes>, part: Bytes) {
    // Fails when the client is gone, which ends this task by itself.
    let _ = out.send(part).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_the_start_the_later_the_earliest_end_within_bounds() {
        let after = |startup| earliest_end(Duration::from_millis(startup)).as_millis();
        assert_eq!([0, 400, 600, 4000, 60_000].map(after), [250, 250, 300, 2000, 5000]);
    }
}
