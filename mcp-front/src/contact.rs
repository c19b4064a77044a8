//! What reached this front and what became of it, told to the executor: it outlives the front, and `gatehouse doctor` asks it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatehouse_proto::v1::{Contact as Told, Moment};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::executor::Executor;

/// How many clients are remembered.
const CLIENTS: usize = 8;
/// How many characters of a client's name are kept.
const NAME: usize = 60;
/// The least time between two notes to the executor.
const PAUSE: Duration = Duration::from_secs(1);

/// What was seen. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Contact {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Told>,
    news: Notify,
}

fn now(what: impl Into<String>) -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { what: what.into(), at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
}

impl Contact {
    fn note(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.news.notify_one();
    }

    /// The list of tools that is served from now on.
    pub fn serves(&self, tools_sha256: String) {
        self.note(|seen| seen.tools_sha256 = tools_sha256);
    }

    /// A message of a client was let through.
    pub fn request(&self, method: &'static str, message: &Map<String, Value>) {
        self.note(|seen| {
            seen.request = Some(now(method));
            match method {
                "tools/list" => seen.listed = Some(now(seen.tools_sha256.clone())),
                "initialize" | "server/discover" => add_client(seen, message),
                _ => {}
            }
        });
    }

    /// A tool was called.
    pub fn tool(&self, tool: &'static str) {
        self.note(|seen| seen.request = Some(now(tool)));
    }

    /// Something was refused with this code.
    pub fn refused(&self, code: &'static str) {
        self.note(|seen| seen.refusal = Some(now(code)));
    }

    /// A call of this tool is being answered. Unless that is told to have ended, its client is gone.
    #[must_use]
    pub fn answering(&self, tool: &'static str) -> Answering {
        Answering { contact: self.clone(), tool, ended: false }
    }

    /// Tells the executor of each change, for good. What it cannot be told now it is told with the next one.
    pub async fn tell(self, executor: Executor, closing: CancellationToken) {
        loop {
            tokio::select! {
                () = self.shared.news.notified() => {}
                () = closing.cancelled() => return,
            }
            while executor.note(self.seen()).await.is_err() {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = closing.cancelled() => return,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = closing.cancelled() => {}
            }
        }
    }

    fn seen(&self) -> Told {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A call that is being answered; dropped before [`Answering::ended`], nobody waits for it any more.
#[derive(Debug)]
pub struct Answering {
    contact: Contact,
    tool: &'static str,
    ended: bool,
}

impl Answering {
    /// The answer is there.
    pub fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.ended {
            self.contact.note(|seen| seen.unanswered = Some(now(self.tool)));
        }
    }
}

/// What a client calls itself: in the handshake, or in what the latest revision carries along.
fn add_client(seen: &mut Told, message: &Map<String, Value>) {
    let params = message.get("params");
    let meta = || params?.get("_meta")?.get("io.modelcontextprotocol/clientInfo");
    let info = params.and_then(|params| params.get("clientInfo")).or_else(meta);
    let Some(name) = info.and_then(|info| info.get("name")).and_then(Value::as_str) else { return };
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME).collect();
    seen.clients.retain(|client| client.what != name);
    seen.clients.insert(0, now(name));
    seen.clients.truncate(CLIENTS);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn clients_are_known_by_the_name_they_give_and_stay_a_handful() {
        let contact = Contact::default();
        for n in 0..20 {
            let hello = json!({"params": {"clientInfo": {"name": format!("client {}\u{1b}", n % 12)}}});
            contact.request("initialize", &object(&hello));
        }
        let hello = json!({"params": {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "modern"}}}});
        contact.request("server/discover", &object(&hello));
        let clients = contact.seen().clients;
        assert_eq!((clients.len(), clients[0].what.as_str()), (CLIENTS, "modern"));
        assert_eq!(clients[1].what, "client 7");
    }

    #[test]
    fn a_list_is_remembered_by_what_was_served_and_an_answer_by_its_end() {
        let contact = Contact::default();
        contact.serves("ab".into());
        contact.request("tools/list", &Map::new());
        assert_eq!(contact.seen().listed.unwrap().what, "ab");
        contact.answering("native_session_status").ended();
        assert_eq!(contact.seen().unanswered, None);
        drop(contact.answering("native_session_start"));
        assert_eq!(contact.seen().unanswered.unwrap().what, "native_session_start");
    }
}
