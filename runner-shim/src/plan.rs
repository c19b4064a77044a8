//! The plan of a run, checked.

use std::path::PathBuf;
use std::time::Duration;

use gatehouse_proto::v1;
use serde_json::{Map, Value};

/// The name of our MCP server inside Claude Code, and so the prefix of every tool's name there.
pub const SERVER_NAME: &str = "gatehouse";

/// The model name that is asked for unless the executor says another; it means ChatGPT.
const MODEL: &str = "chatgpt-main";

/// What a tool is called inside Claude Code.
pub fn claude_tool_name(logical: &str) -> String {
    format!("mcp__{SERVER_NAME}__{logical}")
}

/// What is wrong with a plan.
#[derive(Debug, thiserror::Error)]
#[error("the executor's plan is unusable: {what}")]
pub struct BadPlan {
    what: &'static str,
}

/// Whether Claude Code begins its session or goes on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStart {
    /// `--session-id`.
    New,
    /// `--resume`.
    Resume,
}

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Claude Code may call it beside others.
    ReadOnly,
    /// One after the other.
    Writes,
}

/// A tool that Claude Code is offered.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its logical name.
    pub name: String,
    /// For the model; Claude Code repeats it in each request.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Map<String, Value>,
    /// Whether it changes anything.
    pub access: Access,
}

/// Directories of the run, all private to it or its session.
#[derive(Debug, Clone)]
pub struct Directories {
    /// HOME.
    pub home: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub config: PathBuf,
    /// The shim's own files.
    pub run: PathBuf,
    /// The working directory, empty.
    pub cwd: PathBuf,
    /// TMPDIR.
    pub tmp: PathBuf,
}

impl Directories {
    /// All of them.
    pub fn all(&self) -> [&PathBuf; 5] {
        [&self.home, &self.config, &self.run, &self.cwd, &self.tmp]
    }
}

/// When Claude Code's version is looked at. The init line is compared in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionCheck {
    /// `--version` is asked first: a wrong version is named before it gets options that it may not know.
    BeforeLaunch,
    /// This very file has shown its version in an earlier run.
    InitLineOnly,
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The run's number in its session; stands in the marker of the prompt.
    pub ordinal: u32,
    /// The id that Claude Code's session has or gets.
    pub claude_session_id: String,
    /// Begin or go on.
    pub start: SessionStart,
    /// The model name that Claude Code is started with.
    pub model: String,
    /// Marker and prompt.
    pub stdin_text: String,
    /// Claude Code's executable.
    pub binary: PathBuf,
    /// What `--version` and the init line must say; `None`: anything.
    pub expected_version: Option<String>,
    /// Whether `--version` is asked before the launch.
    pub version_check: VersionCheck,
    /// Where it lives.
    pub directories: Directories,
    /// What it may call.
    pub tools: Vec<Tool>,
    /// Between two signs of life on an open answer.
    pub ping: Duration,
    /// `MCP_TOOL_TIMEOUT`, milliseconds.
    pub tool_timeout_ms: u64,
    /// `CLAUDE_STREAM_IDLE_TIMEOUT_MS`, milliseconds.
    pub stream_idle_timeout_ms: u64,
}

/// JavaScript timers hold no more than this; anything larger fires at once.
const LONGEST_TIMER_MS: u64 = 2_147_483_647;

impl TryFrom<v1::RunPlan> for Plan {
    type Error = BadPlan;

    fn try_from(plan: v1::RunPlan) -> Result<Self, BadPlan> {
        let [binary, home, config, run, cwd, tmp] =
            [plan.claude_binary, plan.home_dir, plan.config_dir, plan.run_dir, plan.cwd_dir, plan.tmp_dir]
                .map(PathBuf::from);
        let directories = Directories { home, config, run, cwd, tmp };
        if !binary.is_absolute() || !directories.all().into_iter().all(|path| path.is_absolute()) {
            return Err(BadPlan { what: "a path is not absolute" });
        }
        if uuid::Uuid::parse_str(&plan.claude_session_id).is_err() {
            return Err(BadPlan { what: "the session id is not a UUID" });
        }
        let model = if plan.model.is_empty() { MODEL.to_owned() } else { plan.model };
        if !model.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(BadPlan { what: "the model's name is not plain" });
        }
        Ok(Self {
            ordinal: plan.run_ordinal,
            model,
            claude_session_id: plan.claude_session_id,
            start: if plan.resume { SessionStart::Resume } else { SessionStart::New },
            stdin_text: plan.stdin_text,
            binary,
            expected_version: Some(plan.expected_version).filter(|text| !text.is_empty()),
            version_check: if plan.version_shown_before {
                VersionCheck::InitLineOnly
            } else {
                VersionCheck::BeforeLaunch
            },
            directories,
            tools: plan.tools.into_iter().map(Tool::try_from).collect::<Result<_, _>>()?,
            ping: Duration::from_secs(plan.ping_seconds.clamp(1, 60).into()),
            tool_timeout_ms: plan.tool_timeout_ms.min(LONGEST_TIMER_MS),
            stream_idle_timeout_ms: plan.stream_idle_timeout_ms.min(LONGEST_TIMER_MS),
        })
    }
}

impl TryFrom<v1::PlannedTool> for Tool {
    type Error = BadPlan;

    fn try_from(tool: v1::PlannedTool) -> Result<Self, BadPlan> {
        let plain = !tool.name.is_empty()
            && tool.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !plain {
            return Err(BadPlan { what: "a tool's name is not plain" });
        }
        let input_schema = serde_json::from_str(&tool.input_schema_json)
            .map_err(|_| BadPlan { what: "a tool's schema is no JSON object" })?;
        let access = if tool.read_only { Access::ReadOnly } else { Access::Writes };
        Ok(Self { name: tool.name, description: tool.description, input_schema, access })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn proto() -> v1::RunPlan {
        v1::RunPlan {
            run_ordinal: 1,
            claude_session_id: "1df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e".into(),
            stdin_text: "[gatehouse run 1]\nhello".into(),
            claude_binary: "/opt/claude".into(),
            home_dir: "/s/home".into(),
            config_dir: "/s/config".into(),
            run_dir: "/s/run".into(),
            cwd_dir: "/s/cwd".into(),
            tmp_dir: "/s/tmp".into(),
            tools: vec![
                v1::PlannedTool {
                    name: "Read".into(),
                    input_schema_json: "{}".into(),
                    read_only: true,
                    ..Default::default()
                },
                v1::PlannedTool { name: "Edit".into(), input_schema_json: "{}".into(), ..Default::default() },
            ],
            tool_timeout_ms: 600_000,
            stream_idle_timeout_ms: u64::MAX,
            ..Default::default()
        }
    }

    pub(crate) fn plan() -> Plan {
        Plan::try_from(proto()).unwrap()
    }

    #[test]
    fn a_plan_is_taken_with_its_bounds() {
        let plan = plan();
        assert_eq!(plan.start, SessionStart::New);
        assert_eq!((plan.expected_version, plan.model.as_str()), (None, "chatgpt-main"));
        assert_eq!(plan.ping, Duration::from_secs(1));
        assert_eq!(plan.stream_idle_timeout_ms, LONGEST_TIMER_MS);
        assert_eq!(plan.tools[0].access, Access::ReadOnly);
    }

    #[test]
    fn an_unusable_plan_is_refused() {
        let bad: [fn(&mut v1::RunPlan); 6] = [
            |plan| plan.model = "a b".into(),
            |plan| plan.home_dir = "relative".into(),
            |plan| plan.claude_binary = String::new(),
            |plan| plan.claude_session_id = "--resume".into(),
            |plan| plan.tools[0].name = "a b".into(),
            |plan| plan.tools[0].input_schema_json = "[]".into(),
        ];
        for change in bad {
            let mut plan = proto();
            change(&mut plan);
            assert!(Plan::try_from(plan).is_err());
        }
    }
}
