//! Subagents as callers see them, and whether a session may have any.

use std::path::Path;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1;
use rusqlite::Connection;
use serde_json::Value;

use crate::config::DeepseekSettings;
use crate::credential::Credential;
use crate::ledger::LedgerError;
use crate::ledger::subagents::{self, SubagentRow};
use crate::session::{Grade, Profile, Session, SubagentPolicy};

/// How many of a session's subagents its state shows.
const SHOWN: u32 = 16;

/// What the state of a session says of its subagents.
pub(super) struct Shown {
    pub route: Option<v1::DeepseekRoute>,
    pub subsessions: Vec<v1::SubsessionView>,
    pub active: Option<String>,
}

pub(super) fn shown(
    connection: &Connection,
    session: &Session,
    settings: Option<&DeepseekSettings>,
) -> Result<Shown, LedgerError> {
    if session.subagents == SubagentPolicy::None {
        return Ok(Shown { route: None, subsessions: Vec::new(), active: None });
    }
    let name = |grade: Grade| name_of(settings, grade);
    let rows = subagents::latest(connection, &session.id, SHOWN)?;
    Ok(Shown {
        route: settings.map(|_| v1::DeepseekRoute {
            sonnet: name(Grade::Sonnet),
            opus: name(Grade::Opus),
            fable: name(Grade::Fable),
        }),
        subsessions: rows.into_iter().map(|row| subsession(row, settings)).collect(),
        active: session.subagent.as_ref().map(|subagent| subagent.id.to_string()),
    })
}

fn name_of(settings: Option<&DeepseekSettings>, grade: Grade) -> String {
    settings.map(|settings| settings.model(grade.route()).name.clone()).unwrap_or_default()
}

fn subsession(row: SubagentRow, settings: Option<&DeepseekSettings>) -> v1::SubsessionView {
    let grade = Grade::ALL.into_iter().find(|grade| grade.as_str() == row.grade);
    let failure: Option<Value> = row.failure.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let error = failure.and_then(|failure| failure["kind"].as_str().map(str::to_owned));
    v1::SubsessionView {
        subsession_id: row.id,
        status: row.status,
        route: grade.map(|grade| name_of(settings, grade)).unwrap_or_default(),
        grade: row.grade,
        started_by: row.started_by,
        started_at_ms: row.started_at.millis(),
        ended_at_ms: row.ended_at.map(crate::clock::Timestamp::millis),
        model: row.model,
        model_verified: row.model_verified,
        requests: row.requests,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        error,
    }
}

/// Whether a new session may have subagents: only in a worktree, and only if they are switched on.
pub(super) async fn policy(
    asked: v1::SubagentPolicy,
    profile: Profile,
    settings: Option<&DeepseekSettings>,
) -> Result<SubagentPolicy, Spoken> {
    let forbidden = |message: &str, what_to_do: &str| {
        Err(Spoken::new(ErrorCode::ProfileForbids, message, what_to_do).with("field", "subagent_policy"))
    };
    match asked {
        v1::SubagentPolicy::Unspecified | v1::SubagentPolicy::None => return Ok(SubagentPolicy::None),
        v1::SubagentPolicy::DeepseekExplicit => {}
    }
    if profile != Profile::WorktreeWrite {
        return forbidden(
            "subagent_policy deepseek_explicit needs capability_profile worktree_write.",
            "Leave subagent_policy out, or use worktree_write if the user wants an isolated copy of a clean repository.",
        );
    }
    let Some(settings) = settings else {
        return forbidden(
            "The DeepSeek subagent is switched off on this computer.",
            "Leave subagent_policy out. The user can switch it on with deepseek.credential_file in the gateway's configuration.",
        );
    };
    match readable(&settings.credential_file).await {
        Ok(()) => Ok(SubagentPolicy::DeepseekExplicit),
        Err(why) => forbidden(
            &format!("The DeepSeek subagent cannot be used: {why}."),
            "Leave subagent_policy out, or have the user mend deepseek.credential_file.",
        ),
    }
}

async fn readable(path: &Path) -> Result<(), String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || Credential::read(&path).map(drop)).await;
    read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
