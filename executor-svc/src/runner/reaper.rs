//! Ends sessions whose lease has run out, and subagents whose time is over.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::engine::{BEAT, Engine, Fault, parse};
use crate::ledger::sessions;
use crate::session::{Command, Session};

/// The longest sleep: a jump of the time of day is noticed within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Says again and again that the executor runs.
pub(super) async fn keep_beating(engine: Engine) {
    loop {
        engine.beat();
        tokio::time::sleep(BEAT).await;
    }
}

/// Sleeps until the next lease may have run out, looks, and again.
pub(super) async fn run(engine: Engine) {
    loop {
        let next = match end_what_ran_out(&engine).await {
            Ok(next) => next,
            Err(fault) => {
                tracing::error!(%fault, "leases could not be checked");
                None
            }
        };
        let until = next.map_or(LOOK_AGAIN, |at| at.since(engine.now()).max(Duration::from_millis(50)));
        tokio::time::sleep(until.min(LOOK_AGAIN)).await;
    }
}

/// Expires what has run out; gives the moment of the next that will. One session that cannot be dealt with does not
/// keep the others. What a jump of the time of day seems to have ended is not.
///
/// # Errors
/// When the ledger cannot be read.
pub async fn end_what_ran_out(engine: &Engine) -> Result<Option<Timestamp>, Fault> {
    match engine.follow_the_time_of_day().await {
        Ok(0) => {}
        Ok(millis) => {
            tracing::warn!(millis, "the clock was set, or the machine was suspended; leases moved along");
        }
        // The engine's own clock goes on evenly, so leases are right all the same.
        Err(fault) => tracing::error!(%fault, "the clock could not be set"),
    }
    let texts = engine.read(sessions::live_readable).await?.texts;
    let now = engine.now();
    let mut next: Option<Timestamp> = None;
    for text in texts {
        match parse(&text).map(|session| engine.with_grace(session)) {
            Ok(session) if session.lease.expired(now) || session.lease.is_too_long(now) => {
                submit(engine, &session, Command::CheckLease).await;
            }
            Ok(session) => {
                let deadline = subagents_deadline(&session);
                if deadline.is_some_and(|at| now >= at) {
                    submit(engine, &session, Command::CheckSubagent).await;
                }
                let soonest = [Some(session.lease.expires_at), deadline.filter(|at| *at > now), next];
                next = soonest.into_iter().flatten().min();
            }
            Err(error) => tracing::error!(%error, "a session's lease could not be read"),
        }
    }
    Ok(next)
}

/// When its subagent is to be ended, if it is not on its way out.
fn subagents_deadline(session: &Session) -> Option<Timestamp> {
    session.subagent.as_ref().filter(|subagent| !subagent.is_ending()).map(|subagent| subagent.deadline)
}

async fn submit(engine: &Engine, session: &Session, command: Command) {
    if let Err(fault) = engine.submit(&session.id, None, |_, _| Ok(command)).await {
        tracing::error!(session = %session.id, %fault, "a lease that ran out could not be ended");
    }
}
