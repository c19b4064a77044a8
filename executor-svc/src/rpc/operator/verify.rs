//! Verifying what is kept, with its progress: journal, structure, rows, contents.

use gatehouse_proto::v1;
use tokio::sync::mpsc;
use tonic::Status as Wire;

use super::OperatorService;
use crate::action::ContentCheck;
use crate::engine::Fault;
use crate::ledger::journal;
use crate::ledger::seal::SEALED;
use crate::ledger::verify::{self, Break, ENTRIES_AT_A_TIME, Report, Step, Walk};
use crate::rpc::refusals::spoken;

/// How many steps of progress may wait for a slow client.
const STEPS: usize = 4;

type Told = Result<v1::VerifyLedgerProgress, Wire>;

/// Who hears how far it is; a client that goes away ends it.
pub(super) struct Listener(mpsc::Sender<Told>);

impl Listener {
    async fn tell(&self, part: &str, done: u64, total: u64) {
        let step = v1::VerifyLedgerProgress { part: part.to_owned(), done, total, result: None };
        // Whoever is gone is noticed by the task that waits beside.
        let _ = self.0.send(Ok(step)).await;
    }
}

/// Verifies in the background, and tells how far it is. It ends with its client.
pub(super) fn steps(service: OperatorService) -> mpsc::Receiver<Told> {
    let (out, told_to) = mpsc::channel(STEPS);
    tokio::spawn(async move {
        let listener = Listener(out.clone());
        let result = tokio::select! {
            result = service.verify(Some(&listener)) => result,
            () = out.closed() => return,
        };
        let last = match result {
            Ok(result) => {
                Ok(v1::VerifyLedgerProgress { result: Some(result), ..v1::VerifyLedgerProgress::default() })
            }
            Err(fault) => Err(spoken(fault).into()),
        };
        let _ = out.send(last).await;
    });
    told_to
}

impl OperatorService {
    /// Walks the journal's chain, checks the file's structure and every row's seal, and holds every kept content against
    /// its hash.
    pub(super) async fn verify(&self, listener: Option<&Listener>) -> Result<v1::VerifyLedgerReply, Fault> {
        let mut report = self.walk(listener).await?;
        let tell = async |part: &str, done: usize| {
            if let Some(listener) = listener {
                listener.tell(part, done as u64, 0).await;
            }
        };
        tell("structure", 0).await;
        report.problems = self.engine.read_long(verify::structure).await?;
        for (done, table) in SEALED.iter().enumerate() {
            tell("rows", done).await;
            report
                .problems
                .extend(self.engine.read_long(|connection| verify::rows(connection, table)).await?);
        }
        tell("contents", 0).await;
        let contents = match self.actions.check_contents().await {
            // The actions cannot be gone through; that they are damaged is told already.
            Err(Fault::Ledger(error)) if !report.problems.is_empty() => {
                report.problems.push(format!("the kept contents could not be checked ({error})"));
                ContentCheck::default()
            }
            checked => checked?,
        };
        Ok(verdict(&report, contents))
    }

    async fn walk(&self, listener: Option<&Listener>) -> Result<Report, Fault> {
        let total = self.engine.read(journal::last_seq).await.unwrap_or_default();
        let mut walk = Walk::default();
        loop {
            let step = self.engine.read_long(move |connection| {
                let step = walk.step(connection, ENTRIES_AT_A_TIME)?;
                Ok((walk, step))
            });
            let broken;
            (walk, broken) = match step.await? {
                (walk, Step::More) => {
                    if let Some(listener) = listener {
                        listener.tell("journal", walk.entries, total.max(walk.entries)).await;
                    }
                    (walk, None)
                }
                (walk, Step::End) => {
                    return Ok(Report { entries: walk.entries, ..Report::default() });
                }
                (walk, Step::Broken(broken)) => (walk, Some(broken)),
            };
            if broken.is_some() {
                return Ok(Report { entries: walk.entries, broken, ..Report::default() });
            }
        }
    }
}

fn verdict(report: &Report, contents: ContentCheck) -> v1::VerifyLedgerReply {
    let of_chain = match &report.broken {
        None => format!("The chain of {} entries is whole.", report.entries),
        Some(broken) => format!("The chain breaks at {broken}; the {} before are whole.", report.entries),
    };
    let of_file = match report.problems.len() {
        0 => "Its file and rows are what was written.".to_owned(),
        problems => format!("{problems} parts of its file are damaged."),
    };
    let of_contents = match contents.faults {
        0 => format!("All {} kept contents are what their hashes say.", contents.whole),
        faults => format!("{faults} contents or receipts are missing or changed."),
    };
    let broken = report.broken.as_ref();
    v1::VerifyLedgerReply {
        ok: report.is_whole() && contents.faults == 0,
        entries: report.entries,
        broken_at_seq: broken.map(|broken: &Break| broken.seq),
        message: format!("{of_chain} {of_file} {of_contents}"),
        contents: contents.whole,
        contents_pruned: contents.pruned,
        content_faults: contents.faults,
        content_problems: contents.told,
        broken_session_id: broken.and_then(|broken| broken.session.clone()),
        broken_why: broken.map(|broken| broken.why.clone()),
        ledger_problems: report.problems.clone(),
    }
}
