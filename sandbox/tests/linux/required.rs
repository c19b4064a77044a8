//! What is required is there, or nothing runs.

use std::path::Path;
use std::process::Stdio;

use gatehouse_sandbox::launch::{
    Confinement, LaunchError, Launcher, Layer, Network, Policy, Remedy, Scratch, Stage, Streams,
};

use gatehouse_sandbox::probe::Report;

use crate::host::Host;
use crate::probe::{Cause, PROBE, command, inside, request, run, start};

fn layers(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The failed layer of a launch that would otherwise leave a mark.
async fn failure(policy: Policy, confinement: &Confinement, host: &Host) -> (Layer, i32) {
    let marker = host.path("ws/marker");
    let request = request(policy, &["/usr/bin/touch".into(), marker.to_str().unwrap().to_owned()]);
    let failed = start(&request, confinement).await;
    assert!(!marker.exists());
    match failed {
        Err(LaunchError::Layer(failure)) => (failure.layer, failure.errno),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_layers_in_force_are_told_in_the_order_in_which_they_were_put_up() {
    let host = Host::new();
    let run = run(&request(Policy::Command, &["/bin/true"]), &command(&host)).await;
    let expected = "userns mountns pidns ipcns utsns cgroupns read_only_view scratch dev proc masks netns capabilities \
        no_new_privs rlimits landlock landlock_tcp landlock_scopes seccomp";
    // What Landlock has beyond its file rules depends on the kernel.
    let optional = |name: &&str| !["landlock_tcp", "landlock_scopes"].contains(name);
    let found = layers(&run.enforced_by);
    assert_eq!(
        found.iter().copied().filter(optional).collect::<Vec<_>>(),
        expected.split_whitespace().filter(optional).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_policy_gets_no_network_that_it_does_not_allow() {
    let host = Host::new();
    let with = |network| Confinement { network, ..command(&host) };
    let listeners = || Network::Listeners { ports: vec![4001] };
    for (policy, network) in [
        (Policy::Command, listeners()),
        (Policy::Git, listeners()),
        (Policy::Git, Network::PrivateLoopback),
        (Policy::Claude, Network::PrivateLoopback),
    ] {
        assert_eq!(failure(policy, &with(network), &host).await, (Layer::Seccomp, 22));
    }
    let low = Network::Listeners { ports: vec![80] };
    assert_eq!(failure(Policy::Claude, &with(low), &host).await, (Layer::Loopback, 22));
}

#[tokio::test]
async fn a_place_that_is_not_there_fails_the_launch() {
    let host = Host::new();
    let gone = host.path("gone");
    let scratch =
        Confinement { scratch: Scratch::Directory { path: gone.clone(), bytes: 1 }, ..command(&host) };
    assert_eq!(failure(Policy::Command, &scratch, &host).await, (Layer::Scratch, 2));
    let writable = Confinement { writable: vec![gone], ..command(&host) };
    assert_eq!(failure(Policy::Command, &writable, &host).await, (Layer::ReadOnlyView, 2));
    let relative = Confinement { writable: vec!["ws".into()], ..command(&host) };
    assert_eq!(failure(Policy::Command, &relative, &host).await, (Layer::ReadOnlyView, 22));
    let all = Confinement { hidden: vec!["/".into()], ..command(&host) };
    assert_eq!(failure(Policy::Command, &all, &host).await, (Layer::Masks, 22));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_a_failed_exec_and_not_its_own_end() {
    let host = Host::new();
    for (program, errno) in [("/nonexistent/gatehouse/program", 2), ("/etc/passwd", 13), ("/etc", 13)] {
        match start(&request(Policy::Command, &[program]), &command(&host)).await {
            Err(LaunchError::Step { stage, errno: found }) => {
                assert_eq!((stage, found), (Stage::Exec, errno));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn sandboxes_do_not_nest_and_say_so() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.readable.push(Path::new(PROBE).parent().unwrap().to_owned());
    assert!(inside(&confined, &["launch"]).await.is_ok_and_contains("userns"));
    assert!(crate::probe::outside(&["launch"]).is_ok_and_contains("started"));
    let bwrap = request(Policy::Command, &["/usr/bin/unshare", "-Ur", "/bin/true"]);
    let run = run(&bwrap, &confined).await;
    assert!(run.stderr.contains("Operation not permitted"), "{run:?}");
}

impl Cause {
    fn is_ok_and_contains(&self, text: &str) -> bool {
        let found = matches!(self, Self::Ok(got) if got.contains(text));
        if !found {
            println!("{self:?}");
        }
        found
    }
}

#[tokio::test]
async fn a_host_that_gives_no_namespace_is_told_what_to_do() {
    let host = Host::new();
    let Cause::Ok(said) = inside(&command(&host), &["launch"]).await else { panic!() };
    assert!(said.contains(&Remedy::NestedSandbox.to_string()), "{said}");
    assert!(said.contains("unshare"), "{said}");
}

#[tokio::test]
async fn a_second_mount_of_the_same_files_is_masked_as_well() {
    // A launcher that starts in a mount namespace of its own, with the home directory mounted a second time.
    let host = Host::new();
    std::fs::create_dir(host.path("second")).unwrap();
    let script = format!(
        "#!/bin/sh\nexec unshare -Urm --propagation private sh -c 'mount --bind {} {} && exec {} \"$@\"' sh \"$@\"\n",
        host.text("home"),
        host.text("second"),
        env!("CARGO_BIN_EXE_sandbox-launch")
    );
    let path = host.path("launch");
    std::fs::write(&path, script).unwrap();
    crate::program::make_program(&path);
    let read = |file: &str| request(Policy::Command, &[PROBE.to_owned(), "read".to_owned(), host.text(file)]);
    for (file, expected) in [("second/file", "ok public\n"), ("second/.ssh/id_rsa", "errno EACCES\n")] {
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() };
        let confined =
            Launcher::at(&path).start_confined(&read(file), &command(&host), streams).await.unwrap();
        assert_eq!(crate::probe::finish(confined).await.stdout, expected);
    }
}

/// `--probe --json` of a launcher that is started by `before` (words of a command line).
fn report(before: &[&str]) -> (bool, Report) {
    let launcher = env!("CARGO_BIN_EXE_sandbox-launch");
    let words: Vec<&str> = before.iter().copied().chain([launcher, "--probe", "--json"]).collect();
    let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_probe_finds_everything_where_everything_is() {
    let (success, report) = report(&["/usr/bin/env"]);
    assert!(success && report.is_usable(), "{report}");
    for policy in &report.policies {
        assert!(policy.layers.contains(&Layer::Seccomp), "{report}");
    }
    assert!(report.to_string().contains("  userns           yes\n"), "{report}");
}

#[tokio::test]
async fn the_probe_names_what_is_missing_and_what_to_do() {
    // Parts of /proc are covered, as container engines do: nobody may mount another one then.
    let covered = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /proc/fs && exec \"$@\"", "sh"];
    let (success, report) = report(&covered);
    assert!(!success && !report.is_usable());
    let failure = report.policies[0].failure.as_ref().unwrap();
    assert_eq!((failure.layer, failure.remedy), (Layer::Proc, Some(Remedy::CoveredProc)), "{report}");
    assert!(
        report.to_string().contains("  proc             NO\n  masks            not reached\n"),
        "{report}"
    );

    let host = Host::new();
    let argv = [env!("CARGO_BIN_EXE_sandbox-launch"), "--probe"];
    let nested = run(&request(Policy::Command, &argv), &command(&host)).await;
    assert_eq!(nested.ended.how, gatehouse_sandbox::launch::Exit::Code(1));
    assert!(nested.stdout.contains("  userns           NO\n  mountns          not reached\n"), "{nested:?}");
    assert!(nested.stdout.contains(&Remedy::NestedSandbox.to_string()), "{nested:?}");
}
