//! `gatehouse show`.

use gatehouse_proto::v1::{
    ActionView, GetSessionRequest, ListActionsRequest, SessionStatus, SessionView, SkillSnapshot,
    SubsessionView,
};

use super::view::{action_json, ago, known, moment, session_json, short};
use crate::cli::Show;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, Style, clean};

pub(super) async fn run(mut operator: Operator, options: Show, screen: &mut Screen) -> Result<(), Failure> {
    let id = options.session;
    let found = operator.get_session(GetSessionRequest { native_session_id: id.clone() }).await?.into_inner();
    let session = found.session.ok_or_else(|| Failure::failed("the executor answered without a session"))?;
    let actions = list_actions(&mut operator, id).await?;
    if options.json {
        let mut all = session_json(&session);
        all["actions"] = actions.iter().map(action_json).collect();
        screen.line(all.to_string())?;
        return Ok(());
    }
    show_session(&session, screen)?;
    show_run(&session, screen)?;
    show_turn(&session, screen)?;
    show_endings(&session, screen)?;
    show_subagents(&session, screen)?;
    show_actions(&actions, screen)?;
    show_uncertain(&session, &actions, screen)?;
    Ok(())
}

/// All actions, oldest first: the pages come latest first.
async fn list_actions(operator: &mut Operator, session: String) -> Result<Vec<ActionView>, Failure> {
    let mut ask = ListActionsRequest { native_session_id: session, ..ListActionsRequest::default() };
    let mut pages = Vec::new();
    loop {
        let page = operator.list_actions(ask.clone()).await?.into_inner();
        pages.push(page.actions);
        ask.before = page.earlier;
        if ask.before.is_none() {
            return Ok(pages.into_iter().rev().flatten().collect());
        }
    }
}

const fn style_of(status: SessionStatus) -> Style {
    match status {
        SessionStatus::WaitingForGpt | SessionStatus::Stopping | SessionStatus::LeaseExpired => {
            Style::Attention
        }
        SessionStatus::Starting | SessionStatus::Running | SessionStatus::Idle => Style::Good,
        SessionStatus::Failed | SessionStatus::RecoveryRequired => Style::Bad,
        SessionStatus::Stopped | SessionStatus::Unspecified => Style::Dim,
    }
}

fn show_session(session: &SessionView, screen: &mut Screen) -> std::io::Result<()> {
    screen.heading(&session.native_session_id)?;
    let mut facts = vec![
        ("status", screen.paint(style_of(session.status()), known(session.status().name()))),
        ("profile", known(session.capability_profile().name()).to_owned()),
        ("directory", clean(&session.working_directory, 200)),
        ("created", format!("{} ({})", moment(session.created_at_ms), ago(session.created_at_ms))),
        ("last call", ago(session.last_call_at_ms)),
        ("Claude session", session.claude_session_id.clone()),
    ];
    if !session.skill_snapshot.is_empty() {
        facts.push(("skills", skills(session)));
    }
    if let Some(label) = &session.session_label {
        facts.insert(0, ("label", clean(label, 80)));
    }
    screen.facts(&facts)
}

/// Which instructions ChatGPT is given with each run; what they say is not for a screen.
fn skills(session: &SessionView) -> String {
    let one = |skill: &SkillSnapshot| {
        format!("{} ({}, {} bytes)", clean(&skill.skill_id, 100), short(&skill.content_sha256), skill.bytes)
    };
    session.skill_snapshot.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn show_run(session: &SessionView, screen: &mut Screen) -> std::io::Result<()> {
    let Some(run) = &session.current_run else { return Ok(()) };
    screen.line("")?;
    screen.heading(&format!("Run {}", run.ordinal))?;
    screen.facts(&[
        ("state", run.state.clone()),
        ("process", known(run.attachment().name()).to_owned()),
        ("started", ago(run.started_at_ms)),
    ])
}

fn show_turn(session: &SessionView, screen: &mut Screen) -> std::io::Result<()> {
    let Some(turn) = &session.pending_turn else { return Ok(()) };
    screen.line("")?;
    screen.heading(&format!("Pending turn {}", turn.ordinal))?;
    let mut facts =
        vec![("waits since", ago(turn.opened_at_ms)), ("kind", known(turn.kind().name()).to_owned())];
    if let Some(prompt) = &turn.prompt {
        facts.push(("prompt", clean(prompt, 160)));
    }
    facts.push(("tool results", turn.tool_results.len().to_string()));
    screen.facts(&facts)
}

fn show_endings(session: &SessionView, screen: &mut Screen) -> std::io::Result<()> {
    if let Some(last) = &session.last_result {
        screen.line("")?;
        screen.heading("Last result")?;
        let outcome = if last.ok { "ok" } else { "not ok" };
        screen.facts(&[
            (
                "outcome",
                format!(
                    "{outcome}, {} turns, {} actions, {}",
                    last.turns,
                    last.actions,
                    ago(last.finished_at_ms)
                ),
            ),
            ("text", clean(&last.text, 400)),
        ])?;
    }
    if let Some(error) = &session.launch_error {
        screen.line("")?;
        screen.heading("Launch error")?;
        screen.facts(&[
            ("code", error.code.clone()),
            ("message", clean(&error.message, 600)),
            ("what to do", clean(&error.what_to_do, 400)),
        ])?;
    }
    if let Some(end) = &session.terminal {
        screen.line("")?;
        screen.heading("Ended")?;
        screen.facts(&[("reason", clean(&end.reason, 400)), ("at", moment(end.at_ms))])?;
    }
    Ok(())
}

fn show_subagents(session: &SessionView, screen: &mut Screen) -> std::io::Result<()> {
    if session.deepseek_subsessions.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    screen.heading("Subagents")?;
    let row = |subsession: &SubsessionView| {
        vec![
            subsession.subsession_id.clone(),
            subsession.status.clone(),
            subsession.error.clone().unwrap_or_else(|| "-".to_owned()),
            clean(&subsession.route, 40),
            subsession.requests.to_string(),
            format!("{} + {}", subsession.input_tokens, subsession.output_tokens),
        ]
    };
    let rows: Vec<_> = session.deepseek_subsessions.iter().map(row).collect();
    screen.table(&["SUBAGENT", "STATUS", "ERROR", "MODEL", "REQUESTS", "TOKENS"], &rows)
}

fn show_actions(actions: &[ActionView], screen: &mut Screen) -> std::io::Result<()> {
    if actions.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    screen.heading("Actions")?;
    let rows: Vec<_> = actions.iter().map(action_row).collect();
    screen.table(&["CALL", "TOOL", "STATE", "RESULT", "CHANGE", "INPUT"], &rows)
}

/// What only the person at the machine can decide.
fn show_uncertain(session: &SessionView, actions: &[ActionView], screen: &mut Screen) -> std::io::Result<()> {
    for action in actions.iter().filter(|action| action.state == "uncertain") {
        let file = action.write.as_ref().map_or("its file", |write| &write.file_path);
        let ids = format!("{} {}", session.native_session_id, action.tool_call_id);
        screen.line("")?;
        screen.heading("Waits for you")?;
        screen.line(format!(
            "  Nobody can tell whether {} {} changed {}.",
            clean(&action.name, 40),
            action.tool_call_id,
            clean(file, 300)
        ))?;
        screen.line(format!("  Look at the file and at `gatehouse diff {ids}`, then decide:"))?;
        screen.line(format!(
            "  `gatehouse resolve {ids}` with --keep-disk, --restore-before or --restore-after."
        ))?;
    }
    Ok(())
}

/// The hashes of the file before and after, shortened.
fn change(action: &ActionView) -> String {
    let Some(write) = &action.write else { return "-".to_owned() };
    let side = |sha256: &Option<String>| sha256.as_deref().map_or("none", short).to_owned();
    format!("{} → {}", side(&write.before_sha256), side(&write.after_sha256))
}

fn action_row(action: &ActionView) -> Vec<String> {
    let result = match (action.ok, &action.code) {
        (Some(true), _) => "ok",
        (Some(false), Some(code)) => code,
        (Some(false), None) => "not ok",
        (None, _) => "-",
    };
    vec![
        action.tool_call_id.clone(),
        match &action.subsession_id {
            Some(_) => format!("{} (subagent)", clean(&action.name, 40)),
            None => clean(&action.name, 40),
        },
        action.state.clone(),
        result.to_owned(),
        change(action),
        clean(&action.input_json, 100),
    ]
}
