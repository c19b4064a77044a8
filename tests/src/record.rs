//! Everything that left the gateway during a test, by the way it took.

use std::sync::{Arc, Mutex, PoisonError};

use gatehouse::chatgpt::Tap;

/// The way an output took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// An answer over MCP.
    Mcp,
    /// An answer of the operator service.
    Operator,
    /// Output of the command line.
    Cli,
    /// A log.
    Log,
}

/// One piece of output.
#[derive(Debug, Clone)]
pub struct Piece {
    /// How it left.
    pub way: Way,
    /// What it was.
    pub text: String,
}

/// The record of one test; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<Vec<Piece>>>);

impl Record {
    /// Adds a piece.
    pub fn add(&self, way: Way, text: impl Into<String>) {
        let piece = Piece { way, text: text.into() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }

    /// A tap for an MCP client.
    #[must_use]
    pub fn tap(&self) -> Tap {
        let record = self.clone();
        Tap::new(move |bytes| record.add(Way::Mcp, String::from_utf8_lossy(bytes)))
    }

    /// All pieces so far.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
