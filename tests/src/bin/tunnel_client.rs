//! A stand-in for OpenAI's `tunnel-client` as a program, with the command lines that the guide has:
//!
//! * `doctor --profile NAME --explain` looks at a profile, at what it names, at the tunnel and at the front, and fails when one of them is not in order;
//! * `run --profile NAME` does the tunnel's work until it is ended, and tells on a page of its own whether it is ready.
//!
//! The real one finds the control plane at OpenAI; this one has to be told where the stand-in for that is, in the variable
//! that the real one has for it.

#![forbid(unsafe_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use bytes::Bytes;
use gatehouse_tests::record::Record;
use gatehouse_tests::tunnel::serving::{response, serve};
use gatehouse_tests::tunnel::{LogIn, Probe, Readiness, TunnelClient, profile};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

const CONTROL_PLANE: &str = "CONTROL_PLANE_BASE_URL";

/// What it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Doctor,
    Run,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match order(&words) {
        Ok((Order::Doctor, name)) => doctor(&name).await,
        Ok((Order::Run, name)) => run(&name).await,
        Err(why) => Err(why),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "tunnel-client (a stand-in): {why}");
            ExitCode::FAILURE
        }
    }
}

/// Only what the guide has is understood, so that the guide cannot say what the real one would refuse.
fn order(words: &[String]) -> Result<(Order, String), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["doctor", "--profile", name, "--explain"] => Ok((Order::Doctor, (*name).to_owned())),
        ["run", "--profile", name] => Ok((Order::Run, (*name).to_owned())),
        other => Err(format!("not understood: {}", other.join(" "))),
    }
}

/// The text of a named profile.
fn named(name: &str) -> Result<String, String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let folder = config.ok_or("there is no HOME")?.join("tunnel-client");
    let file = folder.join(format!("{name}.yaml"));
    std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

fn control_plane() -> Result<SocketAddr, String> {
    let told = std::env::var(CONTROL_PLANE).map_err(|_| format!("{CONTROL_PLANE} is not set"))?;
    let host = told.strip_prefix("http://").ok_or_else(|| format!("{told}: only http:// on this machine"))?;
    host.parse().map_err(|error| format!("{told}: not the root of a host: {error}"))
}

async fn doctor(name: &str) -> Result<(), String> {
    let text = named(name)?;
    profile::read(&text)?;
    let (control_plane, readiness) = TunnelClient::look(&text, control_plane()?).await;
    let tunnel = control_plane.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let checks = [
        ("profile", true, "every key is known".to_owned()),
        ("control plane", control_plane == Some(StatusCode::OK), tunnel),
        ("mcp", !matches!(readiness.probe, Probe::Failed(_)), format!("{:?}", readiness.probe)),
        ("oauth", readiness.log_in == LogIn::None, format!("{:?}", readiness.log_in)),
    ];
    let mut out = std::io::stdout().lock();
    for (check, is_good, found) in &checks {
        let verdict = if *is_good { "ok" } else { "FAILED" };
        writeln!(out, "{verdict:6} {check}: {found}").map_err(|error| error.to_string())?;
    }
    match checks.iter().all(|(_, is_good, _)| *is_good) {
        true => Ok(()),
        false => Err("not in order".to_owned()),
    }
}

async fn run(name: &str) -> Result<(), String> {
    let text = named(name)?;
    let profile = profile::read(&text)?;
    let mut client = TunnelClient::start(&text, control_plane()?, &Record::default()).await;
    show(&profile["health"], client.readiness.clone()).await?;
    let mut asked = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        _ = asked.recv() => Ok(()),
        () = client.ended() => Err("the control plane is gone, or refuses this tunnel or this key".to_owned()),
    }
}

/// Serves the page that says whether it is ready, and writes down where.
async fn show(health: &Value, readiness: Readiness) -> Result<(), String> {
    let word = |key: &str| health[key].as_str().ok_or_else(|| format!("the profile has no health.{key}"));
    let (listen, url_file) = (word("listen_addr")?, word("url_file")?);
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::fs::write(url_file, format!("http://{address}\n"))
        .map_err(|error| format!("{url_file}: {error}"))?;
    serve(listener, move |request| std::future::ready(page(&readiness, request.uri().path())));
    Ok(())
}

fn page(readiness: &Readiness, path: &str) -> Response<Full<Bytes>> {
    match (path, readiness.is_ready()) {
        ("/healthz", _) => response(StatusCode::OK, "live".to_owned()),
        ("/readyz", true) => response(StatusCode::OK, format!("ready ({:?})", readiness.probe)),
        ("/readyz", false) => response(StatusCode::SERVICE_UNAVAILABLE, format!("{readiness:?}")),
        _ => response(StatusCode::NOT_FOUND, String::new()),
    }
}
