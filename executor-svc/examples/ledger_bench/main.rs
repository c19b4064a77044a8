//! A ledger of a million entries beside an empty one: how long the daemon takes to start, and what a call of status takes.
//! `ledger_bench [--entries N] [DIRECTORY]`; the daemon is the one that was built beside this.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark, not part of the daemon")]

mod fill;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gatehouse_figures::{Comparison, Goal, Place as Where, Table, Unit};
use gatehouse_proto::socket::{Role, channel};
use gatehouse_proto::v1::front_client::FrontClient;
use gatehouse_proto::v1::operator_client::OperatorClient;
use gatehouse_proto::v1::{self, SessionReply};
use tonic::transport::Channel;

const STARTS: usize = 21;
const CALLS: usize = 1000;

/// A state directory, and the daemon on it.
struct Place {
    top: PathBuf,
    session: Option<SessionReply>,
    entries: u64,
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Place {
    fn new(top: &Path, name: &str) -> Self {
        let top = top.join(name);
        for folder in ["s", "r", "h", "p"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        // Without a launcher a session fails at once; it is there to be asked about.
        let config = format!("[claude]\nhelper_dir = {:?}\n", top.join("h"));
        std::fs::write(top.join("config.toml"), config).unwrap();
        Self { top, session: None, entries: 0 }
    }

    fn operator(&self) -> OperatorClient<Channel> {
        OperatorClient::new(channel(&Role::Operator.socket(&self.top.join("r"))).unwrap())
    }

    fn front(&self) -> FrontClient<Channel> {
        FrontClient::new(channel(&Role::Front.socket(&self.top.join("r"))).unwrap())
    }

    /// Starts the daemon; gives how long it took until it answered.
    async fn start(&mut self) -> (Daemon, Duration) {
        let executor =
            std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("executor-svc");
        let began = Instant::now();
        let child = Command::new(executor)
            .arg("--config")
            .arg(self.top.join("config.toml"))
            .arg("--state-dir")
            .arg(self.top.join("s"))
            .arg("--runtime-dir")
            .arg(self.top.join("r"))
            .env("HOME", self.top.join("h"))
            .env("GATEHOUSE_LOG", "error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Daemon(child);
        let socket = Role::Operator.socket(&self.top.join("r"));
        loop {
            // Asked anew each time: a channel that failed once waits before it tries again.
            if socket.exists()
                && let Ok(health) = self.operator().health(v1::HealthRequest {}).await
            {
                self.entries = health.into_inner().journal_seq;
                return (daemon, began.elapsed());
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    async fn begin(&mut self) {
        let ask = v1::StartRequest {
            prompt: "Hello.".into(),
            working_directory: self.top.join("p").to_str().unwrap().into(),
            idempotency_key: uuid::Uuid::new_v4().to_string(),
            wait_seconds: Some(0),
            ..v1::StartRequest::default()
        };
        self.session = Some(self.front().start(ask).await.unwrap().into_inner());
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut entries = 1_000_000;
    let mut directory = None;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--entries" => entries = arguments.next().unwrap().parse().unwrap(),
            _ => directory = Some(PathBuf::from(argument)),
        }
    }
    let top =
        tempfile::Builder::new().prefix("gh").tempdir_in(directory.unwrap_or_else(|| "/tmp".into())).unwrap();
    let (mut empty, mut full) = (Place::new(top.path(), "empty"), Place::new(top.path(), "full"));
    let began = Instant::now();
    fill::fill(&full.top.join("s"), entries).await;
    let size = full.top.join("s/ledger.db").metadata().unwrap().len() >> 20;
    println!("filled in {:.0} s: {size} MiB", began.elapsed().as_secs_f64());
    let began = starts(&mut empty, &mut full).await;
    // Made now that their number is known.
    let entries = format!("{} entries", full.entries);
    let mut table = Table::new(["what", &entries, "empty", "ratio", "goal", "reached"]);
    table.row(began.row());
    calls(&mut empty, &mut full, &mut table).await;
    table.note(format!("The ledger has {size} MiB."));
    table.save(Where::LargeLedger).unwrap();
}

async fn starts(empty: &mut Place, full: &mut Place) -> Comparison {
    let mut pair = Comparison::new("start to the first answer", Unit::Time, Goal::AtMost(2.0));
    for _ in 0..STARTS {
        // In turn, so that whatever else the machine does meets both.
        pair.other(empty.start().await.1.as_secs_f64());
        pair.ours(full.start().await.1.as_secs_f64());
    }
    pair
}

async fn calls(empty: &mut Place, full: &mut Place, table: &mut Table) {
    let (_one, _other) = (empty.start().await, full.start().await);
    empty.begin().await;
    full.begin().await;
    let places = [&*empty, &*full];
    let mut fronts = places.map(Place::front);
    let mut operators = places.map(Place::operator);
    let mut times: [[Vec<Duration>; 3]; 2] = Default::default();
    for call in 0..CALLS {
        for (index, place) in places.iter().enumerate() {
            let session = place.session.as_ref().unwrap();
            let ask = v1::StatusRequest {
                native_session_id: session.session.as_ref().unwrap().native_session_id.clone(),
                lease_id: session.lease_id.clone(),
                wait_seconds: Some(0),
            };
            let began = Instant::now();
            fronts[index].get_status(ask).await.unwrap();
            times[index][0].push(began.elapsed());
            let began = Instant::now();
            operators[index].health(v1::HealthRequest {}).await.unwrap();
            times[index][1].push(began.elapsed());
            if call % 10 == 0 {
                let ask = v1::ListSessionsRequest { live_only: true, ..v1::ListSessionsRequest::default() };
                let began = Instant::now();
                operators[index].list_sessions(ask).await.unwrap();
                times[index][2].push(began.elapsed());
            }
        }
    }
    let [of_empty, of_full] = times;
    let goals = [Goal::AtMost(1.1), Goal::None, Goal::None];
    let names = ["status", "health", "list of live sessions"];
    for (index, (name, goal)) in names.into_iter().zip(goals).enumerate() {
        let mut pair = Comparison::new(name, Unit::Time, goal);
        of_empty[index].iter().for_each(|time| pair.other(time.as_secs_f64()));
        of_full[index].iter().for_each(|time| pair.ours(time.as_secs_f64()));
        table.row(pair.row());
    }
    let began = Instant::now();
    let found = operators[1].verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner();
    assert!(found.ok, "{}", found.message);
    table.note(format!(
        "`gatehouse verify`, which goes through all of it, took {:.1} s.",
        began.elapsed().as_secs_f64()
    ));
}
