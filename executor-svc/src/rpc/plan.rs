//! What a shim is told of its run: the session's own, or its subagent's.

use std::path::PathBuf;
use std::time::Duration;

use gatehouse_proto::ids::RunId;
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1;

use super::refusals::spoken;
use crate::config::VERIFIED_CLAUDE;
use crate::engine::Engine;
use crate::ledger::runs;
use crate::runner::{Runners, claude_binary, folders_of, program_of};
use crate::session::{Refusal, Session};
use crate::tools::{self, Toolset};

/// How long Claude Code may wait for one tool call: above every limit of ours, so that ours decide.
const TOOL_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// What a subagent's Claude Code takes its model for. The provider's own names are the broker's business.
const SUBAGENT_MODEL: &str = "deepseek-subagent";

/// What of a run differs between a session's own and its subagent's.
struct Served {
    ordinal: u32,
    claude_session_id: String,
    tools: Toolset,
    model: String,
}

fn served(session: &Session, run: &RunId) -> Option<Served> {
    if let Some(subagent) = session.subagent_of(run) {
        return Some(Served {
            ordinal: subagent.run.ordinal,
            claude_session_id: subagent.claude_session_id.clone(),
            tools: session.profile.into(),
            model: SUBAGENT_MODEL.to_owned(),
        });
    }
    let own = session.state.run().filter(|own| own.id == *run)?;
    Some(Served {
        ordinal: own.ordinal,
        claude_session_id: session.claude_session_id.clone(),
        tools: Toolset::of(session),
        model: String::new(),
    })
}

/// The plan of a run.
pub(super) async fn of_run(
    engine: &Engine,
    runners: &Runners,
    session: &Session,
    run: &RunId,
) -> Result<v1::RunPlan, Spoken> {
    let settings = engine.settings();
    let served = served(session, run).ok_or_else(|| spoken(Refusal::StaleRunner.into()))?;
    let wanted = run.clone();
    let prompt = engine.read(move |connection| runs::prompt(connection, &wanted)).await;
    let prompt = prompt.map_err(|error| spoken(error.into()))?.unwrap_or_default();
    let program = program_of(settings, session.subagent_of(run));
    let is_verified = program.is_verified;
    let (runners, run_id) = (runners.clone(), run.clone());
    let found = tokio::task::spawn_blocking(move || {
        let binary = claude_binary(&program.candidates)?;
        let shown_before = is_verified && runners.version_shown_before(&run_id, &binary);
        Some((binary, shown_before))
    });
    let (binary, version_shown_before) = found.await.ok().flatten().unzip();
    let folders = folders_of(settings, session, run);
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    Ok(v1::RunPlan {
        run_ordinal: served.ordinal,
        claude_session_id: served.claude_session_id,
        resume: served.ordinal > 1,
        stdin_text: stdin_text(served.ordinal, &prompt),
        claude_binary: binary.map(path).unwrap_or_default(),
        expected_version: if is_verified { VERIFIED_CLAUDE.to_owned() } else { String::new() },
        home_dir: path(folders.home()),
        config_dir: path(folders.config()),
        run_dir: path(folders.run()),
        cwd_dir: path(folders.cwd()),
        tmp_dir: path(folders.tmp()),
        tools: planned_tools(served.tools),
        lease_seconds_left: session.lease.left(engine.now()).as_secs(),
        ping_seconds: u32::try_from(settings.claude.ping_interval.as_secs()).unwrap_or(10),
        tool_timeout_ms: millis(TOOL_TIMEOUT),
        stream_idle_timeout_ms: millis(settings.claude.stream_idle_timeout),
        model: served.model,
        version_shown_before: version_shown_before.unwrap_or_default(),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The marker keeps any first character from meaning something to Claude Code, and equal prompts distinct.
fn stdin_text(ordinal: u32, prompt: &str) -> String {
    format!("[gatehouse run {ordinal}]\n{prompt}")
}

fn planned_tools(set: Toolset) -> Vec<v1::PlannedTool> {
    tools::descriptions(set)
        .into_iter()
        .map(|tool| v1::PlannedTool {
            name: tool.name.as_str().to_owned(),
            description: tool.description.to_owned(),
            input_schema_json: tool.input_schema.to_string(),
            read_only: tool.read_only,
        })
        .collect()
}
