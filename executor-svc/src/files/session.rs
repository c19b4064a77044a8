//! What a session keeps between its file tools: its root, the rules, and what is known of the root's hard links.

use std::sync::Arc;

use super::policy::FilePolicy;
use super::root::Root;

/// A session's view of the file system. Made once for each session and shared by its actions.
#[derive(Debug)]
pub struct SessionFiles {
    root: Root,
    policy: Arc<FilePolicy>,
}

impl SessionFiles {
    /// A view from this root under these rules.
    #[must_use]
    pub const fn new(root: Root, policy: Arc<FilePolicy>) -> Self {
        Self { root, policy }
    }

    /// The working directory.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Arc<FilePolicy> {
        &self.policy
    }
}
