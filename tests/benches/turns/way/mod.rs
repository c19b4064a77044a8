//! The bare way of a turn: as many processes and hops, through the same libraries, with the commit and nothing else in it.
//!
//! Claude Code's place → (HTTP) → shim → (gRPC) → executor, which commits a row → (gRPC) → front → (HTTP) → ChatGPT's place, and back
//! the same way. No JSON, no MCP, no session, nothing looked at or checked: what a turn cannot cost less than while it goes this way.

mod grpc;
mod http;
mod parts;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use gatehouse_tests::dice::Dice;
pub use parts::Part;

use super::legs::Legs;
use super::{now, seconds};

/// About as long as the requests of a turn with one Read are.
const REPLY: usize = 640;
const ASK: usize = 430;

/// The way, and both its ends.
pub struct Way {
    parts: Vec<Child>,
    chatgpt: http::Connection,
    /// What was noted in Claude Code's place: when the reply to a request began to come, and when the next one was sent.
    noted: Receiver<(Duration, Duration)>,
    /// Where its rows are written.
    _folder: tempfile::TempDir,
}

impl Way {
    /// Starts its processes. Something is asked for already.
    pub fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (executor, socket) = start(Part::Executor, folder.path().to_str().unwrap());
        let (front, front_port) = start(Part::Front, &socket);
        let (shim, shim_port) = start(Part::Shim, &socket);
        let mut chatgpt = http::Connection::to(&front_port);
        let noted = claude(http::Connection::to(&shim_port));
        // An empty reply is none: it waits for the first request.
        chatgpt.post(0);
        Self { parts: vec![executor, front, shim], chatgpt, noted, _folder: folder }
    }

    /// A reply, until the next request is there.
    pub fn turn(&mut self, legs: &mut Legs) {
        let sent = now();
        self.chatgpt.post(REPLY);
        let returned = now();
        let (began, next) = self.noted.recv().expect("the other end is there");
        legs.answered.bare_way.push(seconds(sent, began));
        legs.asked.bare_way.push(seconds(next, returned));
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        for part in self.parts.iter_mut().rev() {
            let _ = part.kill();
            let _ = part.wait();
        }
    }
}

/// Starts a part of it; gives what it says of itself when it is ready.
fn start(part: Part, word: &str) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(parts::VARIABLE, part.name())
        .env(parts::WORD, word)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts once more");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).expect("it says that it is ready");
    (child, line.trim_end().to_owned())
}

/// Claude Code's place: asks, and pauses between a reply and the next request as the stand-in does.
fn claude(mut shim: http::Connection) -> Receiver<(Duration, Duration)> {
    let (note, noted) = mpsc::channel();
    thread::spawn(move || {
        let mut dice = Dice::of(2);
        loop {
            let Some(began) = shim.ask(ASK) else { return };
            thread::sleep(Duration::from_micros(dice.within(0..8000)));
            if note.send((began, now())).is_err() {
                return;
            }
        }
    });
    noted
}
