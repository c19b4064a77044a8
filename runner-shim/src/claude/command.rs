//! The command line and the whole environment of Claude Code.

use std::ffi::OsString;
use std::path::Path;

use gatehouse_sandbox::launch::{LaunchRequest, Limits, Policy, ProcessGroup};

use crate::plan::{Plan, SessionStart, claude_tool_name};
use crate::ports::Ports;

/// Longer than any turn: 24 hours, in milliseconds.
const REQUEST_TIMEOUT_MS: &str = "86400000";

/// `claude --version`.
pub(super) fn version(plan: &Plan) -> LaunchRequest {
    launch(plan, vec!["--version".into()], home(plan))
}

/// The run. The prompt is not here: it comes on standard input, where no first character means anything.
pub(super) fn run(plan: &Plan, begin: SessionStart, mcp_config: &Path, ports: &Ports) -> LaunchRequest {
    let mut env = home(plan);
    let (port, key) = &ports.messages;
    env.extend([
        ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}").into()),
        ("ANTHROPIC_API_KEY", key.reveal().into()),
        ("API_TIMEOUT_MS", REQUEST_TIMEOUT_MS.into()),
        ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", plan.stream_idle_timeout_ms.to_string().into()),
        ("MCP_TOOL_TIMEOUT", plan.tool_timeout_ms.to_string().into()),
    ]);
    launch(plan, arguments(plan, begin, mcp_config), env)
}

fn arguments(plan: &Plan, begin: SessionStart, mcp_config: &Path) -> Vec<OsString> {
    let session = match begin {
        SessionStart::New => "--session-id",
        SessionStart::Resume => "--resume",
    };
    let mut arguments: Vec<OsString> =
        ["--bare", "-p", session, &plan.claude_session_id].map(OsString::from).to_vec();
    arguments.extend(["--mcp-config".into(), mcp_config.into()]);
    arguments.extend(["--strict-mcp-config", "--setting-sources", "", "--tools", ""].map(OsString::from));
    if !plan.tools.is_empty() {
        arguments.push("--allowedTools".into());
        arguments.extend(plan.tools.iter().map(|tool| OsString::from(claude_tool_name(&tool.name))));
    }
    let rest = ["--disable-slash-commands", "--permission-mode", "dontAsk", "--output-format", "stream-json"];
    arguments.extend(rest.map(OsString::from));
    arguments.extend(["--verbose", "--model", &plan.model].map(OsString::from));
    arguments
}

type Env = Vec<(&'static str, OsString)>;

fn home(plan: &Plan) -> Env {
    let dirs = &plan.directories;
    vec![
        ("HOME", dirs.home.clone().into()),
        ("CLAUDE_CONFIG_DIR", dirs.config.clone().into()),
        ("TMPDIR", dirs.tmp.clone().into()),
        ("CLAUDE_CODE_TMPDIR", dirs.tmp.clone().into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
    ]
}

fn launch(plan: &Plan, arguments: Vec<OsString>, env: Env) -> LaunchRequest {
    LaunchRequest {
        argv: std::iter::once(plan.binary.clone().into()).chain(arguments).collect(),
        cwd: plan.directories.cwd.clone().into(),
        env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Claude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Secret;
    use crate::plan::tests::plan;

    fn ports() -> Ports {
        Ports { messages: (1111, Secret::mint().unwrap()), tools: (2222, Secret::mint().unwrap()) }
    }

    fn argv(plan: &Plan) -> Vec<String> {
        let request = run(plan, plan.start, Path::new("/s/run/mcp.json"), &ports());
        request.argv.into_iter().map(|text| text.into_string().unwrap()).collect()
    }

    #[test]
    fn the_command_line_is_this_one() {
        let expected = "/opt/claude|--bare|-p|--session-id|1df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e|--mcp-config|/s/run/mcp.json|\
            --strict-mcp-config|--setting-sources||--tools||--allowedTools|mcp__gatehouse__Read|mcp__gatehouse__Edit|\
            --disable-slash-commands|--permission-mode|dontAsk|--output-format|stream-json|--verbose|--model|chatgpt-main";
        assert_eq!(argv(&plan()).join("|"), expected);
    }

    #[test]
    fn a_session_is_resumed_by_its_id_and_no_tools_means_none_allowed() {
        let plan = Plan { start: SessionStart::Resume, tools: Vec::new(), ..plan() };
        assert_eq!(argv(&plan)[3..5], ["--resume", "1df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e"]);
        assert!(!argv(&plan).contains(&"--allowedTools".to_owned()));
    }

    #[test]
    fn the_environment_is_this_one_and_has_no_path() {
        let ports = ports();
        let request = run(&plan(), SessionStart::New, Path::new("/s/run/mcp.json"), &ports);
        let names: Vec<&str> = request.env.keys().map(String::as_str).collect();
        let expected = "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL API_TIMEOUT_MS CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC \
            CLAUDE_CODE_TMPDIR CLAUDE_CONFIG_DIR CLAUDE_STREAM_IDLE_TIMEOUT_MS DISABLE_AUTOUPDATER HOME MCP_TOOL_TIMEOUT TMPDIR";
        assert_eq!(names.join(" "), expected);
        assert_eq!(request.env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:1111");
        assert_eq!(request.env["MCP_TOOL_TIMEOUT"], "600000");
        assert_eq!((request.cwd, request.policy), ("/s/cwd".into(), Policy::Claude));
        // The tools port's secret is in a file of the run, not in the environment.
        let tools_secret = ports.tools.1.reveal();
        assert!(request.env.values().all(|value| value != tools_secret));
        assert!(request.argv.iter().all(|text| text != tools_secret && text != ports.messages.1.reveal()));
    }
}
