//! Random sequences of commands, duplicated and out of order, by right and by wrong callers, against a record of what
//! was ever done.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::subagent_moves::{SubMove, Subagents, sub_command, sub_moves};
use super::*;

/// One random move; the numbers pick among what exists.
#[derive(Debug, Clone)]
enum Move {
    OpenTurn { first: bool, all_results: bool, known: bool },
    Reply { reply_id: u8, content: u8, calls: usize, tool: &'static str, stale_turn: bool, lease: Holder },
    Sub(SubMove),
    Prepare { call: usize },
    Settle { call: usize },
    Continue { key: u8, lease: Holder },
    Recover { key: u8, right: bool },
    Stop { key: u8, lease: Holder },
    Look { lease: Holder },
    EndRun { ok: bool },
    Gone { stale: bool },
    Restart,
    Wait { seconds: u64 },
    Check,
}

#[derive(Debug, Clone, Copy)]
enum Holder {
    Current,
    Former,
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![4 => Just(Holder::Current), 1 => Just(Holder::Former)]
}

fn tool() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("Read"), Just("Edit"), Just(SUBAGENT_START), Just(SUBAGENT_GET)]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(first, all_results, known)| Move::OpenTurn { first, all_results, known }),
        4 => (0..4u8, 0..2u8, 0..3usize, tool(), proptest::bool::weighted(0.2), holder())
            .prop_map(|(reply_id, content, calls, tool, stale_turn, lease)| Move::Reply { reply_id, content, calls, tool, stale_turn, lease }),
        8 => sub_moves().prop_map(Move::Sub),
        2 => (0..4usize).prop_map(|call| Move::Prepare { call }),
        3 => (0..4usize).prop_map(|call| Move::Settle { call }),
        2 => (0..4u8, holder()).prop_map(|(key, lease)| Move::Continue { key, lease }),
        2 => (0..4u8, proptest::bool::weighted(0.8)).prop_map(|(key, right)| Move::Recover { key, right }),
        1 => (0..2u8, holder()).prop_map(|(key, lease)| Move::Stop { key, lease }),
        1 => holder().prop_map(|lease| Move::Look { lease }),
        2 => any::<bool>().prop_map(|ok| Move::EndRun { ok }),
        2 => any::<bool>().prop_map(|stale| Move::Gone { stale }),
        1 => Just(Move::Restart),
        1 => (0..3000u64).prop_map(|seconds| Move::Wait { seconds }),
        2 => Just(Move::Check),
    ]
}

/// An id that a call uses: its scope, the content, the lease that the call mints.
type Use = (String, u8, Option<LeaseId>);

/// The world around the machine, kept the dumb way.
struct World {
    session: Session,
    now: Timestamp,
    former_leases: Vec<LeaseId>,
    once: HashMap<String, (u8, Option<LeaseId>)>,
    turns: HashMap<String, (TurnId, TurnStanding)>,
    replies_of: HashMap<TurnId, u32>,
    authorised: HashSet<ToolCallId>,
    settled: HashSet<ToolCallId>,
    runs: HashSet<RunId>,
    subagents: Subagents,
}

impl World {
    fn new() -> Self {
        let mut session = fresh();
        (session.profile, session.subagents) = (Profile::WorktreeWrite, SubagentPolicy::DeepseekExplicit);
        let runs = [run_of(&session).0].into();
        Self {
            session,
            now: at(0),
            former_leases: vec![LeaseId::mint()],
            once: HashMap::new(),
            turns: HashMap::new(),
            replies_of: HashMap::new(),
            authorised: HashSet::new(),
            settled: HashSet::new(),
            runs,
            subagents: Subagents::default(),
        }
    }

    fn lease(&self, holder: Holder) -> LeaseId {
        match holder {
            Holder::Current => self.session.lease.id.clone(),
            Holder::Former => self.former_leases.last().unwrap().clone(),
        }
    }

    fn claim(&self, scope: &str, content: u8) -> Claim {
        match self.once.get(scope) {
            None => Claim::Fresh,
            Some((known, lease)) if *known == content => replay_row(&self.session, lease.clone()),
            Some(_) => Claim::Conflict,
        }
    }

    fn turn_key(&self, first: bool, all: bool) -> TurnKey {
        match self.session.state.run() {
            Some(run) if !first => {
                let ids = run.calls.iter().map(|call| call.id.clone());
                TurnKey::Results(if all { ids.collect() } else { ids.skip(1).collect() })
            }
            _ => TurnKey::First,
        }
    }

    fn command(&self, next: &Move) -> Option<(Command, Option<Use>)> {
        self.by_runner(next).map(|command| (command, None)).or_else(|| self.by_caller(next))
    }

    /// What a runner, the reaper or a restart asks.
    fn by_runner(&self, next: &Move) -> Option<Command> {
        Some(match next {
            Move::OpenTurn { first, all_results, known } => self.open_turn(*first, *all_results, *known)?,
            Move::Prepare { call } => Command::Prepare { id: self.call(*call)?, intent: None },
            Move::Settle { call } => Command::Settle { id: self.call(*call)?, receipt: receipt(true) },
            Move::EndRun { ok } => {
                let (run_id, epoch) = self.session.state.run().map(|run| (run.id.clone(), run.epoch))?;
                let failure = LaunchFailure { code: "c".into(), message: "m".into(), what_to_do: "w".into() };
                let outcome = if *ok { RunOutcome::Finished } else { RunOutcome::Failed(failure) };
                Command::EndRun { run_id, epoch, outcome }
            }
            Move::Gone { stale } => {
                let ending = self.session.ending.as_ref().map(|ending| (ending.run_id.clone(), ending.epoch));
                let current = self.session.state.run().map(|run| (run.id.clone(), run.epoch));
                let (run_id, epoch) = if *stale { (RunId::mint(), 1) } else { ending.or(current)? };
                Command::RunnerGone { run_id, epoch, why: "gone".into() }
            }
            Move::Sub(next) => sub_command(&self.session, next)?,
            Move::Restart => Command::Restarted,
            Move::Wait { .. } | Move::Check => Command::CheckLease,
            _ => return None,
        })
    }

    /// A call of the present run, or one of a former run that is still being finished.
    fn call(&self, place: usize) -> Option<ToolCallId> {
        let of_run = self.session.state.run().into_iter().flat_map(|run| &run.calls);
        let of_subagent = self.session.subagent.iter().flat_map(|subagent| &subagent.run.calls);
        of_run.chain(of_subagent).chain(&self.session.finishing).nth(place).map(|call| call.id.clone())
    }

    fn open_turn(&self, first: bool, all_results: bool, known: bool) -> Option<Command> {
        let run = self.session.state.run()?;
        let key = self.turn_key(first, all_results);
        let mut ask = ask(&self.session, key.clone());
        let name = format!("{} {}", run.id, key.as_text());
        ask.known = self.turns.get(&name).filter(|_| known).map(|(id, _)| KnownTurn { id: id.clone() });
        // The ledger always knows a turn that was opened.
        let consistent = ask.known.is_some() || !self.turns.contains_key(&name);
        consistent.then_some(Command::OpenTurn(ask))
    }

    /// What ChatGPT asks, and the id that it uses.
    fn by_caller(&self, next: &Move) -> Option<(Command, Option<Use>)> {
        Some(match next {
            Move::Reply { reply_id, content, calls, tool, stale_turn, lease } => {
                let scope = format!("reply {reply_id}");
                let (turn_id, turn) = self.turn_for_reply(*stale_turn)?;
                let command = Command::Reply {
                    lease: self.lease(*lease),
                    claim: self.claim(&scope, *content),
                    reply_id: key(&scope),
                    turn_id,
                    turn,
                    text: content.to_string(),
                    calls: Ok((0..*calls).map(|_| call_request(tool)).collect()),
                };
                (command, Some((scope, *content, None)))
            }
            Move::Continue { key: k, lease } => {
                let scope = format!("continue {k}");
                let Command::Continue { run_id, prompt, root, .. } = continue_with(&self.session) else {
                    return None;
                };
                let command = Command::Continue {
                    lease: self.lease(*lease),
                    claim: self.claim(&scope, 0),
                    run_id,
                    prompt,
                    root,
                };
                (command, Some((scope, 0, None)))
            }
            Move::Recover { key: k, right } => {
                let (scope, lease_id) = (format!("recover {k}"), LeaseId::mint());
                let command = Command::Recover {
                    token: if *right { TokenStanding::Right } else { TokenStanding::Wrong },
                    claim: self.claim(&scope, 0),
                    lease_id: lease_id.clone(),
                    root: RootStanding::Same,
                };
                (command, Some((scope, 0, Some(lease_id))))
            }
            Move::Stop { key: k, lease } => {
                let scope = format!("stop {k}");
                let command = Command::Stop {
                    lease: Some(self.lease(*lease)),
                    claim: self.claim(&scope, 0),
                    request_id: key(&scope),
                    reason: String::new(),
                };
                (command, Some((scope, 0, None)))
            }
            Move::Look { lease } => (Command::Look { lease: self.lease(*lease) }, None),
            _ => return None,
        })
    }

    fn turn_for_reply(&self, stale: bool) -> Option<(TurnId, Option<TurnStanding>)> {
        match &self.session.state {
            State::Waiting(_, turn) if !stale => Some((turn.id.clone(), Some(TurnStanding::Pending))),
            _ => self.turns.values().next().map(|(id, standing)| (id.clone(), Some(*standing))),
        }
    }

    fn play(&mut self, next: &Move) -> Result<(), TestCaseError> {
        if let Move::Wait { seconds } = next {
            self.now = self.now.after(Duration::from_secs(*seconds));
        }
        let Some((command, once)) = self.command(next) else { return Ok(()) };
        let by_former = matches!(
            next,
            Move::Reply { lease: Holder::Former, .. }
                | Move::Continue { lease: Holder::Former, .. }
                | Move::Stop { lease: Holder::Former, .. }
                | Move::Look { lease: Holder::Former }
        );
        let outcome = apply(&self.session, self.now, command);
        if by_former {
            prop_assert_eq!(outcome.as_ref().err(), Some(&Refusal::LeaseMismatch), "I8");
        }
        if let Ok(step) = outcome {
            self.note(&step, once)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        step: &Step,
        once: Option<(String, u8, Option<LeaseId>)>,
    ) -> Result<(), TestCaseError> {
        if step.answer == Answer::Replayed {
            prop_assert!(step.effects.is_empty(), "I3: a replay has no effect");
        } else if let Some((scope, content, lease)) = once {
            prop_assert!(self.once.insert(scope, (content, lease)).is_none(), "I3: an id is used up once");
        }
        for effect in &step.effects {
            self.subagents.note(&self.session, effect)?;
            self.note_effect(effect)?;
        }
        prop_assert_eq!(&step.session.skills, &self.session.skills, "what was frozen stays so");
        if step.session.lease.id != self.session.lease.id {
            self.former_leases.push(self.session.lease.id.clone());
        }
        if step.session.state != self.session.state {
            prop_assert!(
                step.session.revision > self.session.revision,
                "a visible change raises the revision"
            );
        }
        self.session = step.session.clone();
        self.check_state()
    }

    fn note_effect(&mut self, effect: &Effect) -> Result<(), TestCaseError> {
        prop_assert!(!matches!(effect, Effect::SkillsFrozen(_)), "skills are frozen at the start alone");
        match effect {
            Effect::TurnOpened { turn_id, run_id, key, .. } => {
                let name = format!("{run_id} {}", key.as_text());
                let known = self.turns.insert(name, (turn_id.clone(), TurnStanding::Pending));
                prop_assert!(known.is_none(), "a key opens one turn");
            }
            Effect::TurnAbandoned { turn_id, .. } => self.set_standing(turn_id, TurnStanding::Abandoned),
            Effect::ReplyCommitted { turn_id, calls, .. } => {
                *self.replies_of.entry(turn_id.clone()).or_default() += 1;
                prop_assert_eq!(self.replies_of[turn_id], 1, "I4: one reply per turn");
                self.set_standing(turn_id, TurnStanding::Answered);
                for call in calls {
                    prop_assert!(self.authorised.insert(call.id.clone()), "I2: authorised once");
                }
            }
            Effect::ActionSettled { id, .. } | Effect::ActionCancelled { id, .. } => {
                prop_assert!(self.authorised.contains(id), "I2: nothing is settled that was not authorised");
                prop_assert!(self.settled.insert(id.clone()), "I1: settled once");
            }
            Effect::SubagentStarted(ask) => {
                prop_assert!(self.runs.insert(ask.run_id.clone()), "a run opens once");
            }
            Effect::RunOpened { run_id, .. } => {
                prop_assert!(self.runs.insert(run_id.clone()), "a run opens once");
            }
            _ => {}
        }
        Ok(())
    }

    fn set_standing(&mut self, turn: &TurnId, standing: TurnStanding) {
        for (id, now) in self.turns.values_mut() {
            if id == turn {
                *now = standing;
            }
        }
    }

    fn check_state(&self) -> Result<(), TestCaseError> {
        let pending: Vec<_> =
            self.turns.values().filter(|(_, standing)| *standing == TurnStanding::Pending).collect();
        let own = match &self.session.state {
            State::Waiting(_, turn) => Some(&turn.id),
            _ => None,
        };
        let subagents = self.session.subagent.as_ref().and_then(|subagent| match &subagent.state {
            SubagentState::Asking { turn, .. } => Some(turn),
            _ => None,
        });
        let waiting: HashSet<_> = own.into_iter().chain(subagents).collect();
        let pending: HashSet<_> = pending.into_iter().map(|(id, _)| id).collect();
        prop_assert_eq!(pending, waiting, "a pending turn is one that the session or its subagent waits for");
        self.subagents.check(&self.session)?;
        if self.session.state.run().is_none() {
            let finishing = |id: &&ToolCallId| self.session.finishing.iter().any(|call| call.id == **id);
            let open: Vec<_> =
                self.authorised.difference(&self.settled).filter(|id| !finishing(id)).collect();
            prop_assert!(open.is_empty(), "without a run nothing is open but what is being finished");
        }
        if self.session.state.status() == Status::Stopped {
            prop_assert!(self.session.finishing.is_empty(), "a stopped session has nothing in flight");
        }
        let text = serde_json::to_string(&self.session).unwrap();
        prop_assert_eq!(
            &serde_json::from_str::<Session>(&text).unwrap(),
            &self.session,
            "the value survives the ledger"
        );
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2_000)))]

    #[test]
    fn the_facts_hold_over_any_sequence(sequence in proptest::collection::vec(moves(), 1..60)) {
        let mut world = World::new();
        for next in &sequence {
            world.play(next)?;
        }
    }
}
