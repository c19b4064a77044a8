//! `gatehouse verify`: asks the executor, or, while none runs, has its binary look at the ledger as it lies there.

use std::process::Stdio;

use gatehouse_proto::v1::{VerifyLedgerReply, VerifyLedgerRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio_stream::StreamExt;

use super::progress::Progress;
use crate::cli::Json;
use crate::failure::{Exit, Failure};
use crate::operator::Operator;
use crate::screen::{Screen, clean};
use crate::settings::{Binaries, Place};

/// What was found.
#[derive(Debug, Default, Deserialize)]
struct Found {
    ok: bool,
    entries: u64,
    broken_at_seq: Option<u64>,
    broken_session_id: Option<String>,
    broken_why: Option<String>,
    ledger_problems: Vec<String>,
    contents: u64,
    contents_pruned: u64,
    content_faults: u64,
    content_problems: Vec<String>,
}

impl From<VerifyLedgerReply> for Found {
    fn from(reply: VerifyLedgerReply) -> Self {
        Self {
            ok: reply.ok,
            entries: reply.entries,
            broken_at_seq: reply.broken_at_seq,
            broken_session_id: reply.broken_session_id,
            broken_why: reply.broken_why,
            ledger_problems: reply.ledger_problems,
            contents: reply.contents,
            contents_pruned: reply.contents_pruned,
            content_faults: reply.content_faults,
            content_problems: reply.content_problems,
        }
    }
}

pub(super) async fn run(
    operator: Operator,
    place: &Place,
    options: &Json,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let found = match ask(operator).await {
        Err(failure) if failure.exit == Exit::Unreachable => look(place).await?,
        asked => asked?,
    };
    if options.json {
        screen.line(found.as_json().to_string())?;
    } else if found.ok {
        found.praise(screen)?;
    }
    if found.ok { Ok(()) } else { Err(found.blame()) }
}

/// Has the running executor verify.
async fn ask(mut operator: Operator) -> Result<Found, Failure> {
    let mut steps = operator.verify_ledger_step(VerifyLedgerRequest {}).await?.into_inner();
    let mut progress = Progress::new();
    while let Some(step) = steps.next().await {
        let step = step?;
        if let Some(result) = step.result {
            return Ok(result.into());
        }
        progress.tell(&far(&step.part, step.done, step.total));
    }
    Err(Failure::failed("the executor ended before the verification was done").hint("Ask again."))
}

/// Has the executor's binary look, without an executor.
async fn look(place: &Place) -> Result<Found, Failure> {
    let mut child = Command::new(Binaries::beside_this()?.path("executor-svc")?)
        .args(place.arguments())
        .arg("--verify")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut progress = Progress::new();
    let mut found = None;
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            match line.get("result") {
                // There is no ledger in that place at all.
                Some(Value::Null) => return Err(Failure::unreachable()),
                Some(result) => found = serde_json::from_value(result.clone()).ok(),
                None => progress.tell(&far(
                    line["part"].as_str().unwrap_or_default(),
                    line["done"].as_u64().unwrap_or_default(),
                    line["total"].as_u64().unwrap_or_default(),
                )),
            }
        }
    }
    let output = child.wait_with_output().await?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    found.ok_or_else(|| {
        Failure::failed(format!("no gateway answers, and the ledger could not be looked at: {words}"))
            .hint("Start the gateway with `gatehouse up`, or name its state directory with --state-dir.")
    })
}

fn far(part: &str, done: u64, total: u64) -> String {
    if total > 0 { format!("{part}: {done} of {total} entries …") } else { format!("{part} …") }
}

impl Found {
    fn as_json(&self) -> Value {
        json!({
            "ok": self.ok, "entries": self.entries, "message": self.sentence(),
            "broken_at_seq": self.broken_at_seq, "broken_session_id": self.broken_session_id,
            "broken_why": self.broken_why, "ledger_problems": self.ledger_problems,
            "contents": self.contents, "contents_pruned": self.contents_pruned,
            "content_faults": self.content_faults, "content_problems": self.content_problems,
        })
    }

    fn sentence(&self) -> String {
        match self.broken_at_seq {
            None if self.ledger_problems.is_empty() => {
                format!("The ledger is whole: {} entries, each chained to the one before.", self.entries)
            }
            None => format!("The chain of {} entries is whole, and the file is damaged.", self.entries),
            Some(seq) => {
                let session = match self.broken_session_id.as_deref() {
                    None | Some("") => String::new(),
                    Some(session) => format!(" (session {})", clean(session, 60)),
                };
                let why = clean(self.broken_why.as_deref().unwrap_or("it is not what was written"), 300);
                format!(
                    "The ledger is broken at entry {seq}{session}: {why}. The {} before it are whole.",
                    self.entries
                )
            }
        }
    }

    fn praise(&self, screen: &mut Screen) -> std::io::Result<()> {
        screen.line(self.sentence())?;
        let pruned = match self.contents_pruned {
            0 => String::new(),
            pruned => format!(" {pruned} more were pruned."),
        };
        screen.line(format!(
            "Of changed files {} contents are kept, each what its hash says.{pruned}",
            self.contents
        ))
    }

    fn blame(&self) -> Failure {
        let listed = |problems: &[String]| -> String {
            problems.iter().map(|problem| format!("\n  {}", clean(problem, 300))).collect()
        };
        if self.broken_at_seq.is_some() || !self.ledger_problems.is_empty() {
            let problems = listed(&self.ledger_problems);
            return Failure::failed(format!("{}{problems}", self.sentence())).hint(
                "Stop the gateway, keep the state directory as it is, and restore the last good copy.",
            );
        }
        Failure::failed(format!(
            "{} of the kept contents and receipts are missing or changed:{}",
            self.content_faults,
            listed(&self.content_problems)
        ))
        .hint(
            "The changes that they belong to can be neither shown nor undone. Look at the disk, or restore a copy of the \
             state directory.",
        )
    }
}
