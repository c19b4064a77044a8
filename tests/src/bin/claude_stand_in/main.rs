//! A light stand-in for Claude Code: a few megabytes where the real one takes hundreds, for suites with many sessions.
//!
//! It speaks what the shim needs, over the same two ports and with the same arguments: `--version`; the init line; model
//! turns over the Messages API, repeated when the answer breaks off; tool calls over MCP; the result line. It keeps a
//! transcript, so that a session can be resumed. It has no judgement of its own whatever: it does what the model says.

#![forbid(unsafe_code)]

mod arguments;
mod http;
mod times;
mod tools;
mod turns;

use std::io::{Read, Write};
use std::process::ExitCode;

use arguments::Arguments;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = if words.iter().any(|word| word == "--version") {
        say("2.1.247 (Claude Code)")
    } else {
        Arguments::of(&words).and_then(|arguments| run(&arguments))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}

/// The run: from the prompt to the model's last word.
fn run(arguments: &Arguments) -> Result<(), String> {
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).map_err(|error| error.to_string())?;
    let mut tools = tools::Tools::connect(arguments)?;
    say(&init_line(arguments).to_string())?;
    let mut turns = turns::Turns::begin(arguments, &prompt)?;
    let mut count = 0;
    loop {
        count += 1;
        let answer = turns.ask()?;
        if answer.calls.is_empty() {
            let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": answer.text,
                "num_turns": count, "session_id": arguments.session_id});
            return say(&result.to_string());
        }
        let results: Vec<Value> =
            answer.calls.iter().map(|call| tools.call(call)).collect::<Result<_, _>>()?;
        turns.results(&answer, &results);
    }
}

fn init_line(arguments: &Arguments) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": arguments.session_id, "tools": arguments.tools,
        "mcp_servers": [{"name": "gatehouse", "status": "connected"}], "model": arguments.model,
        "permissionMode": arguments.permission_mode, "slash_commands": [], "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": "2.1.247", "skills": [], "plugins": []})
}
