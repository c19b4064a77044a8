//! The MCP server that Claude Code's tool calls go to. The one module that knows the MCP library.
//!
//! A call is performed only if it is the very action that the executor authorised: Claude Code names it by the id of the
//! model's `tool_use` block, which the executor minted (see [`crate::binding`] for when it does not), and the executor
//! compares name and input. What comes back is the executor's short result, unchanged.

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use gatehouse_proto::digest;
use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1::{InvokeToolReply, InvokeToolRequest};
use http::StatusCode;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

use crate::binding::Binding;
use crate::gate::{self, Gate};
use crate::link::{Link, Refused};
use crate::messages::api_error;
use crate::plan::{self, Access, SERVER_NAME};

/// Where Claude Code says which call this is.
const CALL_ID: &str = "claudecode/toolUseId";

/// How many characters of a result Claude Code takes whole; above that it would put a file's name in its place.
const MAX_RESULT_CHARS: u32 = 200_000;

/// Between two progress notifications. Claude Code gives a call up after 300 s without one, whatever else is sent.
const PROGRESS: Duration = Duration::from_secs(10);

/// The largest request, in bytes: a call's input is at most one reply large.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The routes of the tools port.
pub fn router(link: Link, binding: Binding, tools: &[plan::Tool], gate: Gate) -> Router {
    let handler = Handler { link, binding, tools: tools.iter().map(advertised).collect() };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(["127.0.0.1"])
        .with_max_request_body_bytes(MAX_BODY);
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route_service("/mcp", service)
        .fallback(|| async { api_error(StatusCode::NOT_FOUND, "not_found_error", "there is nothing here") })
        .layer(middleware::from_fn_with_state(Arc::new(gate), gate::check))
}

fn advertised(tool: &plan::Tool) -> Tool {
    let schema = Arc::new(tool.input_schema.clone());
    let mut advertised = Tool::new(tool.name.clone(), tool.description.clone(), schema)
        .with_annotations(ToolAnnotations::new().read_only(tool.access == Access::ReadOnly));
    let mut meta = JsonObject::new();
    meta.insert("anthropic/maxResultSizeChars".into(), json!(MAX_RESULT_CHARS));
    advertised.meta = Some(MetaObject(meta));
    advertised
}

#[derive(Clone)]
struct Handler {
    link: Link,
    binding: Binding,
    tools: Arc<[Tool]>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION"));
        config
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.tools.to_vec(), ..ListToolsResult::default() })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let request = self.bound_call(params, context.meta.0.0.get(CALL_ID))?;
        let progress = keep_alive(context.peer.clone(), context.meta.get_progress_token());
        tokio::select! {
            answer = self.link.invoke_tool(request) => Ok(result(answer).into()),
            never = progress => match never {},
            // Claude Code is not waiting any more. The action itself goes its way in the executor.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

impl Handler {
    /// The call as the executor is asked for it.
    fn bound_call(
        &self,
        params: CallToolRequestParams,
        call_id: Option<&Value>,
    ) -> Result<InvokeToolRequest, ErrorData> {
        if self.get_tool(&params.name).is_none() {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        }
        let named = call_id.and_then(Value::as_str).and_then(|text| text.parse::<ToolCallId>().ok());
        let input_sha256 = digest::digest(&Value::Object(params.arguments.unwrap_or_default()));
        let tool_call_id = self
            .binding
            .resolve(named, &params.name, &input_sha256)
            .ok_or_else(|| ErrorData::invalid_params("the call names no action", None))?;
        Ok(InvokeToolRequest { tool_call_id, name: params.name.into_owned(), input_sha256 })
    }
}

fn result(answer: Result<InvokeToolReply, Refused>) -> CallToolResult {
    let (ok, text) = match answer {
        Ok(reply) => (reply.ok, reply.short_result),
        Err(refused) => (false, refused.to_string()),
    };
    let content = vec![ContentBlock::text(text)];
    if ok { CallToolResult::success(content) } else { CallToolResult::error(content) }
}

/// Says at each interval that the call still runs, if Claude Code asked to be told.
async fn keep_alive(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> std::convert::Infallible {
    let Some(token) = token else {
        return std::future::pending().await;
    };
    let mut seconds = 0;
    loop {
        tokio::time::sleep(PROGRESS).await;
        seconds += PROGRESS.as_secs();
        let said = ProgressNotificationParam::new(
            token.clone(),
            f64::from(u32::try_from(seconds).unwrap_or(u32::MAX)),
        );
        // Fails when the client is gone; the call is cancelled then.
        let _ = peer.notify_progress(said).await;
    }
}

#[cfg(test)]
mod tests;
