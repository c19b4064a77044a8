//! A surface as the MCP library serves it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use gatehouse_proto::digest::digest;
use gatehouse_proto::refusal::Refusal;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Serving;
use crate::cli::Protocol;
use crate::contact::Contact;
use crate::errors;
use crate::metrics::Metrics;
use crate::surface::{Effect, Surface, ToolOutput, ToolSpec};

/// How many characters of an unknown tool's name are repeated in the error.
const QUOTED: usize = 80;

/// The revisions that a switch offers, oldest first.
pub(super) const fn offered(protocol: Protocol) -> &'static [ProtocolVersion] {
    const ALL: [ProtocolVersion; 3] =
        [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];
    const LEGACY: [ProtocolVersion; 2] = [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];
    match protocol {
        Protocol::All => &ALL,
        Protocol::Legacy => &LEGACY,
    }
}

/// One surface, ready for the library.
#[derive(Clone)]
pub(super) struct Server {
    surface: Surface,
    tools: Arc<[Tool]>,
    config: Arc<ServerConfig>,
    versions: &'static [ProtocolVersion],
    metrics: Arc<Metrics>,
    closing: CancellationToken,
    contact: Contact,
}

impl Server {
    pub(super) fn new(surface: &Surface, serving: &Serving) -> Self {
        let identity = Implementation::new("gatehouse", env!("CARGO_PKG_VERSION")).with_title("Gatehouse");
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(identity)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(surface.instructions);
        let tools: Arc<[Tool]> = surface.tools.iter().map(listed).collect();
        serving.contact.serves(digest(&serde_json::json!(tools.as_ref())));
        Self {
            surface: surface.clone(),
            tools,
            config: Arc::new(config),
            versions: offered(serving.protocol),
            metrics: Arc::clone(&serving.metrics),
            closing: serving.closing.clone(),
            contact: serving.contact.clone(),
        }
    }

    async fn answer(
        &self,
        tool: &str,
        arguments: rmcp::model::JsonObject,
    ) -> Result<CallToolResult, ErrorData> {
        let known = self.surface.tool(tool).map(|spec| spec.name);
        let (Some(name), Some(answer)) = (known, self.surface.handler.call(tool, arguments)) else {
            return Err(self.unknown_tool(tool));
        };
        self.contact.tool(name);
        let (began, answering) = (Instant::now(), self.contact.answering(name));
        let answered = tokio::select! {
            answered = answer => answered,
            () = self.closing.cancelled() => Err(errors::closing()),
        };
        let outcome = answered.as_ref().map_or_else(|refusal| refusal.code.as_str(), |_| "ok");
        self.metrics.tool(name, outcome, began.elapsed());
        answering.ended();
        Ok(match answered {
            Ok(output) => succeeded(output),
            Err(refusal) => self.refused(&refusal),
        })
    }

    fn refused(&self, refusal: &Refusal) -> CallToolResult {
        self.metrics.refusal("tool", refusal.code.as_str());
        self.contact.refused(refusal.code.as_str());
        CallToolResult::error(vec![ContentBlock::text(errors::text(refusal))])
    }

    fn unknown_tool(&self, tool: &str) -> ErrorData {
        self.metrics.refusal("protocol", "unknown_tool");
        self.contact.refused("unknown_tool");
        let shown: String = tool.chars().take(QUOTED).collect();
        let names: Vec<_> = self.tools.iter().map(|tool| tool.name.as_ref()).collect();
        ErrorData::invalid_params(
            format!("Unknown tool: `{shown}`. The tools are {}.", names.join(", ")),
            None,
        )
    }
}

fn succeeded(output: ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(output.text)]);
    result.structured_content = Some(Value::Object(output.structured));
    result
}

fn listed(spec: &ToolSpec) -> Tool {
    let hints = ToolAnnotations::with_title(spec.title)
        .read_only(spec.effect == Effect::ReadOnly)
        .destructive(spec.effect == Effect::Destructive)
        .idempotent(true)
        .open_world(false);
    Tool::new(spec.name, spec.description, Arc::new(spec.input_schema.clone()))
        .with_title(spec.title)
        .with_raw_output_schema(Arc::new(spec.output_schema.clone()))
        .with_annotations(hints)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        (*self.config).clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|page| page.cursor.is_some()) {
            return Err(ErrorData::invalid_params(
                "There is one page of tools; no cursor was given out.",
                None,
            ));
        }
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::select! {
            answered = self.answer(&request.name, request.arguments.unwrap_or_default()) => answered.map(Into::into),
            // Nobody reads the answer any more. What changes something goes on without us.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the client went away", None)),
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    /// Only known methods get this far: this is one whose parameters the library could not read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let what = format!(
            "The parameters of `{}` do not have the form that the protocol gives them.",
            request.method
        );
        Err(ErrorData::new(ErrorCode::INVALID_PARAMS, what, None))
    }
}
