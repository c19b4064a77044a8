//! The executor is killed while it writes, at every step by name and at random instants. Afterwards each file is what it was or
//! what it should become, its receipt says which, nothing is done twice, and nothing else is left.
//!
//! `KILLS` says how often (`make soak` asks for many).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::PathBuf;
use std::time::Duration;

use gatehouse::chatgpt::{Brain, Call, Start, ToolResult};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::json;

/// The steps of a write before which the executor can be told to kill itself, as its `GATEHOUSE_FAIL_AT` knows them.
const STEPS: [&str; 12] = [
    "keep_contents",
    "begin",
    "make_directories",
    "make_temporary",
    "write_temporary",
    "write_second_half",
    "sync_temporary",
    "swap",
    "verify",
    "remove_old",
    "sync_directory",
    "finish",
];

/// How many are at it at the same time, each with a gateway of its own.
const LANES: usize = 3;

fn kills() -> usize {
    std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// One session that counts in a file and makes another file in each round.
struct Lane {
    gateway: Gateway,
    project: Project,
    brain: Brain,
    seed: u64,
    killed: usize,
    made: usize,
}

impl Lane {
    async fn new(claude: PathBuf, seed: u64) -> Self {
        let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
        let project = Project::empty();
        project.write("counter", format!("0\n{}", "ballast\n".repeat(2000)));
        let start = Start { profile: "direct_write", ..Start::new("Count.", project.text()) };
        let brain = gateway.session(&start).await;
        Self { gateway, project, brain, seed, killed: 0, made: 0 }
    }

    /// A number below `bound`, another each time and the same in each run of the test.
    fn random(&mut self, bound: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % bound
    }

    fn counter(&self) -> usize {
        let text = std::fs::read_to_string(self.project.path().join("counter")).unwrap();
        assert!(text.ends_with("ballast\n") && text.lines().count() == 2001, "whole: {} bytes", text.len());
        text.lines().next().unwrap().parse().unwrap()
    }

    fn calls(&self, round: usize) -> Vec<Call> {
        let at = |name: &str| self.project.path().join(name);
        let count = self.counter();
        let edit = json!({"file_path": at("counter"), "old_string": format!("{count}\nballast\nballast\nballast"),
            "new_string": format!("{}\nballast\nballast\nballast", count + 1), "replace_all": false});
        let write = json!({"file_path": at(&format!("d{round}/e/f")), "content": format!("round {round}\n"), "create_only": true});
        vec![Call::new("Edit", edit), Call::new("Write", write)]
    }

    /// One round: a reply with two writes, an executor that dies on the way, and a look at what came of it.
    async fn round(&mut self, round: usize) {
        let before = self.counter();
        let calls = self.calls(round);
        let step = (round / LANES < STEPS.len() * 2).then(|| STEPS[(round / LANES) % STEPS.len()]);
        if let Some(step) = step {
            self.gateway.kill_executor();
            self.gateway.start_executor_with(&[("GATEHOUSE_FAIL_AT", step)]).await;
        }
        let arguments = self.brain.reply_arguments(None, &calls);
        let client = self.gateway.client();
        let again = arguments.clone();
        let asked =
            tokio::spawn(async move { client.call("native_session_reply_and_wait", arguments).await });
        if step.is_some() {
            assert!(self.gateway.executor_ends(Duration::from_secs(30)).await, "{step:?} is reached");
        } else {
            // The instant is the point of it.
            let micros = self.random(60_000);
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
        self.gateway.kill_executor();
        self.killed += 1;
        self.gateway.start_executor().await;
        let _ = asked.await.unwrap();
        // With the same ids: taken now if it was not before, and a replay if it was.
        self.brain.call("native_session_reply_and_wait", again).await.unwrap();
        let state = self.brain.until(|state| state.tool_results().len() == 2).await.unwrap();
        let results = state.tool_results();
        self.check(round, before, &results);
    }

    fn check(&mut self, round: usize, before: usize, results: &[ToolResult]) {
        let now = self.counter();
        assert_eq!(now, before + usize::from(results[0].ok), "round {round}: {}", results[0].receipt);
        let file = self.project.path().join(format!("d{round}/e/f"));
        let text = std::fs::read_to_string(&file).ok();
        assert_eq!(text.is_some(), results[1].ok, "round {round}: {}", results[1].receipt);
        assert!(text.is_none_or(|text| text == format!("round {round}\n")));
        for result in results.iter().filter(|result| !result.ok) {
            assert_eq!(result.receipt["code"], "cancelled", "round {round}: {}", result.receipt);
        }
        self.made += results.iter().filter(|result| result.ok).count();
        for directory in [self.project.path(), file.parent().unwrap().to_owned()] {
            let names =
                std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> =
                names.filter(|name| name.to_string_lossy().starts_with(".gatehouse")).collect();
            assert!(left.is_empty(), "round {round}: {left:?}");
        }
    }
}

async fn lane(claude: PathBuf, lane: usize, kills: usize) -> (usize, usize) {
    let mut own = Lane::new(claude, 0x9E37_79B9_7F4A_7C15 ^ (lane as u64 + 1)).await;
    for round in (lane..kills).step_by(LANES) {
        own.round(round).await;
    }
    own.brain.finish("Counted.").await.unwrap();
    let Lane { gateway, killed, made, .. } = own;
    gateway.finish().await;
    (killed, made)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_before_or_after_and_its_receipt_says_which() {
    let Some(claude) = claude() else { return };
    let kills = kills();
    let lanes: [_; LANES] =
        tokio::join!(lane(claude.clone(), 0, kills), lane(claude.clone(), 1, kills), lane(claude, 2, kills))
            .into();
    let killed: usize = lanes.iter().map(|(killed, _)| killed).sum();
    let made: usize = lanes.iter().map(|(_, made)| made).sum();
    println!("{killed} kills; {made} of {} writes were made", killed * 2);
    assert_eq!(killed, kills);
    assert!(made > 0 && made < killed * 2, "kills hit before and after");
}
