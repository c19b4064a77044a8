//! Processes that will not end, and many of them.

use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::outcome::{Arguments, Outcome};
use super::processes::wait_forever;
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let count = arguments.small(0);
    Some(match arguments.name {
        "strays" => strays(count),
        "strays-and-wait" => strays(count).and_then(|_| wait_forever()),
        "bomb" => bomb(count),
        "threads" => threads(count),
        "ignore-term" => ignore_term().and_then(|()| wait_forever()),
        "hold-stdout" => hold_stdout(),
        "flood" => flood(),
        _ => return None,
    })
}

/// Writes zeros, without a newline, until nobody reads any more.
fn flood() -> Outcome {
    use std::io::Write;
    raw::ignore(Signal::SIGPIPE)?;
    let block = vec![0_u8; 1 << 16];
    loop {
        io::stdout().write_all(&block)?;
    }
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
    raw::ignore(Signal::SIGTERM)
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
