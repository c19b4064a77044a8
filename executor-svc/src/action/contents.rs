//! Whether every content that a write's receipt names is kept, and is what its name says.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use super::{Actions, blocking};
use crate::clock::Timestamp;
use crate::content::{ContentFault, ContentStore};
use crate::engine::Fault;
use crate::ledger::LedgerError;
use crate::ledger::contents::{self, Named};

/// How many problems are told in words.
const TOLD: usize = 20;

/// What [`Actions::check_contents`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentCheck {
    /// Contents that are kept and are what they should be.
    pub whole: u64,
    /// Contents that only pruned sessions name, and that are gone.
    pub pruned: u64,
    /// How many problems there are.
    pub faults: u64,
    /// The first of them, a sentence each.
    pub told: Vec<String>,
}

/// Who names a content first, and whether it has to be there.
#[derive(Debug)]
struct Claim {
    action: String,
    needed: bool,
}

impl Actions {
    /// Reads every content that the ledger names and holds it against its hash, and every receipt against its own.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn check_contents(&self) -> Result<ContentCheck, Fault> {
        // What is pruned meanwhile would seem to be missing.
        let _alone = self.pruning.lock().await;
        let claims = self.engine.read_long(gather).await?;
        let content = self.workshop.content.clone();
        blocking(move || examine(&content, claims)).await
    }
}

/// The same for a ledger that nobody serves.
///
/// # Errors
/// When the ledger cannot be read.
pub fn check_contents(connection: &Connection, content: &ContentStore) -> Result<ContentCheck, LedgerError> {
    Ok(examine(content, gather(connection)?))
}

/// The contents that are named, and the actions whose receipts are not what was recorded.
type Claims = (BTreeMap<String, Claim>, Vec<String>);

fn gather(connection: &Connection) -> Result<Claims, LedgerError> {
    let pruned = contents::pruned(connection)?;
    let mut claims = BTreeMap::new();
    contents::each(connection, |named| claim(&mut claims, &pruned, named))?;
    Ok((claims, contents::wrong_receipts(connection)?))
}

fn examine(content: &ContentStore, (claims, wrong): Claims) -> ContentCheck {
    let mut check = ContentCheck::default();
    for action in wrong {
        check.fault(format!("The receipt of action {action} is not what was recorded."));
    }
    for (sha256, claim) in claims {
        check.look(content, &sha256, &claim);
    }
    check
}

fn claim(claims: &mut BTreeMap<String, Claim>, pruned: &HashMap<String, Timestamp>, named: Named) {
    let needed = pruned.get(&named.session).is_none_or(|at| named.at > *at);
    for sha256 in named.contents.into_iter().flatten() {
        let claim = claims.entry(sha256).or_insert_with(|| Claim { action: named.action.clone(), needed });
        if needed && !claim.needed {
            *claim = Claim { action: named.action.clone(), needed };
        }
    }
}

impl ContentCheck {
    fn look(&mut self, content: &ContentStore, sha256: &str, claim: &Claim) {
        match content.get(sha256) {
            Ok(_) => self.whole += 1,
            Err(ContentFault::Missing { .. }) if !claim.needed => self.pruned += 1,
            Err(fault) => self.fault(format!("Of action {}: {fault}.", claim.action)),
        }
    }

    fn fault(&mut self, what: String) {
        self.faults += 1;
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }
}
