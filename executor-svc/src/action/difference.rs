//! What a write changed, as a whole, from what was kept.

use gatehouse_proto::ids::{SessionId, ToolCallId};

use super::operation::{OperationFault, Subject};
use super::{Actions, blocking};
use crate::content::ContentStore;
use crate::files::replace::{After, Before};
use crate::ledger::actions::ActionRow;
use crate::tools::{change, diff};

/// What the difference takes at most, in bytes: it travels in one message.
const ROOM: usize = 6 * 1024 * 1024;

/// What a write changed.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The action.
    pub row: ActionRow,
    /// Whether nobody can tell if it was made.
    pub uncertain: bool,
    /// The file.
    pub path: std::path::PathBuf,
    /// Hash and size before; `None` if there was no file.
    pub before: Option<(String, u64)>,
    /// Hash and size after; `None` if the file was removed.
    pub after: Option<(String, u64)>,
    /// Line by line; `None` if one of the two is no text.
    pub lines: Option<diff::Diff>,
    /// What the lines do not show.
    pub note: Option<String>,
}

impl Actions {
    /// What a write changed, or was about to.
    ///
    /// # Errors
    /// When the session has no such action, it wrote nothing, or what it wrote is not kept any more.
    pub async fn difference(
        &self,
        session: &SessionId,
        action: &ToolCallId,
    ) -> Result<Difference, OperationFault> {
        let subject = self.subject(session, action).await?;
        let content = self.workshop.content.clone();
        blocking(move || of(&content, subject)).await?
    }
}

fn of(content: &ContentStore, subject: Subject) -> Result<Difference, OperationFault> {
    let Subject { session, id, row, intent } = subject;
    let get = |sha256: Option<&str>| sha256.map(|sha256| content.get(sha256)).transpose();
    let (before, after) = (get(intent.before.sha256())?, get(intent.after.sha256())?);
    let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
    let lines = (change::is_text(old) && change::is_text(new))
        .then(|| diff::unified_whole(&change::comparable(old), &change::comparable(new), ROOM));
    let note = match &lines {
        None => Some("One of the two is no UTF-8 text.".to_owned()),
        Some(_) if before.is_some() && after.is_some() => change::form_note(old, new),
        Some(_) => None,
    };
    let size = |sha256: &String, bytes: &u64| (sha256.clone(), *bytes);
    Ok(Difference {
        uncertain: session.uncertain.contains(&id),
        row,
        path: intent.path,
        before: match &intent.before {
            Before::Absent => None,
            Before::File { sha256, bytes, .. } => Some(size(sha256, bytes)),
        },
        after: match &intent.after {
            After::Absent => None,
            After::File { sha256, bytes } => Some(size(sha256, bytes)),
        },
        lines,
        note,
    })
}
