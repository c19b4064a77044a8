//! What can be attempted on macOS only.

use super::outcome::{Arguments, Outcome};

mod raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let done = |done: std::io::Result<()>| done.map(|()| String::new());
    Some(match arguments.name {
        "clone-file" => done(raw::clone_file(arguments.path(0), arguments.path(1))),
        "arguments-of" => raw::arguments_of(arguments.small(0)),
        "information-of" => done(raw::information_of(arguments.small(0))),
        "task-of" => done(raw::task_of(arguments.small(0))),
        "look-up" => done(raw::look_up(arguments.text(0))),
        "set-session" => nix::unistd::setsid().map(|_| String::new()).map_err(Into::into),
        "spawn-in-session" => done(raw::spawn_in_session(arguments.path(0), arguments.text(1))),
        _ => return None,
    })
}
