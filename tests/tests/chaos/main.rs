//! Front, executor, shim and Claude Code die at random instants of scripted sessions that write and run commands. The
//! scripted ChatGPT does what a sensible one would: the same call with the same ids, a recovery, the next run.
//!
//! Afterwards the ledger verifies, every acknowledged reply stands in it once, no action had two effects and each receipt
//! says what became of its action, every session can be recovered or says why not, and nothing of ours is left running.
//!
//! `CHAOS_ROUNDS` says how many rounds (60), `CHAOS_SEED` repeats the decisions of a run that printed it, `CHAOS_ROUND`
//! plays one round alone.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod killer;
mod plan;
mod player;
mod verdict;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatehouse::chatgpt::Start;
use gatehouse_tests::dice::Dice;
use gatehouse_tests::patient::Patient;
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};

use killer::{Killer, Tally};
use plan::{CELLS, Round};
use player::Player;

/// How many rounds are under way at the same time.
const LANES: usize = 5;
/// From so many rounds on, every cell must have been reached.
const ENOUGH: usize = 60;

/// What is counted over all rounds.
#[derive(Debug, Default)]
struct Totals {
    strikes: AtomicUsize,
    missed: AtomicUsize,
    replies: AtomicUsize,
    calls: AtomicUsize,
    done: AtomicUsize,
    repeats: AtomicUsize,
    recoveries: AtomicUsize,
    resumed: AtomicUsize,
    tally: Tally,
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

#[test]
fn whatever_dies_whenever_nothing_is_lost_and_nothing_is_done_twice() {
    let Some(claude) = claude() else { return };
    let (rounds, only) = (number("CHAOS_ROUNDS").unwrap_or(ENOUGH), number("CHAOS_ROUND"));
    let seed = Dice::seed_from("CHAOS_SEED");
    println!("chaos: CHAOS_SEED={seed}, {rounds} rounds");
    let (began, next, totals) = (Instant::now(), AtomicUsize::new(0), Totals::default());
    let lane = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds {
                return;
            }
            if only.is_none_or(|only| only == number) {
                runtime.block_on(play(claude.clone(), Round::of(seed, number), &totals));
            }
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let broken = lanes.into_iter().filter_map(|lane| lane.join().err()).count();
        assert_eq!(broken, 0, "see above; CHAOS_SEED={seed}");
    });
    totals.print(rounds, began.elapsed());
    let empty: Vec<_> = CELLS.into_iter().filter(|cell| totals.tally.of(*cell) == 0).collect();
    assert!(only.is_some() || rounds < ENOUGH || empty.is_empty(), "never reached: {empty:?}");
}

impl Totals {
    fn print(&self, rounds: usize, took: Duration) {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        println!(
            "chaos: {} strikes ({} came too late) in {rounds} rounds, {:.0} s; {} replies acknowledged, {} calls, {} done; \
             {} calls repeated, {} recoveries, {} runs resumed",
            of(&self.strikes),
            of(&self.missed),
            took.as_secs_f64(),
            of(&self.replies),
            of(&self.calls),
            of(&self.done),
            of(&self.repeats),
            of(&self.recoveries),
            of(&self.resumed),
        );
        self.tally.print();
    }
}

async fn play(claude: PathBuf, round: Round, totals: &Totals) {
    let setup = Setup::with_claude(claude).environment("GATEHOUSE_LOG", "info,executor_svc=debug");
    let mut gateway = Gateway::start(setup).await;
    let project = Project::empty();
    project.write("counter", "the start\nthe end\n");
    let start = Start {
        profile: "direct_write",
        wait_seconds: 0,
        ..Start::new(format!("Round {}.", round.number), project.text())
    };
    let patient = Patient::start(gateway.client(), &start).await;
    gateway.learn(patient.brain());
    let (session, claude_session) =
        (patient.brain().session_id().to_owned(), patient.state().claude_session_id().to_owned());
    let mut player = Player::new(patient, project, round.clone());
    let mut killer =
        Killer { gateway: &mut gateway, session: session.clone(), claude_session, tally: &totals.tally };
    let strikes = async {
        for strike in &round.strikes {
            let hit = killer.strike(strike).await;
            if hit { &totals.strikes } else { &totals.missed }.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::join!(player.play(), strikes);
    verdict::judge(&gateway, &mut player, &session, totals).await;
    gateway.finish().await;
}
