//! Working on file systems that may never answer: a thread that can be left behind.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gatehouse_proto::ids::ToolCallId;

use super::receipt::Frame;
use super::{ReadingInput, Receipt, ReceiptBudget, ToolContext, perform_here};
use crate::files::FileFault;

/// How many threads may hang at the same time. A system call into a dead server cannot be taken back.
const MOST_LEFT_BEHIND: usize = 16;

/// How much longer than the deadline an orderly end may take.
const GRACE: Duration = Duration::from_secs(1);

static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

/// Performs the action in a thread of its own, and waits for it no longer than the deadline and a little.
pub(super) fn perform(
    input: &ReadingInput,
    ctx: &ToolContext,
    budget: ReceiptBudget,
    id: &ToolCallId,
    place: PathBuf,
) -> Receipt {
    let name = input.tool();
    let frame = Frame { id, name: name.as_str(), budget };
    if LEFT_BEHIND.load(Ordering::Acquire) >= MOST_LEFT_BEHIND {
        return frame.fault(&FileFault::TimedOut { path: place });
    }
    let (done, finished) = mpsc::channel();
    let (input, moved, call) = (input.clone(), ctx.clone(), id.clone());
    LEFT_BEHIND.fetch_add(1, Ordering::AcqRel);
    let started = std::thread::Builder::new().name("patience".to_owned()).spawn(move || {
        let receipt = perform_here(&input, &moved, budget, &call);
        LEFT_BEHIND.fetch_sub(1, Ordering::AcqRel);
        // Nobody waits any more if it took too long.
        let _ = done.send(receipt);
    });
    if started.is_err() {
        LEFT_BEHIND.fetch_sub(1, Ordering::AcqRel);
    }
    let left = ctx.deadline.saturating_duration_since(Instant::now()) + GRACE;
    finished.recv_timeout(left).unwrap_or_else(|_| frame.fault(&FileFault::TimedOut { path: place }))
}
