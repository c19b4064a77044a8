//! What must be true when a round is over.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, processes};
use serde_json::Value;

use super::Totals;
use super::player::{Asked, Player, Replied};

/// Judges a round, and adds it to the totals.
pub async fn judge(gateway: &Gateway, player: &mut Player, session: &str, totals: &Totals) {
    in_the_ledger(gateway, &player.replies, session).await;
    on_disk(gateway, player, session);
    can_be_recovered(player).await;
    nothing_of_the_commands_runs(&player.replies).await;
    let acknowledged = || player.replies.iter().filter(|reply| reply.acknowledged);
    let calls = || acknowledged().flat_map(|reply| &reply.calls);
    let done = calls().filter(|call| call.told.as_ref().is_some_and(|told| told.0)).count();
    for (total, count) in [
        (&totals.replies, acknowledged().count()),
        (&totals.calls, calls().count()),
        (&totals.done, done),
        (&totals.repeats, player.patient.repeats),
        (&totals.recoveries, player.patient.recoveries),
        (&totals.resumed, player.resumed),
    ] {
        total.fetch_add(count, Ordering::Relaxed);
    }
}

/// Each acknowledged reply stands there exactly once, with its turn and all its calls; a refused one not at all; and each
/// call was settled exactly once.
async fn in_the_ledger(gateway: &Gateway, replies: &[Replied], session: &str) {
    let journal = gateway.journal().await;
    let own = journal.iter().filter(|event| event.native_session_id == session);
    let events: Vec<(&str, Value)> =
        own.map(|event| (&*event.kind, serde_json::from_str(&event.body_json).unwrap())).collect();
    let mut settled: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, body) in &events {
        if matches!(*kind, "action.settled" | "action.cancelled") {
            *settled.entry(body["tool_call_id"].as_str().unwrap()).or_default() += 1;
        }
    }
    for reply in replies {
        let committed: Vec<&Value> = events
            .iter()
            .filter(|(kind, body)| *kind == "reply.committed" && body["reply_id"] == *reply.reply_id)
            .map(|(_, body)| body)
            .collect();
        assert_eq!(committed.len(), usize::from(reply.acknowledged), "{reply:?}: {committed:?}");
        for body in committed {
            let calls = body["calls"].as_array().unwrap();
            assert_eq!(
                (body["turn_id"].as_str().unwrap(), calls.len()),
                (&*reply.turn_id, reply.calls.len())
            );
            for call in calls {
                let id = call["tool_call_id"].as_str().unwrap();
                assert_eq!(settled.get(id), Some(&1), "{id} of {reply:?}");
            }
        }
    }
}

/// What was told is what can be seen, and nothing was done twice.
fn on_disk(gateway: &Gateway, player: &Player, session: &str) {
    let scratch = gateway.state_dir().join("sessions").join(session).join("scratch");
    let effects = player.effects(&scratch);
    for reply in &player.replies {
        for call in &reply.calls {
            let most = most_effects(call, reply.acknowledged);
            let seen = effects[&call.mark];
            assert!(seen <= most, "{seen} effects of {call:?}, acknowledged: {}", reply.acknowledged);
            let told = call.told.as_ref();
            assert_eq!(told.is_some(), reply.acknowledged, "{call:?}");
            if told.is_some_and(|told| told.0) {
                assert_eq!(seen, most, "{call:?}");
            } else if let Some((_, code)) = told {
                assert_eq!(code, "cancelled", "{call:?}");
            }
        }
    }
}

/// A command that was cut off may have come as far as its first step; a write that is told not to be done is not.
fn most_effects(call: &Asked, acknowledged: bool) -> usize {
    use super::plan::Deed;
    let was_done = call.told.as_ref().is_some_and(|told| told.0);
    match call.deed {
        _ if !acknowledged => 0,
        Deed::Read => 0,
        Deed::Command => 1,
        Deed::Edit | Deed::Write => usize::from(was_done),
    }
}

/// A session that was stopped can be looked at for ever.
async fn can_be_recovered(player: &mut Player) {
    match player.patient.recover().await {
        Ok(state) => assert_eq!(state.status(), "stopped", "{}", state.0),
        Err(refused) => panic!("not to be recovered: {refused}; {}", refused.what_to_do),
    }
}

async fn nothing_of_the_commands_runs(replies: &[Replied]) {
    let children: Vec<String> =
        replies.iter().flat_map(|reply| &reply.calls).map(|call| format!("child-{}", call.mark)).collect();
    until("every process of every command is gone", async || {
        let all = processes::all();
        let mut arguments = all.iter().flat_map(|process| &process.arguments);
        (!arguments.any(|argument| children.contains(argument))).then_some(())
    })
    .await;
}
