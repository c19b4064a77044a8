//! The skills of a start: what is asked for, and how a refusal is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1;
use serde_json::{Value, json};

use crate::config::SkillSettings;
use crate::skill::{Problem, Skill, SkillAsk, SkillFault, SkillRefusal, Skills, well_formed};

/// How long a file system may take to give the files out; one whose server is away may never answer.
const PATIENCE: Duration = Duration::from_secs(10);
const FIELD: &str = "skill_contexts";
/// How many faults of an allowlist are told.
const TOLD: usize = 5;

/// The skills of this gateway, looked up off the asynchronous threads.
#[derive(Debug, Clone)]
pub(super) struct Library {
    skills: Arc<Skills>,
}

impl Library {
    /// Says in the log what is wrong with the allowlist.
    pub(super) fn new(settings: &SkillSettings) -> Self {
        let skills = Skills::new(settings);
        skills.allowlist().log_faults();
        Self { skills: Arc::new(skills) }
    }

    /// The skills that a session in this directory carries.
    pub(super) async fn freeze(&self, asked: Vec<SkillAsk>, project: &Path) -> Result<Vec<Skill>, Spoken> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let (skills, project): (_, PathBuf) = (self.skills.clone(), project.to_owned());
        let freezing = tokio::task::spawn_blocking(move || skills.freeze(&asked, &project));
        match tokio::time::timeout(PATIENCE, freezing).await {
            Ok(Ok(frozen)) => frozen.map_err(refused),
            Ok(Err(_)) | Err(_) => Err(Spoken::new(
                ErrorCode::SkillNotAllowed,
                "The skills could not be looked up: a file system does not answer.",
                "Call again, give the skills with their content, or leave them out.",
            )
            .retryable()),
        }
    }
}

/// What a start asks for.
pub(super) fn asked(skills: Vec<v1::SkillContext>) -> Result<Vec<SkillAsk>, Spoken> {
    let ask = |skill: v1::SkillContext| SkillAsk { skill_id: skill.skill_id, content: skill.content };
    let asked: Vec<_> = skills.into_iter().map(ask).collect();
    well_formed(&asked).map_err(refused)?;
    Ok(asked)
}

/// What is wrong with the call is its own code; what the user does not allow is another.
fn refused(refusal: SkillRefusal) -> Spoken {
    let told = format!("{FIELD}: {refusal}.");
    match refusal {
        SkillRefusal::TooMany(_) | SkillRefusal::TooLarge { .. } => Spoken::new(
            ErrorCode::InvalidArgument,
            told,
            "Start with fewer or shorter skills.",
        )
        .with("field", FIELD),
        SkillRefusal::Malformed(faults) => Spoken::new(
            ErrorCode::InvalidArgument,
            told,
            "Correct the named skills and call again.",
        )
        .with("field", FIELD)
        .with("skills", each(&faults)),
        SkillRefusal::AllowlistMalformed { origin, faults } => {
            let faults: Vec<_> =
                faults.iter().take(TOLD).map(|f| json!({ "entry": f.entry, "problem": f.problem })).collect();
            Spoken::new(
                ErrorCode::SkillNotAllowed,
                told,
                format!("Start without {FIELD}, or ask the person at the machine to correct the allowlist and start the gateway again."),
            )
            .with("allowlist", origin)
            .with("faults", faults)
        }
        SkillRefusal::NotAllowed(faults) => Spoken::new(
            ErrorCode::SkillNotAllowed,
            told,
            "Leave these skills out, or ask the person at the machine to pin them as they are now (`gatehouse skills hash`).",
        )
        .with("skills", each(&faults)),
    }
}

fn each(faults: &[SkillFault]) -> Vec<Value> {
    faults.iter().map(one).collect()
}

fn one(fault: &SkillFault) -> Value {
    let mut told = json!({
        "index": fault.index, "skill_id": fault.skill_id, "problem": fault.problem.to_string(),
    });
    if let Problem::OtherText { pinned, found } = &fault.problem {
        told["pinned_sha256"] = json!(pinned);
        told["found_sha256"] = json!(found);
    }
    told
}
