//! Attempts on other processes, and processes that will not end.

use std::io::{self, Write};
use std::time::Duration;

use gatehouse_sandbox::confine::{SelfPolicy, confine_self};
use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Streams,
};
use nix::libc;
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::Pid;

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let done = |done: nix::Result<()>| done.map(|()| String::new()).map_err(io::Error::from);
    let pid = arguments.small(0);
    Some(match arguments.name {
        "kill" => done(nix::sys::signal::kill(Pid::from_raw(pid), signal(arguments.small(1)))),
        "pidfd" => raw::call(libc::SYS_pidfd_open, [pid.into(), 0, 0, 0, 0, 0]).map(|_| String::new()),
        // Seizing, not attaching: attaching to the first process would stop it, and with it the sandbox.
        "trace" => raw::call(libc::SYS_ptrace, [0x4206, pid.into(), 0, 0, 0, 0]).map(|_| String::new()),
        "wait-forever" => wait_forever(),
        "say-and-wait" => say(arguments).and_then(|_| wait_forever()),
        "exit" => exit(pid),
        "die-by" => die_by(pid),
        "strays" => strays(pid),
        "strays-and-wait" => strays(pid).and_then(|_| wait_forever()),
        "bomb" => bomb(pid),
        "threads" => threads(pid),
        "ignore-term" => ignore_term().and_then(|()| wait_forever()),
        "hold-stdout" => hold_stdout(),
        "pair-of-processes" => Ok(format!("{} {}", std::process::id(), nix::unistd::getppid())),
        "confined" => confined(arguments),
        "launch" => launch(),
        "launch-and-confine" => launch_and_confine(arguments),
        _ => return None,
    })
}

fn signal(number: i32) -> Option<Signal> {
    Signal::try_from(number).ok()
}

fn wait_forever() -> Outcome {
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

fn exit(code: i32) -> Outcome {
    raw::call(libc::SYS_exit_group, [code.into(), 0, 0, 0, 0, 0]).map(|_| String::new())
}

fn die_by(number: i32) -> Outcome {
    let own = Pid::this().as_raw();
    // The language's own handler for SIGSEGV takes the first one.
    for _ in 0..2 {
        raw::call(libc::SYS_kill, [own.into(), number.into(), 0, 0, 0, 0])?;
    }
    wait_forever()
}

/// Forks by hand, twice, into a session of its own, deaf to SIGTERM: what escapes every process group.
fn strays(count: i32) -> Outcome {
    for _ in 0..count {
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["ignore-term"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        // Nobody waits for it: when this process ends it is an orphan.
        drop(child);
    }
    Ok(count.to_string())
}

fn ignore_term() -> io::Result<()> {
    // A process that leads a group already cannot start a session; then it has escaped in another way.
    let _ = nix::unistd::setsid();
    raw_ignore(Signal::SIGTERM)
}

#[allow(unsafe_code, reason = "no handler of ours runs")]
fn raw_ignore(signal: Signal) -> io::Result<()> {
    // SAFETY: the disposition is "ignore": no function is called.
    unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }.map(drop).map_err(io::Error::from)
}

/// Starts processes until it may not; says how many there were.
fn bomb(most: i32) -> Outcome {
    for count in 0..most {
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["wait-forever"])
            .stdout(std::process::Stdio::null())
            .spawn();
        if child.is_err() {
            return Ok(count.to_string());
        }
    }
    Err(io::Error::other("no limit"))
}

fn threads(count: i32) -> Outcome {
    let threads: Vec<_> = (0..count)
        .map(|_| std::thread::Builder::new().spawn(|| std::thread::sleep(Duration::from_millis(100))))
        .collect::<io::Result<_>>()?;
    let joined = threads.into_iter().filter_map(|thread| thread.join().ok()).count();
    Ok(joined.to_string())
}

/// Ends and leaves a child that keeps standard output open.
fn hold_stdout() -> Outcome {
    std::process::Command::new(std::env::current_exe()?).args(["ignore-term"]).spawn().map(drop)?;
    Ok(String::new())
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
            _ => drop(raw::call(libc::SYS_kill, [std::process::id().into(), 9, 0, 0, 0, 0])),
        }
        let ended = confined.hold.ended().await?;
        confined.child.wait().await?;
        Ok(format!("{:?}", ended.how))
    })
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
