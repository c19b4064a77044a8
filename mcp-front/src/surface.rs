//! Surfaces: a path, the tools that stand there, and who answers them. Nothing here knows the MCP library.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gatehouse_proto::refusal::Refusal;
use serde_json::{Map, Value};

pub mod native;

/// What a tool does to the world, as its hints tell the client. Every tool here is idempotent and stays on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Adds something; takes nothing away.
    Additive,
    /// May end or overwrite something.
    Destructive,
}

/// A tool as it is listed.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name it is called by.
    pub name: &'static str,
    /// The name that a person reads.
    pub title: &'static str,
    /// When and how to call it.
    pub description: &'static str,
    /// What it may do.
    pub effect: Effect,
    /// The arguments it takes.
    pub input_schema: Map<String, Value>,
    /// What its structured result looks like.
    pub output_schema: Map<String, Value>,
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// One JSON object that fits the tool's output schema.
    pub structured: Map<String, Value>,
    /// The same for readers of text.
    pub text: String,
}

/// A tool's answer, whenever it is there.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, Refusal>> + Send + 'a>>;

/// Who answers a surface's tools.
pub trait Handler: Send + Sync {
    /// Calls a tool. `None`: this surface has no tool of that name.
    fn call<'a>(&'a self, tool: &'a str, arguments: Map<String, Value>) -> Option<Answer<'a>>;
}

/// A set of tools at a path.
#[derive(Clone)]
pub struct Surface {
    /// The name in logs and metrics.
    pub name: &'static str,
    /// The path of the HTTP endpoint.
    pub path: &'static str,
    /// What the client's model is told about the set as a whole.
    pub instructions: &'static str,
    /// The tools, in the order in which they are listed.
    pub tools: Arc<[ToolSpec]>,
    /// Who answers them.
    pub handler: Arc<dyn Handler>,
}

impl Surface {
    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl std::fmt::Debug for Surface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surface").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}

/// All surfaces that are served. The first is the one that stdio speaks.
#[derive(Debug, Clone)]
pub struct Registry(Arc<[Surface]>);

impl Registry {
    /// A registry with one surface.
    #[must_use]
    pub fn of(surface: Surface) -> Self {
        Self(Arc::new([surface]))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Surface] {
        &self.0
    }
}
