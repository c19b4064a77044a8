//! The rooms around the machine: launches and ends, the way of an action, taking over after a crash.

use executor_svc::session::{
    Answer, CallState, Command, KnownTurn, LaunchFailure, Refusal, RunOutcome, State, Status, TurnAsk,
    TurnKey,
};

use super::Gateway;
use super::commit::{Asker, receipt};
use super::faults::Fault;
use super::ids;
use super::moves::{Ask, How, count};
use super::world::{
    ActionState, Executor, Fact, File, Flight, Launch, Phase, Process, Standing, Tool, World,
};

type Told = Result<Answer, Refusal>;

pub fn outcome(how: How) -> RunOutcome {
    let words = || LaunchFailure { code: "c".to_owned(), message: "m".to_owned(), what_to_do: String::new() };
    match how {
        How::Finished => RunOutcome::Finished,
        How::Erred => RunOutcome::Erred(words()),
        How::Failed => RunOutcome::Failed(words()),
    }
}

/// What shims say. One whose token the ledger does not know any more is not listened to.
impl Gateway {
    fn epoch(&self, world: &World, run: u8) -> Option<u8> {
        if self.fault == Some(Fault::TakesOldLaunches) {
            return world.run().map(|(_, epoch)| epoch);
        }
        world.link(run)
    }

    fn present(&self, world: &World, run: u8) -> u8 {
        // Such a gateway takes the word of any process for that of the present run.
        let present = world.run().filter(|_| self.fault == Some(Fault::TakesOldLaunches));
        present.map_or(run, |(present, _)| present)
    }

    fn asker(world: &World, run: u8) -> Asker {
        Asker::Shim(run, world.ledger.runs[usize::from(run)].token.unwrap_or_default())
    }

    pub fn attach(&self, world: &mut World, run: u8) -> Option<Told> {
        let epoch = self.epoch(world, run)?.into();
        let (asker, run_id) = (Self::asker(world, run), ids::run(self.present(world, run)));
        Some(self.submit(world, asker, None, |_| Command::Attach { run_id, epoch, enforced_by: Vec::new() }))
    }

    pub fn open_turn(&self, world: &mut World, run: u8, ask: Ask, stale: bool) -> Option<Told> {
        let epoch = self.epoch(world, run)?.into();
        let (key, results) = match ask {
            Ask::First => (Ok(TurnKey::First), Default::default()),
            Ask::Nonsense => (Err("nonsense".to_owned()), Default::default()),
            Ask::ResultsOf(turn) => {
                let results = world.calls_of(turn);
                (Ok(TurnKey::Results(results.iter().copied().map(ids::call).collect())), results)
            }
        };
        let known = world.ledger.turns.iter().position(|row| row.run == run && row.results == results);
        let known = known.filter(|_| key.is_ok()).map(|at| KnownTurn { id: ids::turn(count(at)) });
        // What is in flight is looked up before the transaction, and may have changed by then.
        let performing = if stale { Vec::new() } else { world.executor.flights.keys().copied().collect() };
        let turn = TurnAsk {
            run_id: ids::run(self.present(world, run)),
            epoch,
            turn_id: ids::turn(count(world.ledger.turns.len())),
            marker: (ask == Ask::First).then(|| world.ledger.runs[usize::from(run)].ordinal.into()),
            key,
            known,
            seen: Vec::new(),
            request_hash: String::new(),
            performing: performing.into_iter().map(ids::call).collect(),
        };
        let asker = Self::asker(world, run);
        Some(self.submit(world, asker, None, |_| Command::OpenTurn(turn)))
    }

    pub fn end_run(&self, world: &mut World, run: u8, how: How) -> Option<Told> {
        let row = &mut world.ledger.runs[usize::from(run)];
        // It says so when Claude Code has ended, and then goes, whether or not anybody heard it.
        if row.process == Process::Alive {
            row.process = Process::Parting;
        }
        let epoch = self.epoch(world, run)?.into();
        let (asker, run_id) = (Self::asker(world, run), ids::run(self.present(world, run)));
        Some(self.submit(world, asker, None, |_| Command::EndRun { run_id, epoch, outcome: outcome(how) }))
    }

    /// Claude Code calls a tool: the action is in flight from now on, if it is one that may be made.
    pub fn invoke(&self, world: &mut World, run: u8, action: u8) -> Option<()> {
        let epoch = world.link(run)?;
        let calls = match (&world.session.state, &world.session.subagent) {
            (_, Some(subagent)) if world.subagent_run() == Some((run, epoch)) => &subagent.run.calls,
            (State::Running(current), _) if world.run() == Some((run, epoch)) => &current.calls,
            _ => return None,
        };
        let known = calls.iter().find(|call| ids::number(call.id.as_str()) == action)?;
        let may = world.serves(run, epoch) && known.state != CallState::Settled;
        let fresh = !world.executor.flights.contains_key(&action);
        if may && fresh {
            world.executor.flights.insert(action, Flight::Begun);
        }
        (may && fresh).then_some(())
    }
}

/// Actions.
impl Gateway {
    /// The next step of an action in flight. Between any two of them the executor may crash.
    pub fn step_flight(&self, world: &mut World, action: u8, works: bool) {
        let flight = world.executor.flights.remove(&action).expect("in flight");
        let tool = world.ledger.actions[usize::from(action)].tool;
        let next = match (flight, tool) {
            (Flight::Begun, Tool::Read | Tool::Get) | (Flight::Told, _) => {
                let _ = self.settle(world, action, works);
                None
            }
            (Flight::Begun, Tool::Start) => {
                self.start_subagent(world, action);
                None
            }
            (Flight::Begun, Tool::Stop) => {
                self.stop_subagent(world, action);
                Some(Flight::Told)
            }
            (Flight::Begun, _) => {
                if self.fault == Some(Fault::PerformsFirst) {
                    perform(world, action);
                }
                let prepare = |_| Command::Prepare { id: ids::call(action), intent: None };
                self.submit(world, Asker::House, None, prepare).ok().map(|_| Flight::Prepared)
            }
            (Flight::Prepared, _) => {
                let fits =
                    tool == Tool::Command || world.ledger.actions[usize::from(action)].file == File::Before;
                let made = works && fits;
                if made {
                    perform(world, action);
                }
                Some(Flight::Performed(made))
            }
            (Flight::Performed(ok), _) => {
                let _ = self.settle(world, action, ok);
                None
            }
        };
        world.executor.flights.extend(next.map(|next| (action, next)));
    }

    fn settle(&self, world: &mut World, action: u8, ok: bool) -> Told {
        if self.fault == Some(Fault::SettlesAgain) {
            super::commit::record(
                world,
                &executor_svc::session::Effect::ActionSettled { id: ids::call(action), receipt: receipt(ok) },
            );
        }
        let settle = |_| Command::Settle { id: ids::call(action), receipt: receipt(ok) };
        self.submit(world, Asker::House, None, settle)
    }

    /// After a crash: what is on the disk is compared with the intent.
    pub fn reconcile(&self, world: &mut World, action: u8) {
        let row = &world.ledger.actions[usize::from(action)];
        let (tool, file) = (row.tool, row.file);
        let ok = match (self.fault, tool, file) {
            (Some(Fault::PerformsAgain), ..) => {
                perform(world, action);
                true
            }
            (Some(Fault::GuessesAfterACrash), ..) | (_, Tool::Command, _) | (_, _, File::Before) => false,
            (_, _, File::After) => true,
            (_, _, File::Foreign) => {
                let id = ids::call(action);
                let mark = |_| Command::MarkUncertain { id, why: String::new() };
                let _ = self.submit(world, Asker::House, None, mark);
                return;
            }
        };
        let _ = self.settle(world, action, ok);
    }
}

/// It takes effect on the disk.
fn perform(world: &mut World, action: u8) {
    let row = &mut world.ledger.actions[usize::from(action)];
    let answered = world.ledger.turns[usize::from(row.turn)].standing == Standing::Answered;
    if row.state != ActionState::Prepared || !answered {
        world.broken.insert(Fact::NothingBeforeItIsDurable);
    }
    row.effects += 1;
    if row.effects > 1 {
        world.broken.insert(Fact::OneEffect);
    }
    row.file = File::After;
}

/// Processes.
impl Gateway {
    /// The next step of a launch.
    pub fn step_launch(&self, world: &mut World, run: u8) {
        let heedless = self.fault == Some(Fault::LaunchesTheDead);
        let launch = world.executor.launches.remove(&run).expect("ordered");
        let row = &mut world.ledger.runs[usize::from(run)];
        let next = match launch {
            // A link token that is durable, and a process that does not have it yet.
            Launch::Ordered(epoch) if row.open || heedless => {
                (row.link, row.noted, row.process) = (Some(epoch), false, Process::Spawned);
                Some(Launch::Spawned(epoch))
            }
            Launch::Spawned(epoch) if row.process == Process::Spawned => {
                row.noted = true;
                world.executor.held.insert(run, epoch);
                Some(Launch::Noted(epoch))
            }
            Launch::Noted(epoch) if (row.open || heedless) && row.process == Process::Spawned => {
                (row.process, row.token) = (Process::Alive, Some(epoch));
                None
            }
            Launch::Spawned(epoch) | Launch::Noted(epoch) if row.process == Process::Gone => {
                let failed = |_| Command::EndRun {
                    run_id: ids::run(run),
                    epoch: epoch.into(),
                    outcome: outcome(How::Failed),
                };
                let _ = self.submit(world, Asker::House, None, failed);
                None
            }
            // Not wanted any more: it never gets its token, and ends by itself.
            _ => None,
        };
        world.executor.launches.extend(next.map(|next| (run, next)));
    }

    /// Ends a run's process. Whoever holds it notices its end; one that is not to be found has ended, or never was.
    pub fn carry_out_end(&self, world: &mut World, run: u8) {
        world.executor.ends.remove(&run);
        let held = world.executor.held.contains_key(&run);
        let row = &mut world.ledger.runs[usize::from(run)];
        let there = matches!(row.process, Process::Spawned | Process::Alive | Process::Parting);
        if (held || row.noted) && there {
            row.process = Process::Gone;
        }
        let known = [world.ending(), world.subagent_run()].into_iter().flatten();
        if !held && let Some((ending, epoch)) = known.into_iter().find(|(ending, _)| *ending == run) {
            self.report_gone(world, ending, epoch);
        }
    }

    pub fn report_gone(&self, world: &mut World, run: u8, epoch: u8) {
        let gone =
            |_| Command::RunnerGone { run_id: ids::run(run), epoch: epoch.into(), why: "gone".to_owned() };
        let _ = self.submit(world, Asker::House, None, gone);
    }

    pub fn notice_gone(&self, world: &mut World, run: u8) {
        if let Some(epoch) = world.executor.held.remove(&run) {
            self.report_gone(world, run, epoch);
        }
    }

    pub fn interrupt(&self, world: &mut World) {
        let Some((run, epoch)) = world.run() else { return };
        let command =
            Command::Interrupt { run_id: ids::run(run), epoch: epoch.into(), why: "shut down".to_owned() };
        let _ = self.submit(world, Asker::House, None, |_| command);
    }

    /// A new executor takes over what lives, reports what does not, and goes on with what was ordered.
    pub fn adopt(&self, world: &mut World) {
        world.executor.phase = Phase::Up;
        let status = world.session.state.status();
        let ending = status == Status::LeaseExpired
            && (world.session.ending.is_some() || world.session.subagent.is_some());
        if !status.is_live() && !ending {
            return;
        }
        let _ = self.submit(world, Asker::House, None, |_| Command::Restarted);
        self.adopt_subagent(world);
        let (run, starting) = (world.run(), world.session.state.status() == Status::Starting);
        if let Some((ending, epoch)) = world.ending() {
            self.hold_again(world, ending, epoch);
            if self.fault != Some(Fault::ForgetsOrders) {
                world.executor.ends.insert(ending);
            }
        }
        let Some((run, epoch)) = run else { return };
        if !self.hold_again(world, run, epoch) && starting {
            let again = |_| Command::Relaunch { run_id: ids::run(run), epoch: epoch.into() };
            let _ = self.submit(world, Asker::House, None, again);
        }
    }

    pub fn hold_again(&self, world: &mut World, run: u8, epoch: u8) -> bool {
        let row = &world.ledger.runs[usize::from(run)];
        let (noted, process) = (row.noted, row.process);
        if noted && process == Process::Gone {
            self.report_gone(world, run, epoch);
        } else if noted {
            world.executor.held.insert(run, epoch);
        }
        noted
    }

    /// All that was not committed is lost: what was ordered, who was held, what was in flight.
    pub fn crash(world: &mut World) {
        world.executor = Executor::in_phase(Phase::Down);
        world.crashes_left -= 1;
    }

    pub fn start(world: &mut World) {
        world.executor = Executor::in_phase(Phase::Starting);
    }
}
