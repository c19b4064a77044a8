//! Serves one run of one session: everything that Claude Code talks to, and Claude Code's own start and end.
//!
//! ```text
//! executor-svc ◀──gRPC, runner.sock── runner-shim ──launches──▶ claude --bare, in a sandbox with a network of its own
//!                     (link)            ├ Messages API ◀── model turns   (messages)
//!                                       └ MCP server   ◀── tool calls    (tools)
//! ```
//!
//! The shim decides nothing and stores nothing. A model request becomes an `OpenTurn`, which the executor knows by its
//! key however often it is asked; a tool call becomes an `InvokeTool`, which the executor authorised before. So the
//! executor may be restarted at any moment: the shim asks again. Claude Code may repeat a request at any moment: it
//! gets the same answer.
//!
//! What must hold here: only requests with this run's own secrets are served; nothing that leaves (messages to the
//! executor, logs) holds a secret, port, pid or internal path; Claude Code never outlives the shim, and the shim never
//! outlives the lease when the executor stays away.
//!
//! Once Claude Code runs, the shim gives up all that it does not need for that ([`process::confine`]): from then on there
//! is no file, no program and no socket that it could reach but the executor's.

#![forbid(unsafe_code)]

mod binding;
mod claude;
mod clean;
mod gate;
mod link;
mod messages;
mod plan;
mod ports;
mod process;
mod run;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use gatehouse_proto::ids::LinkToken;
use gatehouse_proto::socket::steady;

/// What the executor starts a shim with. The link token comes on standard input: arguments can be read by others.
#[derive(Debug, clap::Parser)]
#[command(version, about)]
pub struct Args {
    /// The executor's socket for runners.
    #[arg(long, value_name = "PATH")]
    runner_socket: PathBuf,
    /// Marks this process, so that a restarted executor can tell it from any other. No secret.
    #[arg(long, value_name = "HEX", value_parser = parse_nonce)]
    run_nonce: String,
}

fn parse_nonce(text: &str) -> Result<String, &'static str> {
    let hex = (16..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex { Ok(text.to_owned()) } else { Err("16 to 128 hexadecimal digits are needed") }
}

/// The whole life of a shim.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the shim ends");
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &Args) -> Result<(), process::StartError> {
    process::set_apart()?;
    process::log_to_stderr();
    let token = process::read_token(std::io::stdin().lock())?;
    process::seal()?;
    // One thread: a waiting shim is to be small, Claude Code is tied to the life of the thread that starts it, and only a
    // process with one thread can confine itself.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(process::StartError::Runtime)?;
    runtime.block_on(run_with(args, &token))
}

async fn run_with(args: &Args, token: &LinkToken) -> Result<(), process::StartError> {
    let socket = steady(&args.runner_socket).map_err(process::StartError::Socket)?;
    let link = link::Link::new(&socket, token).map_err(process::StartError::Socket)?;
    let orders = process::stop_signals().map_err(process::StartError::Signals)?;
    run::to_the_end(link, &socket, orders).await;
    Ok(())
}
