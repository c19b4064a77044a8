//! Strikes at the planned moments, and keeps count.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gatehouse_proto::v1::{GetSessionRequest, SessionStatus, SessionView};
use gatehouse_tests::{Gateway, processes};
use nix::sys::signal::Signal;

use super::plan::{Manner, Moment, Strike, Victim};

/// How long a moment is waited for. A session that does not come through it any more is over.
const PATIENCE: Duration = Duration::from_secs(40);

/// What was struck in which moment, how.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<(Victim, Moment), [usize; 2]>>);

impl Tally {
    fn note(&self, victim: Victim, moment: Moment, manner: Manner) {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry((victim, moment)).or_default()[usize::from(manner == Manner::Terminate)] += 1;
    }

    /// How often in all.
    pub fn of(&self, cell: (Victim, Moment)) -> usize {
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get(&cell).map_or(0, |counts| counts.iter().sum())
    }

    /// A row a victim, a column a moment: SIGKILL + SIGTERM.
    pub fn print(&self) {
        use Moment::{Command, Idle, Running, Starting, Stopping, Waiting};
        let moments = [Starting, Waiting, Running, Command, Idle, Stopping];
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        println!("{:10}{}", "", moments.map(|moment| format!("{:>10}", format!("{moment:?}"))).concat());
        for victim in [Victim::Front, Victim::Executor, Victim::Shim, Victim::Claude] {
            let counts = moments.map(|moment| match cells.get(&(victim, moment)) {
                Some([killed, ended]) => format!("{:>10}", format!("{killed}+{ended}")),
                None => format!("{:>10}", "-"),
            });
            println!("{:10}{}", format!("{victim:?}"), counts.concat());
        }
    }
}

/// Carries out a round's strikes on its gateway.
pub struct Killer<'a> {
    pub gateway: &'a mut Gateway,
    pub session: String,
    pub claude_session: String,
    pub tally: &'a Tally,
}

impl Killer<'_> {
    /// Strikes when the moment has come; `false` if it does not come any more.
    pub async fn strike(&mut self, strike: &Strike) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(seen) = self.look().await else { return false };
            if seen.status() == SessionStatus::Stopped || Instant::now() > deadline {
                return false;
            }
            if moment(&seen) == Some(strike.moment) {
                tokio::time::sleep(Duration::from_millis(strike.delay_ms)).await;
                // What it is now counts: the moment may be over.
                let now = self.look().await.and_then(|seen| moment(&seen));
                if let Some(now) = now
                    && self.hit(strike.victim, strike.manner, now)
                {
                    self.aftermath(strike, now).await;
                    return true;
                }
            }
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }

    async fn look(&self) -> Option<SessionView> {
        let request = GetSessionRequest { native_session_id: self.session.clone() };
        self.gateway.operator().get_session(request).await.ok()?.into_inner().session
    }

    /// Whether there was somebody to hit.
    fn hit(&mut self, victim: Victim, manner: Manner, now: Moment) -> bool {
        self.gateway.learn_run(&self.claude_session);
        let signal = match manner {
            Manner::Kill => Signal::SIGKILL,
            Manner::Terminate => Signal::SIGTERM,
        };
        let pid = match victim {
            Victim::Shim => processes::shim_of(&self.claude_session)
                .or_else(|| processes::shims_of(&self.gateway.runtime_dir()).into_iter().next()),
            Victim::Claude => processes::claude_of(&self.claude_session),
            Victim::Front | Victim::Executor => None,
        };
        match (victim, manner) {
            (Victim::Front, Manner::Kill) => self.gateway.kill_front(),
            (Victim::Front, Manner::Terminate) => self.gateway.end_front(),
            (Victim::Executor, Manner::Kill) => self.gateway.kill_executor(),
            (Victim::Executor, Manner::Terminate) => self.gateway.end_executor(),
            (Victim::Shim | Victim::Claude, _) => match pid {
                Some(pid) => processes::signal(pid, signal),
                None => return false,
            },
        }
        self.tally.note(victim, now, manner);
        true
    }

    async fn aftermath(&mut self, strike: &Strike, now: Moment) {
        if let Some(with) = strike.with {
            self.hit(with, Manner::Kill, now);
        }
        tokio::time::sleep(Duration::from_millis(strike.away_ms)).await;
        if self.gateway.executor_pid().is_none() {
            self.gateway.start_executor().await;
        }
        if self.gateway.front_pid().is_none() {
            self.gateway.start_front().await;
        }
    }
}

fn moment(seen: &SessionView) -> Option<Moment> {
    let run = seen.current_run.as_ref();
    let commands = run.is_some_and(|run| {
        run.actions.iter().any(|action| action.name == "RunCommand" && action.state == "performing")
    });
    match seen.status() {
        SessionStatus::Starting => Some(Moment::Starting),
        SessionStatus::WaitingForGpt => Some(Moment::Waiting),
        SessionStatus::Running if commands => Some(Moment::Command),
        SessionStatus::Running => Some(Moment::Running),
        SessionStatus::Idle | SessionStatus::Failed => Some(Moment::Idle),
        SessionStatus::Stopping => Some(Moment::Stopping),
        _ => None,
    }
}
