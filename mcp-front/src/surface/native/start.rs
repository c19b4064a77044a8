//! `native_session_start`.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::skill::{MAX_SKILLS, MAX_TEXT};
use gatehouse_proto::v1::{CapabilityProfile, SkillContext, StartRequest, SubagentPolicy};
use serde_json::{Map, Value};

use super::fields::{IDEMPOTENCY_KEY, PROMPT, WAIT_FOR_FIRST_TURN};
use super::input::{Arguments, ChoiceField, Limits, ListField, TextField, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};

const NAME: &str = "native_session_start";
const DESCRIPTION: &str = "\
Start a new local Claude Code session on the user's computer. You, ChatGPT, are its sole main model: the result brings, \
usually at once, its first pending_turn, which you answer with native_session_reply_and_wait. Choose capability_profile \
by what the user asked for: read_only (the default) unless the user asked for changes; direct_write only when the user \
explicitly asked to change the actual files in working_directory, Git or not; worktree_write only for an isolated copy \
of a clean Git repository. deepseek_explicit only with worktree_write. The profile cannot be changed later. Keep \
native_session_id and lease_id, and keep recovery_token: no later result repeats it. For a further task in the same \
session call native_session_continue instead. If the answer is lost, call again with the same idempotency_key and \
arguments: no second session is made.";

const WORKING_DIRECTORY: TextField = TextField {
    name: "working_directory",
    description: "The absolute path of an existing directory on the user's computer: where the session looks first, \
                  where commands run and, in the write profiles, the only place that can be written.",
    limits: Limits::Bytes(1, 4096),
};

const PROFILE: ChoiceField<CapabilityProfile> = ChoiceField {
    name: "capability_profile",
    description: "What the session may do, for good. read_only: read and search the computer, run commands that change \
                  nothing. direct_write: also change the actual files below working_directory; only if the user \
                  explicitly asked for that. worktree_write: change only an isolated Git worktree that is made from \
                  working_directory, which must be the top of a clean repository.",
    words: &[
        ("read_only", CapabilityProfile::ReadOnly),
        ("direct_write", CapabilityProfile::DirectWrite),
        ("worktree_write", CapabilityProfile::WorktreeWrite),
    ],
};

const SUBAGENTS: ChoiceField<SubagentPolicy> = ChoiceField {
    name: "subagent_policy",
    description: "none, or deepseek_explicit to be able to hand parts of the work to a DeepSeek subagent; that needs \
                  worktree_write and the user's wish.",
    words: &[("none", SubagentPolicy::None), ("deepseek_explicit", SubagentPolicy::DeepseekExplicit)],
};

const SKILLS: ListField = ListField {
    name: "skill_contexts",
    description: "Skills whose instructions the session shall carry. Each must be on the user's allowlist. Their \
                  instructions together have at most 192 KiB.",
    at_most: MAX_SKILLS,
};

const SKILL_ID: TextField = TextField {
    name: "skill_id",
    description: "The skill's id on the allowlist.",
    limits: Limits::Characters(1, 200),
};

const SKILL_CONTENT: TextField = TextField {
    name: "content",
    description: "The whole SKILL.md. Leave it out to have it looked up in the configured skill folders.",
    limits: Limits::Bytes(1, MAX_TEXT),
};

const LABEL: TextField = TextField {
    name: "session_label",
    description: "A short name by which the user can tell the session from others.",
    limits: Limits::Characters(0, 80),
};

pub(super) fn spec() -> ToolSpec {
    let skill = object([SKILL_ID.property(), SKILL_CONTENT.property()], &[SKILL_ID.name]);
    let properties = [
        PROMPT.property(),
        WORKING_DIRECTORY.property(),
        IDEMPOTENCY_KEY.property(),
        PROFILE.property(),
        SUBAGENTS.property(),
        SKILLS.property(&skill),
        LABEL.property(),
        WAIT_FOR_FIRST_TURN.property(),
    ];
    ToolSpec {
        name: NAME,
        title: "Start a Claude Code session",
        description: DESCRIPTION,
        effect: Effect::Additive,
        input_schema: object(properties, &[PROMPT.name, WORKING_DIRECTORY.name, IDEMPOTENCY_KEY.name]),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let skill_contexts = arguments.list(&SKILLS, |item| SkillContext {
        skill_id: item.text(&SKILL_ID),
        content: item.optional_text(&SKILL_CONTENT),
    });
    let request = StartRequest {
        prompt: arguments.text(&PROMPT),
        working_directory: arguments.text(&WORKING_DIRECTORY),
        idempotency_key: arguments.text(&IDEMPOTENCY_KEY),
        capability_profile: arguments.choice(&PROFILE).unwrap_or_default().into(),
        subagent_policy: arguments.choice(&SUBAGENTS).unwrap_or_default().into(),
        skill_contexts,
        session_label: arguments.optional_text(&LABEL),
        wait_seconds: Some(arguments.wait(&WAIT_FOR_FIRST_TURN)),
    };
    arguments.finish(NAME)?;
    subagents_need_a_worktree(&request)?;
    Ok(Call::Start(request))
}

fn subagents_need_a_worktree(request: &StartRequest) -> Result<(), Refusal> {
    let allowed = request.subagent_policy() != SubagentPolicy::DeepseekExplicit
        || request.capability_profile() == CapabilityProfile::WorktreeWrite;
    if allowed {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::ProfileForbids,
        "subagent_policy deepseek_explicit needs capability_profile worktree_write.",
        "Leave subagent_policy out, or use worktree_write if the user wants an isolated copy of a clean repository.",
    ))
}
