//! What only a Mac has: services, tools that have another program act, nested profiles, sessions that escape a group.

use std::time::Duration;

use gatehouse_sandbox::launch::{Confinement, Exit, LaunchError, Layer, Network, Policy, Remedy, TimeLimit};

use crate::host::{Host, SECRET};
use crate::life::{alive, mark};
use crate::probe::{Cause, Control, PROBE, claude, command, inside, refused, request, run, start};

#[tokio::test]
async fn the_layers_in_force_are_told() {
    let host = Host::new();
    let run = run(&request(Policy::Command, &["/usr/bin/true"]), &command(&host)).await;
    assert_eq!(run.enforced_by, ["seatbelt", "process_tracker", "rlimits", "scratch"]);
}

#[tokio::test]
async fn tools_that_have_another_program_act_do_not_work() {
    let host = Host::new();
    for words in [
        &["/usr/bin/security", "list-keychains"][..],
        &["/usr/bin/security", "dump-keychain"],
        &["/usr/bin/osascript", "-e", "tell application \"Finder\" to get name of home"],
        &["/usr/bin/open", "-a", "Calculator"],
        &["/bin/launchctl", "print", "system"],
        &["/usr/bin/pbpaste"],
        &["/usr/bin/defaults", "read", "com.apple.finder"],
        &["/usr/sbin/screencapture", "/tmp/x.png"],
        &["/usr/bin/mdfind", "-count", "kind:pdf"],
        &["/usr/bin/crontab", "-l"],
    ] {
        let mut confined = command(&host);
        confined.time = Some(TimeLimit::seconds(10));
        let run = run(&request(Policy::Command, words), &confined).await;
        assert!(run.ended.how != Exit::Code(0) || run.stdout.trim().is_empty(), "{words:?}: {run:?}");
    }
}

#[tokio::test]
async fn a_profile_inside_a_profile_is_refused() {
    let host = Host::new();
    let words = ["/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true"];
    let run = run(&request(Policy::Command, &words), &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(71), "{run:?}");
    let Cause::Ok(said) = inside(&command(&host), &["launch"]).await else { panic!() };
    assert!(said.contains("sandbox"), "{said}");
}

#[tokio::test]
async fn a_library_that_is_put_into_a_program_is_as_confined() {
    let host = Host::new();
    let mut request = request(Policy::Command, &[PROBE, "read", &host.text("home/.ssh/id_rsa")]);
    request.env.insert("DYLD_INSERT_LIBRARIES".into(), "/tmp/library.dylib".into());
    let run = run(&request, &command(&host)).await;
    assert!(!run.stdout.contains(SECRET), "{run:?}");
}

#[tokio::test]
async fn a_child_in_a_session_of_its_own_ends_with_the_program() {
    let host = Host::new();
    let mark = mark(&host);
    let script = format!("{PROBE} spawn-in-session {PROBE} {mark}; {PROBE} strays 10; sleep 1");
    let run = run(&request(Policy::Command, &["/bin/sh", "-c", &script]), &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn the_same_files_by_another_name_and_another_case_are_hidden() {
    let host = Host::new();
    let secret = host.text("home/.ssh/id_rsa");
    for path in [
        format!("/System/Volumes/Data{secret}"),
        secret.replace("/private/var", "/var"),
        host.text("home/.SSH/ID_RSA"),
    ] {
        refused(&command(&host), &["read", &path], &["EPERM"], Control::Anybody).await;
    }
}

#[tokio::test]
async fn a_port_that_somebody_has_fails_the_launch() {
    let host = Host::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut confined = claude(PROBE.as_ref(), &host);
    confined.network = Network::Listeners { ports: vec![taken.local_addr().unwrap().port()] };
    match start(&request(Policy::Claude, &[PROBE, "pair-ping"]), &confined).await {
        Err(LaunchError::Layer(failure)) => assert_eq!(failure.layer, Layer::Loopback),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_network_of_its_own_cannot_be_had() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.network = Network::PrivateLoopback;
    match start(&request(Policy::Command, &["/usr/bin/true"]), &confined).await {
        Err(LaunchError::Layer(failure)) => {
            assert_eq!((failure.layer, failure.remedy), (Layer::Netns, Some(Remedy::NoNetworkOfItsOwn)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_process_that_was_not_started_confined_is_told_so() {
    let found = gatehouse_sandbox::confine::confine_self(&Default::default());
    assert!(matches!(found, Err(LaunchError::Unsupported)), "{found:?}");
}

#[tokio::test]
async fn a_process_that_was_started_confined_finds_that_out() {
    let host = Host::new();
    let sockets = host.text("sockets");
    let confined = Confinement {
        programs: vec![PROBE.into()],
        readable: vec![host.path("sockets")],
        ..Confinement::default()
    };
    let request = request(Policy::SelfConfinement, &[PROBE, "confined", &sockets, "layers"]);
    assert_eq!(run(&request, &confined).await.stdout, "ok seatbelt\n");
}

#[tokio::test]
async fn a_scratch_that_is_too_full_ends_everything() {
    let host = Host::new();
    let script =
        format!("for i in 1 2 3 4 5 6 7 8; do {PROBE} fill $TMPDIR/$i 8388608; done; exec sleep 100");
    let mut request = request(Policy::Command, &["/bin/sh", "-c", &script]);
    request.env.insert("TMPDIR".into(), "/tmp".into());
    let ended =
        tokio::time::timeout(Duration::from_secs(30), run(&request, &command(&host))).await.unwrap().ended;
    assert_eq!((ended.how, ended.scratch_full), (Exit::TornDown, true));
}
