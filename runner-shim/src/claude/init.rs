//! The first line that Claude Code prints says how it is set up. It must be what was asked for, to the letter: a setting
//! from elsewhere that adds a tool, a server or another model must end the run before anything is asked of anybody.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::plan::{Plan, SERVER_NAME, claude_tool_name};

/// The `system`/`init` line, as far as it is checked.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InitLine {
    session_id: String,
    tools: Vec<String>,
    mcp_servers: Vec<Server>,
    model: String,
    #[serde(rename = "permissionMode")]
    permission_mode: String,
    #[serde(rename = "apiKeySource")]
    api_key_source: String,
    slash_commands: Vec<String>,
    skills: Vec<String>,
    plugins: Vec<serde_json::Value>,
    claude_code_version: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Server {
    name: String,
    status: String,
}

impl InitLine {
    /// Names everything that is not as asked.
    ///
    /// # Errors
    /// With what differs.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let expected: BTreeSet<String> = plan.tools.iter().map(|tool| claude_tool_name(&tool.name)).collect();
        let found: BTreeSet<String> = self.tools.iter().cloned().collect();
        let version = |expected: &String| *expected == self.claude_code_version;
        let server = [Server { name: SERVER_NAME.into(), status: "connected".into() }];
        let checks = [
            ("version", plan.expected_version.as_ref().is_none_or(version)),
            ("session id", self.session_id == plan.claude_session_id),
            ("tools", found == expected && self.tools.len() == expected.len()),
            ("MCP servers", self.mcp_servers == server),
            ("model", self.model == plan.model),
            ("permission mode", self.permission_mode == "dontAsk"),
            ("source of the API key", self.api_key_source == "ANTHROPIC_API_KEY"),
            ("slash commands", self.slash_commands.is_empty()),
            ("skills", self.skills.is_empty()),
            ("plugins", self.plugins.is_empty()),
        ];
        let wrong: Vec<&str> = checks.iter().filter(|(_, good)| !good).map(|(name, _)| *name).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("not as asked for: {}", wrong.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::tests::plan;

    /// As Claude Code 2.1.247 prints it.
    fn line() -> Value {
        json!({"type": "system", "subtype": "init", "cwd": "/s/cwd", "session_id": "1df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e",
            "tools": ["mcp__gatehouse__Edit", "mcp__gatehouse__Read"],
            "mcp_servers": [{"name": "gatehouse", "status": "connected"}], "model": "chatgpt-main",
            "permissionMode": "dontAsk", "slash_commands": [], "apiKeySource": "ANTHROPIC_API_KEY",
            "claude_code_version": "2.1.247", "output_style": "default", "agents": ["claude"], "skills": [], "plugins": []})
    }

    fn check(line: Value) -> Result<(), String> {
        let plan = Plan { expected_version: Some("2.1.247".into()), ..plan() };
        serde_json::from_value::<InitLine>(line).unwrap().check(&plan)
    }

    #[test]
    fn the_line_of_a_good_start_passes() {
        assert_eq!(check(line()), Ok(()));
    }

    #[test]
    fn everything_that_differs_is_named() {
        let cases = [
            ("claude_code_version", json!("2.1.248"), "version"),
            ("session_id", json!("2df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e"), "session id"),
            ("tools", json!(["mcp__gatehouse__Read"]), "tools"),
            ("tools", json!(["mcp__gatehouse__Edit", "mcp__gatehouse__Read", "Bash"]), "tools"),
            (
                "tools",
                json!(["mcp__gatehouse__Edit", "mcp__gatehouse__Read", "mcp__gatehouse__Read"]),
                "tools",
            ),
            ("mcp_servers", json!([{"name": "gatehouse", "status": "failed"}]), "MCP servers"),
            ("mcp_servers", json!([]), "MCP servers"),
            ("model", json!("claude-opus"), "model"),
            ("permissionMode", json!("bypassPermissions"), "permission mode"),
            ("apiKeySource", json!("/login managed key"), "source of the API key"),
            ("slash_commands", json!(["help"]), "slash commands"),
            ("skills", json!(["x"]), "skills"),
            ("plugins", json!([{"name": "x"}]), "plugins"),
        ];
        for (field, value, name) in cases {
            let mut line = line();
            line[field] = value;
            assert_eq!(check(line), Err(format!("not as asked for: {name}")));
        }
        assert!(check(json!({})).unwrap_err().contains("tools, MCP servers, model"));
    }
}
