//! What tunnel-client does with a front that it starts itself: one lifecycle at a time on the child's pipes.

use std::collections::HashSet;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use super::control::Posted;
use crate::record::{Record, Way};

/// The child and what is known of its pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Ids whose deadline passed: what comes for them later is thrown away.
    retired: HashSet<String>,
    record: Record,
}

impl Pipes {
    /// Starts the child from a command line as the profile has it. It ends when this is dropped.
    pub(super) fn start(command: &str, record: Record) -> Self {
        let words = words(command);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the front starts");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { _child: child, input, output, retired: HashSet::new(), record }
    }

    /// Writes a message and reads until its answer is there. `None`: the deadline passed, and nothing is posted.
    pub(super) async fn lifecycle(&mut self, message: &Value, deadline: Option<Instant>) -> Option<Posted> {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await.expect("the front takes its input");
        self.input.flush().await.expect("the front takes its input");
        let Some(id) = message.get("id") else {
            return Some(Posted { code: 202, kind: "notify_ack".to_owned(), json: Value::Null });
        };
        let until = deadline.unwrap_or_else(|| Instant::now() + crate::waiting::PATIENCE);
        loop {
            match timeout_at(until, self.output.next_line()).await {
                Ok(line) => {
                    let line = line.expect("the output can be read").expect("the front has not ended");
                    self.record.add(Way::Mcp, line.clone());
                    let json: Value = serde_json::from_str(&line).expect("one message is one line");
                    if json.get("id") == Some(id) {
                        return Some(Posted { code: 200, kind: "jsonrpc_response".to_owned(), json });
                    }
                    let whose = json["id"].to_string();
                    assert!(self.retired.remove(&whose), "an answer to nothing that was asked: {line}");
                }
                Err(_) => {
                    self.retired.insert(id.to_string());
                    return None;
                }
            }
        }
    }

    /// There are no sessions on pipes.
    pub(super) fn terminate() -> Posted {
        Posted { code: 405, kind: "session_termination_response".to_owned(), json: json!(null) }
    }
}

/// Words as a shell reads them, single quotes only: that is what the profile is written with.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for c in command.chars() {
        match c {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    #[test]
    fn quoted_words_stay_together() {
        assert_eq!(super::words("a  'b c' d'' ''"), ["a", "b c", "d", ""]);
    }
}
