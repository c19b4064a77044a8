//! What clients did, as far as it is known: the list of tools they saw, who they are, and what became of the last call.
//!
//! A call that did not work has failed in one of four places, and each leaves another trace: it never reached us, it was
//! refused in the gateway, it ran and failed, or it was done and its answer was lost.

use gatehouse_proto::v1::{ActionEnd, Contact, DiagnoseReply, Moment};
use serde::Serialize;

use super::Line;

/// Where the last call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// No call of a client is known.
    NeverReached,
    /// It was refused, by the front or by the executor; nothing was done.
    FailedInGateway,
    /// It was let through, and what it had done failed.
    RanAndFailed,
    /// It was done, and its client had gone away by then.
    AnswerLost,
    /// It was answered.
    Answered,
}

/// The last call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastCall {
    /// Where it ended.
    pub place: Place,
    /// That in a sentence.
    pub found: String,
    /// What it means for whoever looks for a fault.
    pub what_to_do: String,
    /// The traces: what, which, and when (milliseconds since 1970).
    pub traces: Vec<Trace>,
}

/// One trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// What kind of thing.
    pub kind: &'static str,
    /// Which one.
    pub what: String,
    /// When.
    pub at_ms: u64,
}

/// Decides on the list of tools and the clients.
#[must_use]
pub fn judge(found: &DiagnoseReply) -> Vec<Line> {
    let contact = found.contact.clone().unwrap_or_default();
    vec![tool_list(&contact), clients(&contact)]
}

fn tool_list(contact: &Contact) -> Line {
    const CHECK: &str = "tool_list";
    match &contact.listed {
        None => Line::ok(CHECK, "no client has fetched it yet"),
        Some(listed) if listed.what == contact.tools_sha256 => {
            Line::ok(CHECK, "the one that a client fetched last is the one that is served")
        }
        Some(_) => Line::warning(
            CHECK,
            "it is another one than a client fetched last",
            "ChatGPT keeps the list that it saw: refresh the connector there, or remove and add it again.",
        ),
    }
}

fn clients(contact: &Contact) -> Line {
    let names: Vec<_> = contact.clients.iter().map(|client| client.what.as_str()).collect();
    match names.as_slice() {
        [] => Line::ok("clients", "none has introduced itself yet"),
        names => Line::ok("clients", format!("seen so far, the latest first: {}", names.join(", "))),
    }
}

/// Decides where the last call ended.
#[must_use]
pub fn last_call(found: &DiagnoseReply) -> LastCall {
    let contact = found.contact.clone().unwrap_or_default();
    let at = |moment: &Option<Moment>| moment.as_ref().map_or(0, |moment| moment.at_ms);
    let request = at(&contact.request);
    let (place, found_text, what_to_do) = if request == 0 && at(&contact.refusal) == 0 {
        (
            Place::NeverReached,
            "No call of a client has ever reached the front.".to_owned(),
            "Look at the tunnel's client, its profile and its own `doctor`, then at the connector in ChatGPT.",
        )
    } else if at(&contact.unanswered) > 0 && at(&contact.unanswered) >= request {
        (
            Place::AnswerLost,
            format!("The client of {} was gone before its answer.", what(&contact.unanswered)),
            "What it did is done and kept. The same call with the same ids gives the answer again; native_session_status tells where the session is.",
        )
    } else if at(&contact.refusal) >= request {
        (
            Place::FailedInGateway,
            format!("It was refused: {}.", what(&contact.refusal)),
            "Nothing was done. docs/errors.md says what the code means and what helps.",
        )
    } else if let Some(failed) = found.last_action.as_ref().filter(|action| !action.ok) {
        (
            Place::RanAndFailed,
            format!("It reached us, and the last action failed: {}.", end(failed)),
            "`gatehouse show` has its receipt; docs/errors.md says what the code means.",
        )
    } else {
        (
            Place::Answered,
            format!("{} was answered.", what(&contact.request)),
            "A call that ChatGPT made after that time never reached us: look at the tunnel and at the connector.",
        )
    };
    LastCall { place, found: found_text, what_to_do: what_to_do.to_owned(), traces: traces(&contact, found) }
}

fn what(moment: &Option<Moment>) -> &str {
    moment.as_ref().map_or("nothing", |moment| moment.what.as_str())
}

fn end(action: &ActionEnd) -> String {
    format!(
        "{} in {} ({})",
        action.name,
        action.native_session_id,
        action.code.as_deref().unwrap_or("failed")
    )
}

fn traces(contact: &Contact, found: &DiagnoseReply) -> Vec<Trace> {
    let moment = |kind, moment: &Option<Moment>| {
        moment.as_ref().map(|moment| Trace { kind, what: moment.what.clone(), at_ms: moment.at_ms })
    };
    let action = |kind, action: &Option<ActionEnd>| {
        action.as_ref().map(|action| Trace { kind, what: end(action), at_ms: action.at_ms })
    };
    let all = [
        moment("reached the front", &contact.request),
        moment("refused", &contact.refusal),
        action("action failed", &found.last_failed_action),
        moment("answer lost", &contact.unanswered),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{Ok as Fine, Warning};
    use super::*;

    fn moment(at_ms: u64) -> Option<Moment> {
        Some(Moment { what: format!("m{at_ms}"), at_ms })
    }

    fn found(contact: Contact, ok: Option<bool>) -> DiagnoseReply {
        let action = ok.map(|ok| ActionEnd { ok, name: "Read".into(), at_ms: 5, ..ActionEnd::default() });
        let failed = action.clone().filter(|action| !action.ok);
        DiagnoseReply {
            contact: Some(contact),
            last_action: action,
            last_failed_action: failed,
            ..DiagnoseReply::default()
        }
    }

    #[test]
    fn the_four_places_where_a_call_can_fail_are_told_apart() {
        let contact =
            |request, refusal, unanswered| Contact { request, refusal, unanswered, ..Contact::default() };
        for (contact, ok, place) in [
            (contact(None, None, None), None, Place::NeverReached),
            (contact(moment(9), moment(3), moment(4)), Some(true), Place::Answered),
            (contact(moment(9), None, None), Some(false), Place::RanAndFailed),
            (contact(moment(9), moment(9), None), Some(false), Place::FailedInGateway),
            (contact(None, moment(2), None), None, Place::FailedInGateway),
            (contact(moment(9), moment(8), moment(9)), Some(false), Place::AnswerLost),
        ] {
            let call = last_call(&found(contact.clone(), ok));
            assert_eq!(call.place, place, "{contact:?}");
            assert!(!call.what_to_do.is_empty());
        }
    }

    #[test]
    fn another_list_than_the_one_a_client_saw_is_a_warning() {
        let contact = |listed: &str| Contact {
            listed: Some(Moment { what: listed.into(), at_ms: 1 }),
            tools_sha256: "ab".into(),
            ..Contact::default()
        };
        assert_eq!(tool_list(&contact("ab")).verdict, Fine);
        assert_eq!(tool_list(&contact("cd")).verdict, Warning);
        assert_eq!(tool_list(&Contact::default()).verdict, Fine);
    }
}
