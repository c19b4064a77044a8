//! A number that is used again names somebody else.

use std::process::{Child, Command, Stdio};

use gatehouse_tests::binaries::binary;
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, processes};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::{World, gone};

/// The highest number up to which trying every one of them is a matter of seconds.
const FEW: u32 = 65_536;

/// Set where the test runs in a pid namespace of its own.
const INSIDE: &str = "GATEHOUSE_TEST_PID_NAMESPACE";

/// Who gets the number of the dead shim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    /// Notes every signal that it gets.
    Script,
    /// The same program with the same nonce among its arguments: only its start tells it from the dead one.
    Twin,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_a_dead_runners_number_gets_no_signal() {
    stranger(Foreign::Script, "a_stranger_with_a_dead_runners_number_gets_no_signal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_the_same_program_with_the_same_arguments() {
    stranger(Foreign::Twin, "nor_does_the_same_program_with_the_same_arguments").await;
}

async fn stranger(foreign: Foreign, test: &str) {
    if !numbers_can_be_had() {
        return with_numbers_of_its_own(test);
    }
    let Some(mut world) = World::new("").await else { return };
    let (shim, claude) = (world.shim(), world.claude().unwrap());
    let arguments = processes::all().into_iter().find(|process| process.pid == shim).unwrap().arguments;
    // Whoever is left without a parent is ours to wait for, so that the number can become free.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    world.gateway.kill_executor();
    processes::signal(shim, Signal::SIGKILL);
    gone(claude).await;
    until("the number is free", async || {
        let _ = waitpid(Pid::from_raw(i32::try_from(shim).unwrap()), Some(WaitPidFlag::WNOHANG));
        (!std::path::Path::new(&format!("/proc/{shim}")).exists()).then_some(())
    })
    .await;
    let notes = Project::empty();
    let mut child = with_number(shim, || match foreign {
        Foreign::Script => script(&notes),
        Foreign::Twin => twin(&arguments),
    })
    .await;
    world.gateway.start_executor().await;
    let state = world.brain.recover().await.unwrap().clone();
    assert_eq!((state.status(), &state.0["runtime_attached"]), ("idle", &false.into()), "{}", state.0);
    assert_eq!(state.0["last_result"]["ok"], false);
    world.goes_on().await;
    world.brain.stop("Enough.").await.unwrap();
    world.brain.until(|state| state.status() == "stopped").await.unwrap();
    assert_eq!((child.id(), child.try_wait().unwrap()), (shim, None), "the stranger lives");
    let noted = std::fs::read_to_string(notes.path().join("signals")).unwrap_or_default();
    assert_eq!(noted, "", "and was let be");
    finish(world.gateway, child).await;
}

async fn finish(gateway: Gateway, mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
    gateway.finish().await;
}

fn script(notes: &Project) -> Child {
    let file = notes.path().join("signals");
    let script = format!(
        "for name in TERM INT HUP QUIT USR1 USR2; do trap \"echo $name >> '{}'\" $name; done; while read line; do :; done",
        file.display()
    );
    Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap()
}

/// A shim that waits for a token that does not come.
fn twin(arguments: &[String]) -> Child {
    let mut command = Command::new(binary("runner-shim"));
    command
        .args(&arguments[1..])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Plays the test once more where its numbers are its own: as the first user of a pid namespace.
fn with_numbers_of_its_own(test: &str) {
    assert!(std::env::var_os(INSIDE).is_none(), "not even here can numbers be chosen");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    command.arg(std::env::current_exe().unwrap()).args([
        "--exact",
        &format!("identity::{test}"),
        "--nocapture",
    ]);
    let ended = command.env(INSIDE, "1").status().expect("unshare(1) of util-linux is there");
    assert!(ended.success(), "inside a pid namespace: {ended}");
}

fn last_number() -> std::io::Result<std::fs::File> {
    std::fs::File::options().write(true).open("/proc/sys/kernel/ns_last_pid")
}

fn numbers_can_be_had() -> bool {
    let most = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let few = most.trim().parse().is_ok_and(|most: u32| most <= FEW);
    few || set_last(1).is_ok()
}

/// Has the system give out numbers from the next one on, where we may.
fn set_last(number: u32) -> std::io::Result<()> {
    use std::io::Write;
    last_number()?.write_all(number.to_string().as_bytes())
}

/// Starts processes until one has this number.
async fn with_number(number: u32, start: impl Fn() -> Child) -> Child {
    for _ in 0..FEW * 2 {
        // Where we may not, the system comes round to it by itself.
        let _ = set_last(number - 1);
        let mut child = start();
        if child.id() == number {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("no process could be given the number again");
}
