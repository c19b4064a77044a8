//! The scripted ChatGPT of a round: works through its script, and remembers what it asked for and what it was told.

use std::collections::BTreeMap;
use std::time::Duration;

use gatehouse::chatgpt::{Call, State, ToolResult, fresh_id};
use gatehouse_tests::patient::Patient;
use gatehouse_tests::places::Project;
use gatehouse_tests::processes;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::plan::{Deed, Round};

/// A call that was asked for.
#[derive(Debug)]
pub struct Asked {
    pub deed: Deed,
    /// A word that stands on disk for its effect, and nowhere else.
    pub mark: String,
    /// What was told of it: whether it was done, and the code if not. Told twice, it must be the same.
    pub told: Option<(bool, String)>,
}

/// A reply, and whether it was acknowledged.
#[derive(Debug)]
pub struct Replied {
    pub reply_id: String,
    pub turn_id: String,
    pub acknowledged: bool,
    pub calls: Vec<Asked>,
}

/// One session.
pub struct Player {
    pub patient: Patient,
    pub project: Project,
    pub replies: Vec<Replied>,
    round: Round,
    marks: usize,
    turns: usize,
    /// How many runs had to be begun because one before was cut off.
    pub resumed: usize,
    claude_session_id: String,
}

impl Player {
    pub fn new(patient: Patient, project: Project, round: Round) -> Self {
        let claude_session_id = patient.state().claude_session_id().to_owned();
        Self {
            patient,
            project,
            replies: Vec::new(),
            round,
            marks: 0,
            turns: 0,
            resumed: 0,
            claude_session_id,
        }
    }

    /// The whole script: its runs, one more until everything is told, and a stop.
    pub async fn play(&mut self) {
        let runs = self.round.runs.clone();
        for (number, replies) in runs.into_iter().enumerate() {
            for deeds in replies {
                self.answer(&deeds).await;
            }
            self.end_run().await;
            self.begin_run(&format!("Go on, part {number}.")).await;
        }
        while self.has_untold() {
            self.turn().await;
            if self.has_untold() {
                // Nothing else tells it: it would have stood in this turn.
                panic!("round {}: never told: {:?}", self.round.number, self.replies);
            }
        }
        if self.round.stops_at_work() {
            self.turn().await;
            // It does not react, so the stop takes a while.
            if let Some(claude) = processes::claude_of(&self.claude_session_id) {
                processes::signal(claude, Signal::SIGSTOP);
            }
        } else {
            self.end_run().await;
        }
        self.stop().await;
    }

    /// The next pending turn, whatever it takes. Everything that it shows is remembered.
    async fn turn(&mut self) -> State {
        loop {
            let ready = |state: &State| !matches!(state.status(), "starting" | "running" | "stopping");
            let state = self.patient.until(ready).await;
            assert_eq!(
                state.claude_session_id(),
                self.claude_session_id,
                "the same Claude session throughout"
            );
            match state.status() {
                "waiting_for_gpt" => {
                    self.remember(&state);
                    return state;
                }
                "idle" | "failed" => {
                    self.resumed += 1;
                    assert!(self.resumed < 40, "no run comes to an end: {}", state.0);
                    self.begin_run("Go on where you were cut off.").await;
                }
                other => panic!("round {}: {other}: {}", self.round.number, state.0),
            }
        }
    }

    fn has_untold(&self) -> bool {
        let acknowledged = self.replies.iter().filter(|reply| reply.acknowledged);
        acknowledged.flat_map(|reply| &reply.calls).any(|call| call.told.is_none())
    }

    fn remember(&mut self, state: &State) {
        for result in state.tool_results().into_iter().chain(state.unreported()) {
            let mark = result.client_id.clone().unwrap_or_default();
            let calls = self.replies.iter_mut().flat_map(|reply| &mut reply.calls);
            let call = calls.into_iter().find(|call| call.mark == mark);
            let call = call.unwrap_or_else(|| panic!("nobody asked for this: {result:?}"));
            let told = (result.ok, code(&result));
            assert!(
                call.told.as_ref().is_none_or(|before| *before == told),
                "told otherwise before: {result:?}"
            );
            call.told = Some(told);
        }
    }

    /// Has these deeds done, in whatever turn takes them.
    async fn answer(&mut self, deeds: &[Deed]) {
        loop {
            let state = self.turn().await;
            self.think().await;
            let calls: Vec<Asked> = deeds.iter().map(|deed| self.ask_for(*deed)).collect();
            let tool_calls: Vec<Value> = calls.iter().map(|call| self.call_of(call)).collect();
            let (reply_id, turn_id) = (fresh_id(), state.turn_id().unwrap_or_default().to_owned());
            let arguments = json!({"turn_id": turn_id, "reply_id": reply_id, "tool_calls": tool_calls,
                "text": format!("I do {} things.", calls.len())});
            let acknowledged = self.send(&arguments).await;
            self.replies.push(Replied { reply_id, turn_id, acknowledged, calls });
            if acknowledged {
                return;
            }
        }
    }

    /// Sends a reply; whether it was taken. The only reason for a refusal is a run that is gone.
    async fn send(&mut self, arguments: &Value) -> bool {
        match self.patient.call("native_session_reply_and_wait", arguments).await {
            Ok(_) => true,
            Err(refused) => {
                assert_eq!(refused.code, "runner_gone", "round {}: {refused}", self.round.number);
                false
            }
        }
    }

    async fn end_run(&mut self) {
        loop {
            let state = self.turn().await;
            let arguments = json!({"turn_id": state.turn_id().unwrap_or_default(), "reply_id": fresh_id(),
                "text": "That is all."});
            if !self.send(&arguments).await {
                continue;
            }
            let state = self.patient.until(|state| !matches!(state.status(), "running" | "stopping")).await;
            // A run may be cut off after its last word, before Claude Code has said that it is over.
            if matches!(state.status(), "idle" | "failed") {
                return;
            }
        }
    }

    async fn begin_run(&mut self, prompt: &str) {
        let arguments = json!({"prompt": prompt, "idempotency_key": fresh_id(), "wait_seconds": 10});
        match self.patient.call("native_session_continue", &arguments).await {
            Ok(_) => {}
            Err(refused) => panic!("round {}: continue: {refused}", self.round.number),
        }
    }

    /// Stops the session; a second stop with the same id changes nothing.
    async fn stop(&mut self) {
        let arguments = json!({"request_id": fresh_id(), "reason": "The round is over."});
        for _ in 0..2 {
            let stopped = self.patient.call("native_session_stop", &arguments).await;
            stopped.unwrap_or_else(|refused| panic!("round {}: stop: {refused}", self.round.number));
        }
        self.patient.until(|state| state.status() == "stopped").await;
    }

    async fn think(&mut self) {
        let thinks = &self.round.thinks_ms;
        let time = thinks[self.turns % thinks.len()];
        self.turns += 1;
        tokio::time::sleep(Duration::from_millis(time)).await;
    }

    fn ask_for(&mut self, deed: Deed) -> Asked {
        self.marks += 1;
        Asked { deed, mark: format!("mark-{}-{}", self.round.number, self.marks), told: None }
    }

    fn call_of(&self, asked: &Asked) -> Value {
        let mark = &asked.mark;
        let at = |name: &str| self.project.path().join(name);
        let (name, input) = match asked.deed {
            Deed::Read => ("Read", json!({"file_path": at("counter")})),
            Deed::Edit => (
                "Edit",
                json!({"file_path": at("counter"), "old_string": "the end\n",
                    "new_string": format!("{mark}\nthe end\n"), "replace_all": false}),
            ),
            Deed::Write => {
                ("Write", json!({"file_path": at(mark), "content": format!("{mark}\n"), "create_only": true}))
            }
            // Its child leaves its session and its parent; nothing may be left of either.
            Deed::Command => (
                "RunCommand",
                json!({"argv": ["sh", "-c",
                    format!("echo {mark} >> /tmp/log; (setsid sh -c 'sleep 97; true' child-{mark} &); sleep 0.2")]}),
            ),
        };
        let mut call = Call::new(name, input).to_json();
        call["id"] = json!(mark);
        call
    }

    /// How often the effect of each call can be seen.
    pub fn effects(&self, scratch: &std::path::Path) -> BTreeMap<String, usize> {
        let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
        let (counter, log) = (lines(&self.project.path().join("counter")), lines(&scratch.join("log")));
        assert!(counter.starts_with("the start\n") && counter.ends_with("the end\n"), "{counter}");
        let calls = self.replies.iter().flat_map(|reply| &reply.calls);
        let seen = calls.map(|call| {
            let is_mark = |line: &&str| *line == call.mark;
            let count = match call.deed {
                Deed::Read => 0,
                Deed::Edit => counter.lines().filter(is_mark).count(),
                Deed::Write => lines(&self.project.path().join(&call.mark)).lines().filter(is_mark).count(),
                Deed::Command => log.lines().filter(is_mark).count(),
            };
            (call.mark.clone(), count)
        });
        seen.collect()
    }
}

fn code(result: &ToolResult) -> String {
    result.receipt["code"].as_str().unwrap_or_default().to_owned()
}
