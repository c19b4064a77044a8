//! Attempts on other processes, and processes that will not end.

use std::io::{self, Write};
use std::time::Duration;

use gatehouse_sandbox::confine::{SelfPolicy, confine_self};
use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Streams,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let done = |done: nix::Result<()>| done.map(|()| String::new()).map_err(io::Error::from);
    let pid = arguments.small(0);
    Some(match arguments.name {
        "kill" => done(nix::sys::signal::kill(Pid::from_raw(pid), signal(arguments.small(1)))),
        "wait-forever" => wait_forever(),
        "say-and-wait" => say(arguments).and_then(|_| wait_forever()),
        "exit" => raw::leave(pid),
        "identity" => Ok(identity()),
        "run" => run(arguments),
        "die-by" => die_by(pid),
        "pair-of-processes" => Ok(format!("{} {}", std::process::id(), nix::unistd::getppid())),
        "confined" => confined(arguments),
        "launch" => launch(),
        "launch-and-wait" => launch_and_wait(arguments),
        "launch-and-confine" => launch_and_confine(arguments),
        _ => return None,
    })
}

fn signal(number: i32) -> Option<Signal> {
    Signal::try_from(number).ok()
}

pub fn wait_forever() -> Outcome {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

/// Says that it has come this far.
fn say(arguments: &Arguments<'_>) -> Outcome {
    let text = arguments.text(0).to_string_lossy().into_owned();
    let mut out = io::stdout();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(text)
}

fn die_by(number: i32) -> Outcome {
    // By number: some signals have no name in the library. The language's own handler for SIGSEGV takes the first one.
    for _ in 0..2 {
        raw::signal_itself(number)?;
    }
    wait_forever()
}

/// Who this process is to the kernel: its real and its effective user.
fn identity() -> String {
    format!("{} {}", nix::unistd::getuid(), nix::unistd::geteuid())
}

/// Runs a program; the last line of what it says, on either stream, and how it ended.
fn run(arguments: &Arguments<'_>) -> Outcome {
    let mut command = std::process::Command::new(arguments.text(0));
    command.args((1..arguments.count()).map(|at| arguments.text(at))).stdin(std::process::Stdio::null());
    let output = command.output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last().unwrap_or("");
    if output.status.success() { Ok(last.to_owned()) } else { Err(io::Error::other(last)) }
}

fn launch_request(argv: Vec<std::ffi::OsString>) -> LaunchRequest {
    LaunchRequest {
        argv,
        cwd: "/".into(),
        env: std::collections::BTreeMap::new(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Command,
    }
}

fn nowhere() -> Streams {
    let nowhere = std::process::Stdio::null;
    Streams { stdin: nowhere(), stdout: nowhere(), stderr: nowhere() }
}

/// Starts a program that will not end by itself, confines itself, and then ends it by what it still has: by the `hold`
/// alone, by a `signal` through it, by `leaving`, or by being `killed`.
fn launch_and_confine(arguments: &Arguments<'_>) -> Outcome {
    let policy = SelfPolicy { reachable: vec![arguments.path(0).to_owned()] };
    let program = ["say-and-wait".into(), arguments.text(1).to_owned()];
    let argv = std::iter::once(std::env::current_exe()?.into_os_string()).chain(program).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let launcher = Launcher::beside_own_executable()?;
    let confinement = Confinement { readable: vec![std::env::current_exe()?], ..Confinement::default() };
    runtime.block_on(async {
        let started = launcher.start_confined(&launch_request(argv), &confinement, nowhere()).await;
        let mut confined = started.map_err(io::Error::other)?;
        confine_self(&policy).map_err(io::Error::other)?;
        match arguments.text(2).to_str() {
            Some("hold") => confined.hold.kill().await?,
            Some("signal") => confined.hold.signal(Signal::SIGTERM)?,
            Some("leaving") => return Ok(String::new()),
            // Nothing of ours runs after this, so that only the kernel can end the program.
            _ => raw::signal_itself(9)?,
        }
        let ended = confined.hold.ended().await?;
        confined.child.wait().await?;
        Ok(format!("{:?}", ended.how))
    })
}

/// Starts a confined program that will not end by itself, says so, and waits to be killed.
fn launch_and_wait(arguments: &Arguments<'_>) -> Outcome {
    let argv =
        [std::env::current_exe()?.into_os_string(), "say-and-wait".into(), arguments.text(0).to_owned()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let launcher = Launcher::beside_own_executable()?;
    let confinement = Confinement { readable: vec![std::env::current_exe()?], ..Confinement::default() };
    let request = launch_request(argv.into());
    let started = launcher.start_confined(&request, &confinement, nowhere());
    let confined = runtime.block_on(started).map_err(io::Error::other)?;
    say(arguments)?;
    drop(wait_forever());
    drop(confined);
    Ok(String::new())
}

/// Starts a confined program, or says why that cannot be.
fn launch() -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let launcher = Launcher::beside_own_executable()?;
    let done = runtime.block_on(launcher.start_confined(
        &launch_request(vec!["/bin/true".into()]),
        &Confinement::default(),
        nowhere(),
    ));
    Ok(done.map_or_else(|error| error.to_string().replace('\n', " "), |_| "started".to_owned()))
}

/// Confines itself to the directory, then makes another attempt.
fn confined(arguments: &Arguments<'_>) -> Outcome {
    let policy = SelfPolicy { reachable: vec![arguments.path(0).to_owned()] };
    let layers = confine_self(&policy).map_err(io::Error::other)?;
    let next = arguments.rest_from(1);
    if next.name == "layers" {
        return Ok(layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(" "));
    }
    super::attempt(&next)
}
