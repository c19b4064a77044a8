//! Which action a tool call of Claude Code is.
//!
//! Claude Code names each call by the id of its `tool_use` block, as long as the reply came as a stream, which it takes
//! apart into one message for each block. Of a reply that came as one JSON message it names every call by the first
//! block: by nothing if that is a text, and by the first call's id if there are several. There the call is known by
//! what it is: the call of the last reply with the same name and the same input that was not made yet. Nothing is
//! weakened by that; the executor performs an authorised action at most once, whoever asks for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatehouse_proto::ids::ToolCallId;

/// A call of a reply that was given as one message.
#[derive(Debug)]
pub struct GivenCall {
    /// The id of its action.
    pub id: String,
    /// The tool's logical name.
    pub name: String,
    /// The digest of its input.
    pub input_sha256: String,
}

#[derive(Debug)]
struct Tracked {
    call: GivenCall,
    made: bool,
}

/// What the last reply was, as far as calls cannot be told apart without it.
#[derive(Debug, Clone, Default)]
pub struct Binding(Arc<Mutex<Vec<Tracked>>>);

impl Binding {
    /// The last reply was given as a stream: each call has its id.
    pub fn streamed(&self) {
        self.calls().clear();
    }

    /// The last reply was given as one message. The same reply may be given again; what was made of it stays made.
    pub fn given_whole(&self, calls: Vec<GivenCall>) {
        let mut tracked = self.calls();
        let same = tracked.iter().map(|tracked| &tracked.call.id).eq(calls.iter().map(|call| &call.id));
        if !same {
            *tracked = calls.into_iter().map(|call| Tracked { call, made: false }).collect();
        }
    }

    /// The action that is meant by a call with this name and input, which names `id`.
    pub fn resolve(&self, id: Option<ToolCallId>, name: &str, input_sha256: &str) -> Option<String> {
        let named = id.map(String::from);
        let mut tracked = self.calls();
        let mut alike: Vec<&mut Tracked> = tracked
            .iter_mut()
            .filter(|one| one.call.name == name && one.call.input_sha256 == input_sha256)
            .collect();
        let is_named = |one: &&mut Tracked| Some(&one.call.id) == named.as_ref();
        let position = alike
            .iter()
            .position(|one| is_named(one) && !one.made)
            .or_else(|| alike.iter().position(|one| !one.made))
            .or_else(|| alike.iter().position(is_named))
            .or_else(|| alike.len().checked_sub(1));
        match position.and_then(|position| alike.get_mut(position)) {
            Some(one) => {
                one.made = true;
                Some(one.call.id.clone())
            }
            None => named,
        }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Tracked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(calls: &[(&ToolCallId, &str, &str)]) -> Binding {
        let given = |&(id, name, input): &(&ToolCallId, &str, &str)| GivenCall {
            id: id.as_str().into(),
            name: name.into(),
            input_sha256: input.into(),
        };
        let binding = Binding::default();
        binding.given_whole(calls.iter().map(given).collect());
        binding
    }

    #[test]
    fn of_a_streamed_reply_the_id_is_what_counts() {
        let [a, b] = [ToolCallId::mint(), ToolCallId::mint()];
        let binding = whole(&[(&a, "Read", "1")]);
        binding.streamed();
        assert_eq!(binding.resolve(Some(b.clone()), "Read", "1"), Some(b.into()));
        assert_eq!(binding.resolve(None, "Read", "1"), None);
    }

    #[test]
    fn of_a_reply_in_one_message_each_call_is_known_by_what_it_is() {
        let [a, b, c] = [ToolCallId::mint(), ToolCallId::mint(), ToolCallId::mint()];
        // Claude Code names them all by the first, or by nothing.
        for named in [Some(a.clone()), None] {
            let binding = whole(&[(&a, "Read", "1"), (&b, "Read", "2"), (&c, "Edit", "1")]);
            assert_eq!(binding.resolve(named.clone(), "Edit", "1"), Some(c.clone().into()));
            assert_eq!(binding.resolve(named.clone(), "Read", "1"), Some(a.clone().into()));
            assert_eq!(binding.resolve(named.clone(), "Read", "2"), Some(b.clone().into()));
            // Asked again: the same.
            assert_eq!(binding.resolve(named.clone(), "Read", "2"), Some(b.clone().into()));
            assert_eq!(binding.resolve(named.clone(), "Read", "3"), named.map(String::from));
        }
    }

    #[test]
    fn equal_calls_of_one_reply_are_each_made_once_also_when_the_reply_is_given_again() {
        let [a, b] = [ToolCallId::mint(), ToolCallId::mint()];
        let calls = [(&a, "Read", "1"), (&b, "Read", "1")];
        let binding = whole(&calls);
        assert_eq!(binding.resolve(Some(a.clone()), "Read", "1"), Some(a.clone().into()));
        let again = calls.iter().map(|&(id, name, input)| GivenCall {
            id: id.as_str().into(),
            name: name.into(),
            input_sha256: input.into(),
        });
        binding.given_whole(again.collect());
        assert_eq!(binding.resolve(Some(a), "Read", "1"), Some(b.into()));
    }
}
