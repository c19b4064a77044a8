//! The `native` surface: exactly six tools that drive one local Claude Code session whose only model is ChatGPT.
//!
//! One file per tool: what it is shown as, and how its arguments become a gRPC request. [`output`] holds the one schema
//! of all results and the way from a gRPC reply to one, [`summary`] the short text beside it.

use std::sync::Arc;

use gatehouse_proto::refusal::Refusal;
use serde_json::{Map, Value};

use super::{Answer, Handler, Surface, ToolOutput, ToolSpec};
use crate::cli::TextMirror;
use crate::executor::{Call, Executor};
use crate::waits::Waits;

mod continue_session;
mod fields;
mod input;
mod instructions;
mod output;
mod recover;
mod reply;
mod schema;
mod start;
mod status;
mod stop;
mod summary;
#[cfg(test)]
mod tests;

/// The endpoint's path.
pub const PATH: &str = "/mcp";

/// How one tool is shown and read.
struct Tool {
    spec: fn() -> ToolSpec,
    read: fn(Map<String, Value>) -> Result<Call, Refusal>,
}

/// The six, in the order in which they are listed.
const TOOLS: [Tool; 6] = [
    Tool { spec: start::spec, read: start::read },
    Tool { spec: continue_session::spec, read: continue_session::read },
    Tool { spec: recover::spec, read: recover::read },
    Tool { spec: reply::spec, read: reply::read },
    Tool { spec: status::spec, read: status::read },
    Tool { spec: stop::spec, read: stop::read },
];

/// The surface, answered by `executor`.
#[must_use]
pub fn surface(executor: Executor, waits: Waits, text_mirror: TextMirror) -> Surface {
    let tools: Arc<[ToolSpec]> = TOOLS.iter().map(|tool| (tool.spec)()).collect();
    let readers = tools.iter().map(|spec| spec.name).zip(TOOLS.iter().map(|tool| tool.read)).collect();
    Surface {
        name: "native",
        path: PATH,
        instructions: instructions::INSTRUCTIONS,
        tools,
        handler: Arc::new(Native { readers, executor, waits, text_mirror }),
    }
}

type Reader = fn(Map<String, Value>) -> Result<Call, Refusal>;

struct Native {
    readers: Vec<(&'static str, Reader)>,
    executor: Executor,
    waits: Waits,
    text_mirror: TextMirror,
}

impl Handler for Native {
    fn call<'a>(&'a self, tool: &'a str, arguments: Map<String, Value>) -> Option<Answer<'a>> {
        let (_, read) = self.readers.iter().find(|(name, _)| *name == tool)?;
        Some(Box::pin(self.answer(*read, arguments)))
    }
}

impl Native {
    async fn answer(&self, read: Reader, arguments: Map<String, Value>) -> Result<ToolOutput, Refusal> {
        let call = read(arguments)?;
        let made_here = matches!(call, Call::Start(_));
        let granted = self.waits.grant(call.wait());
        let reply = self.executor.call(call, granted.wait).await?;
        drop(granted);
        let structured =
            output::render(&reply, if made_here { output::Token::Given } else { output::Token::Withheld })?;
        let text = match self.text_mirror {
            TextMirror::Summary => summary::text(&structured),
            TextMirror::Full => Value::Object(structured.clone()).to_string(),
        };
        Ok(ToolOutput { structured, text })
    }
}
