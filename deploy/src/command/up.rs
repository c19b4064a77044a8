//! `gatehouse up`.

use std::io::Write;

use serde_json::json;

use super::signals::StopSignals;
use crate::chatgpt::Endpoint;
use crate::cli::Up;
use crate::failure::Failure;
use crate::gateway::{Gateway, Hold, Logs, Options};
use crate::screen::{Screen, Style};
use crate::settings::{Binaries, Place};

pub(super) async fn run(place: Place, options: Up, screen: &mut Screen) -> Result<(), Failure> {
    let mut signals = StopSignals::watch()?;
    let binaries = Binaries::beside_this()?;
    let mut hold = Hold::take(&binaries.runtime_dir(&place).await?)?;
    let start = Options { place, listen: options.listen, environment: Vec::new(), logs: Logs::Shown };
    let mut gateway = tokio::select! {
        started = Gateway::start(&binaries, start) => started?,
        // The children are killed with their handles; no session can exist yet.
        () = signals.received() => return Ok(()),
    };
    hold.note(&match gateway.endpoint() {
        Endpoint::Tcp { address, .. } => address.to_string(),
        Endpoint::Unix { socket } => format!("unix:{}", socket.display()),
    })?;
    if options.json {
        screen.line(ready_line(&gateway))?;
    } else {
        ready_screen(&gateway, screen)?;
    }
    tokio::select! {
        () = signals.received() => {}
        () = gateway.watch(say) => {}
    }
    let stopped = gateway.shut_down().await;
    if !options.json {
        screen.line(format!("Gatehouse is down; running sessions stopped: {stopped}."))?;
    }
    Ok(())
}

fn say(text: &str) {
    // Standard error may be closed; the gateway goes on all the same.
    let _ = writeln!(std::io::stderr(), "gatehouse: {text}");
}

fn ready_line(gateway: &Gateway) -> String {
    let settings = gateway.settings();
    json!({
        "endpoint": gateway.endpoint().url(),
        "key_file": settings.front.key_file,
        "state_dir": settings.state_dir,
        "runtime_dir": settings.runtime_dir,
    })
    .to_string()
}

/// This program as it was called, so that what is shown can be typed.
fn called() -> String {
    let name = std::env::args_os().next().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
        .unwrap_or_else(|| "gatehouse".to_owned())
}

fn ready_screen(gateway: &Gateway, screen: &mut Screen) -> std::io::Result<()> {
    let settings = gateway.settings();
    let gatehouse = called();
    let up = screen.paint(Style::Good, "Gatehouse is up.");
    screen.line(up)?;
    screen.line("")?;
    let mut facts = vec![("MCP endpoint", gateway.endpoint().url())];
    if let Endpoint::Tcp { .. } = gateway.endpoint() {
        facts.push((
            "key file",
            format!("{} (send its content as X-Gatehouse-Key)", settings.front.key_file.display()),
        ));
    }
    facts.push(("state", settings.state_dir.display().to_string()));
    facts.push(("sockets", settings.runtime_dir.display().to_string()));
    screen.facts(&facts)?;
    screen.line("")?;
    screen.heading("Next")?;
    screen.line("  1. Write a profile for OpenAI's tunnel-client, and run that (docs/chatgpt.md):")?;
    screen.line(format!("       {gatehouse} tunnel-profile TUNNEL_ID"))?;
    screen.line("  2. Make the app in ChatGPT; it will see six native_session_* tools.")?;
    screen.line("  3. Look on from a second terminal:")?;
    for command in ["doctor", "sessions", "watch", "show SESSION_ID"] {
        screen.line(format!("       {gatehouse} {command}"))?;
    }
    screen.line("")?;
    screen.line(format!("Ctrl-C here, or `{gatehouse} down` elsewhere, ends the gateway and its sessions."))
}
