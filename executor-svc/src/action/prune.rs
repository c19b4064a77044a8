//! Removing the contents that only sessions name which ended long ago.
//!
//! First the journal is told which sessions lose their contents, then the contents are removed, a few at a time while
//! nothing is committed. Before each removal what the ledger has learnt since the beginning is looked at: a content that
//! a write has named meanwhile stays, and so does everything of a session in which anything has happened meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use gatehouse_proto::ids::SessionId;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::operation::OperationFault;
use super::{Actions, blocking};
use crate::clock::Timestamp;
use crate::content::{Content, ContentStore, Removal};
use crate::engine::{Remark, parse};
use crate::ledger::contents::{self, SESSION_PRUNED, STORE_PRUNED};
use crate::ledger::{LedgerError, journal, sessions};
use crate::session::{Session, State};

/// How many contents are removed while nothing is committed.
const AT_A_TIME: usize = 64;
/// How many journal entries are read at a time.
const ENTRIES: u32 = 1024;

/// What is to be pruned.
#[derive(Debug, Clone, Copy)]
pub struct PruneAsk {
    /// Only sessions that ended at least so long ago.
    pub older_than: Duration,
    /// Whether anything is removed.
    pub mode: PruneMode,
}

/// Whether a pruning removes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneMode {
    /// It does.
    Remove,
    /// It only tells what it would remove.
    DryRun,
}

/// How far a pruning is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Sessions whose contents go.
    pub sessions: u64,
    /// Contents that are kept in the store, before.
    pub total: u64,
    /// Contents that go.
    pub planned: u64,
    /// How many of these have been dealt with.
    pub seen: u64,
    /// How many of these are gone.
    pub removed: u64,
    /// How many bytes that gave back.
    pub bytes: u64,
}

/// What goes, and how things stood when that was decided.
#[derive(Debug)]
struct Plan {
    /// The journal's last place then.
    seq: u64,
    /// What goes, with the sessions that name it; nobody names what a crash left.
    contents: Vec<(Content, BTreeSet<SessionId>)>,
    total: u64,
}

/// What has happened since the plan was made.
#[derive(Debug)]
struct Meanwhile {
    seq: u64,
    named: HashSet<String>,
    sessions: HashSet<String>,
}

impl Actions {
    /// Removes contents, and tells `progress` how far it is. It ends early, without harm, when nobody listens any more.
    ///
    /// # Errors
    /// [`OperationFault::AtWork`] while another one is at work; when ledger or store cannot be read or written.
    pub async fn prune(
        &self,
        ask: PruneAsk,
        progress: mpsc::Sender<Pruned>,
    ) -> Result<Pruned, OperationFault> {
        let _alone = self.pruning.try_lock().map_err(|_| OperationFault::AtWork)?;
        let plan = self.plan_pruning(ask.older_than).await?;
        let mut pruned = Pruned {
            sessions: plan.sessions().len() as u64,
            total: plan.total,
            planned: plan.contents.len() as u64,
            ..Pruned::default()
        };
        if ask.mode == PruneMode::DryRun {
            (pruned.seen, pruned.removed) = (pruned.planned, pruned.planned);
            pruned.bytes = plan.contents.iter().map(|(content, _)| content.bytes).sum();
            return Ok(pruned);
        }
        if plan.contents.is_empty() {
            return Ok(pruned);
        }
        self.engine.remark(plan.remarks(ask.older_than)).await?;
        let mut meanwhile = Meanwhile { seq: plan.seq, named: HashSet::new(), sessions: HashSet::new() };
        for some in plan.contents.chunks(AT_A_TIME) {
            if progress.send(pruned).await.is_err() {
                break;
            }
            (meanwhile, pruned) = self.remove(some.to_vec(), meanwhile, pruned).await?;
        }
        Ok(pruned)
    }

    async fn plan_pruning(&self, older_than: Duration) -> Result<Plan, OperationFault> {
        let now = self.engine.now();
        let named = self.engine.read_long(move |connection| {
            let ended = ended_before(connection, now, older_than)?;
            let (mut kept, mut gone) = (HashSet::new(), BTreeMap::<String, BTreeSet<SessionId>>::new());
            contents::each(connection, |named| {
                let session = ended.get(named.session.as_str());
                for sha256 in named.contents.into_iter().flatten() {
                    match session {
                        Some(session) => drop(gone.entry(sha256).or_default().insert(session.clone())),
                        None => drop(kept.insert(sha256)),
                    }
                }
            })?;
            Ok((kept, gone, journal::last_seq(connection)?))
        });
        let (kept, mut gone, seq) = named.await?;
        let content = self.workshop.content.clone();
        let all = blocking(move || content.list()).await??;
        let total = all.len() as u64;
        let contents = all
            .into_iter()
            .filter(|content| !kept.contains(&content.sha256))
            .map(|content| {
                let sessions = gone.remove(&content.sha256).unwrap_or_default();
                (content, sessions)
            })
            .collect();
        Ok(Plan { seq, contents, total })
    }

    async fn remove(
        &self,
        some: Vec<(Content, BTreeSet<SessionId>)>,
        mut meanwhile: Meanwhile,
        mut pruned: Pruned,
    ) -> Result<(Meanwhile, Pruned), OperationFault> {
        let store = self.workshop.content.clone();
        let removed = self.engine.exclusively(move |connection| {
            meanwhile.catch_up(connection)?;
            for (content, sessions) in some {
                pruned.seen += 1;
                if meanwhile.keeps(&content, &sessions) {
                    continue;
                }
                if let Some(bytes) = remove(connection, &store, &content) {
                    (pruned.removed, pruned.bytes) = (pruned.removed + 1, pruned.bytes + bytes);
                }
            }
            Ok((meanwhile, pruned))
        });
        let removed = removed.await;
        if removed.is_err() {
            self.workshop.content.recount();
        }
        Ok(removed?)
    }
}

/// The sessions that ended so long ago that their contents may go, by their ids as text. Nothing of them is unfinished.
///
/// # Errors
/// When the ledger cannot be read.
pub fn ended_before(
    connection: &rusqlite::Connection,
    now: Timestamp,
    older_than: Duration,
) -> Result<BTreeMap<String, SessionId>, LedgerError> {
    let mut ended = BTreeMap::new();
    for text in sessions::ended(connection)? {
        let session = parse(&text)?;
        let Some(at) = ended_at(&session) else { continue };
        // An undo may have come long after the end.
        let latest = at.max(contents::latest_action(connection, &session.id)?);
        if latest.after(older_than) <= now {
            ended.insert(session.id.to_string(), session.id);
        }
    }
    Ok(ended)
}

fn ended_at(session: &Session) -> Option<Timestamp> {
    let unfinished =
        session.undoing.is_some() || !session.uncertain.is_empty() || !session.finishing.is_empty();
    match &session.state {
        _ if unfinished => None,
        State::Stopped(end) => Some(end.at),
        State::LeaseExpired => Some(session.lease.expires_at),
        _ => None,
    }
}

fn remove(tx: &rusqlite::Connection, store: &ContentStore, content: &Content) -> Option<u64> {
    match store.remove(tx, &content.sha256) {
        Ok(Removal::Removed(bytes)) => Some(bytes),
        Ok(Removal::Absent | Removal::Held) => None,
        Err(error) => {
            tracing::warn!(%error, "a content could not be removed");
            None
        }
    }
}

impl Plan {
    /// Every session that loses a content.
    fn sessions(&self) -> BTreeSet<&SessionId> {
        self.contents.iter().flat_map(|(_, sessions)| sessions).collect()
    }

    /// What the journal is told before anything is removed.
    fn remarks(&self, older_than: Duration) -> Vec<Remark> {
        let mut sizes: BTreeMap<&SessionId, (u64, u64)> = BTreeMap::new();
        for (content, sessions) in &self.contents {
            for session in sessions {
                let size = sizes.entry(session).or_default();
                *size = (size.0 + 1, size.1 + content.bytes);
            }
        }
        let whole = json!({
            "sessions": sizes.len(),
            "contents": self.contents.len(),
            "bytes": self.contents.iter().map(|(content, _)| content.bytes).sum::<u64>(),
            "unnamed": self.contents.iter().filter(|(_, sessions)| sessions.is_empty()).count(),
            "older_than_seconds": older_than.as_secs(),
        });
        let of_session = |(session, (contents, bytes)): (&SessionId, (u64, u64))| Remark {
            session: Some(session.clone()),
            kind: SESSION_PRUNED,
            body: json!({ "contents": contents, "bytes": bytes }),
        };
        let first = Remark { session: None, kind: STORE_PRUNED, body: whole };
        std::iter::once(first).chain(sizes.into_iter().map(of_session)).collect()
    }
}

impl Meanwhile {
    /// Reads what the journal has had since.
    fn catch_up(&mut self, connection: &rusqlite::Connection) -> Result<(), LedgerError> {
        loop {
            let entries = journal::entries(connection, self.seq + 1, None, ENTRIES)?;
            let Some(last) = entries.last() else { return Ok(()) };
            self.seq = last.seq;
            for entry in entries.into_iter().filter(|entry| entry.kind != SESSION_PRUNED) {
                let body: Value = serde_json::from_str(&entry.body)
                    .map_err(|error| LedgerError::damaged("journal.body", error))?;
                let hashes = ["before", "after"].into_iter().filter_map(|side| body["write"][side].as_str());
                self.named.extend(hashes.map(str::to_owned));
                self.sessions.insert(entry.session_id);
            }
        }
    }

    fn keeps(&self, content: &Content, sessions: &BTreeSet<SessionId>) -> bool {
        self.named.contains(&content.sha256)
            || sessions.iter().any(|session| self.sessions.contains(session.as_str()))
    }
}
