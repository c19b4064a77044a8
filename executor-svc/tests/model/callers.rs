//! What ChatGPT and the person at the machine ask.

use executor_svc::session::{
    Answer, CallRequest, Command, Decision, Refusal, Resolution, ResolveAsk, RootStanding, SUBAGENT_GET,
    SUBAGENT_START, SUBAGENT_STOP, TokenStanding, TurnStanding,
};

use super::Gateway;
use super::commit::{Asker, Once, receipt};
use super::ids;
use super::moves::{Shape, count};
use super::world::{Scope, Standing, Tool, World};

type Told = Result<Answer, Refusal>;

impl Gateway {
    pub fn reply(&self, world: &mut World, lease: u8, id: u8, turn: u8, shape: Shape) -> Told {
        let content = turn * 16 + shape as u8;
        let once = Once { scope: Scope::Reply, key: id, content, mints: None };
        let calls = Ok(calls(world, shape.calls()));
        let standing = world.ledger.turns.get(usize::from(turn)).map(|row| match row.standing {
            Standing::Pending => TurnStanding::Pending,
            Standing::Answered => TurnStanding::Answered,
            Standing::Abandoned => TurnStanding::Abandoned,
        });
        self.submit(world, Asker::Holder(lease), Some(once), |claim| Command::Reply {
            lease: ids::lease(lease),
            claim,
            reply_id: ids::key(id),
            turn_id: ids::turn(turn),
            turn: standing,
            text: String::new(),
            calls,
        })
    }

    pub fn go_on(&self, world: &mut World, lease: u8, key: u8, content: u8) -> Told {
        let once = Once { scope: Scope::Continue, key, content, mints: None };
        let run_id = ids::run(count(world.ledger.runs.len()));
        self.submit(world, Asker::Holder(lease), Some(once), |claim| Command::Continue {
            lease: ids::lease(lease),
            claim,
            run_id,
            prompt: String::new(),
            root: RootStanding::Same,
        })
    }

    pub fn recover(&self, world: &mut World, key: u8, right: bool) -> Told {
        let minted = world.ledger.leases;
        let once = Once { scope: Scope::Recover, key, content: 0, mints: Some(minted) };
        self.submit(world, Asker::House, Some(once), |claim| Command::Recover {
            token: if right { TokenStanding::Right } else { TokenStanding::Wrong },
            claim,
            lease_id: ids::lease(minted),
            root: RootStanding::Same,
        })
    }

    pub fn stop(&self, world: &mut World, lease: Option<u8>, key: u8, content: u8) -> Told {
        let once = Once { scope: Scope::Stop, key, content, mints: None };
        let asker = lease.map_or(Asker::House, Asker::Holder);
        self.submit(world, asker, Some(once), |claim| Command::Stop {
            lease: lease.map(ids::lease),
            claim,
            request_id: ids::key(key),
            reason: String::new(),
        })
    }

    pub fn look(&self, world: &mut World, lease: u8) -> Told {
        self.submit(world, Asker::Holder(lease), None, |_| Command::Look { lease: ids::lease(lease) })
    }

    /// A person decides about an uncertain write: what is on the disk stays.
    pub fn resolve(&self, world: &mut World, action: u8) -> Told {
        let key = count(world.ledger.once.len());
        let once = Once { scope: Scope::Resolve, key, content: action, mints: None };
        let ask = ResolveAsk {
            id: ids::call(ids::OPERATIONS + action),
            request_id: ids::key(key),
            resolves: ids::call(action),
            decision: Decision::KeepDisk,
            intent: None,
        };
        self.submit(world, Asker::House, Some(once), |claim| Command::BeginResolve(claim, Box::new(ask)))
    }

    pub fn finish_resolve(&self, world: &mut World) -> Told {
        let by = world.session.undoing.clone().expect("one is under way");
        let resolves = ids::call(ids::number(by.as_str()) - ids::OPERATIONS);
        let resolution = Resolution { by, own: receipt(true), resolves, receipt: receipt(false) };
        self.submit(world, Asker::House, None, |_| Command::Resolve(Box::new(resolution)))
    }
}

/// The names that calls have.
const NAMES: [(Tool, &str); 6] = [
    (Tool::Read, "Read"),
    (Tool::Write, "Write"),
    (Tool::Command, "RunCommand"),
    (Tool::Start, SUBAGENT_START),
    (Tool::Get, SUBAGENT_GET),
    (Tool::Stop, SUBAGENT_STOP),
];

fn name_of(tool: Tool) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == tool).expect("each has one").1
}

pub fn tool_of(name: &str) -> Tool {
    NAMES.iter().find(|(_, known)| *known == name).expect("a name of this model").0
}

/// Calls of these tools, under the numbers that come next.
pub fn calls(world: &World, tools: &[Tool]) -> Vec<CallRequest> {
    let first = count(world.ledger.actions.len());
    let call = |(number, tool): (u8, &Tool)| CallRequest {
        id: ids::call(number),
        name: name_of(*tool).to_owned(),
        client_id: None,
        input: String::new(),
        input_sha256: String::new(),
    };
    (first..).zip(tools).map(call).collect()
}
