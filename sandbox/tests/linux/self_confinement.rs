//! A process that confines itself, under hostile control.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::host::Host;
use crate::probe::{Cause, outside, words};

/// Confined to the directory of the one socket that it may reach.
fn confined(host: &Host, attempt: &[&str]) -> Cause {
    outside(&[words(&["confined", &host.text("sockets")]), words(attempt)].concat())
}

#[test]
fn only_the_one_socket_is_reached() {
    let host = Host::new();
    let other = host.path("state/operator.sock");
    let _operator = UnixListener::bind(&other).unwrap();
    let (other, own) = (other.to_str().unwrap().to_owned(), host.text("sockets/stream"));
    let tcp = format!("127.0.0.1:{}", host.tcp);
    assert!(confined(&host, &["connect-unix", &own]).is_ok());
    for (attempt, errors) in [
        (vec!["connect-unix", &*other], &["ENOENT"][..]),
        (vec!["connect-unix", "/run/docker.sock"], &["ENOENT"]),
        (vec!["connect-unix", "/run/dbus/system_bus_socket"], &["ENOENT"]),
        // Another network namespace holds that name, and Landlock forbids it as well.
        (vec!["connect-abstract", &host.abstract_name], &["ECONNREFUSED", "EPERM"]),
        (vec!["connect-tcp", &tcp], &["EPERM"]),
        (vec!["send-datagram", &host.text("sockets/datagram")], &["EPERM"]),
        (vec!["pair-send-to", "2", &host.text("sockets/datagram")], &["EPERM"]),
        (vec!["bind-tcp"], &["EPERM"]),
        (vec!["socket", "16", "3", "0"], &["EPERM"]),
    ] {
        let cause = confined(&host, &attempt);
        let Cause::Errno(name) = &cause else { panic!("{attempt:?}: {cause:?}") };
        assert!(errors.contains(&name.as_str()), "{attempt:?}: {cause:?}");
        // What exists can be reached without the confinement.
        if !attempt.iter().any(|word| word.starts_with("/run/")) {
            let control = outside(&attempt);
            assert!(control.is_ok(), "control of {attempt:?}: {control:?}");
        }
    }
}

#[test]
fn no_file_no_program_no_process_and_no_privilege_is_left() {
    let host = Host::new();
    let secret = host.text("home/file");
    assert_eq!(confined(&host, &["read", &secret]), Cause::Errno("ENOENT".into()));
    assert!(outside(&["read", &secret]).is_ok());
    assert_eq!(confined(&host, &["list", "/"]), Cause::Errno("EACCES".into()));
    for file in ["/proc/self/status", "/etc/passwd", "/dev/null"] {
        assert_eq!(confined(&host, &["read", file]), Cause::Errno("ENOENT".into()), "{file}");
    }
    assert_eq!(confined(&host, &["create", &host.text("sockets/new")]), Cause::Errno("EROFS".into()));
    assert!(confined(&host, &["threads", "20"]).is_ok());
    assert_eq!(confined(&host, &["pair-ping"]), Cause::Ok("ping".into()));
}

#[test]
fn no_other_process_is_signalled_where_the_kernel_can_tell() {
    let host = Host::new();
    let Cause::Ok(layers) = confined(&host, &["layers"]) else { panic!() };
    if layers.contains("landlock_scopes") {
        assert_eq!(confined(&host, &["kill", &host.victim(), "0"]), Cause::Errno("EPERM".into()));
    }
    assert!(outside(&["kill", &host.victim(), "0"]).is_ok());
    let expected =
        ["userns", "mountns", "netns", "ipcns", "utsns", "cgroupns", "minimal_root", "capabilities"];
    let expected = expected.iter().chain(&["no_new_privs", "landlock", "seccomp"]);
    assert!(expected.clone().all(|name| layers.split(' ').any(|layer| layer == *name)), "{layers}");
}

#[test]
fn listeners_that_were_there_before_go_on() {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || TcpStream::connect(address).unwrap());
    assert!(confined(&host, &["accept-on", &listener.as_raw_fd().to_string()]).is_ok());
    drop(client.join().unwrap());
}

#[test]
fn an_asynchronous_runtime_works_afterwards() {
    let host = Host::new();
    let cause = confined(&host, &["runtime", &host.text("sockets/stream")]);
    assert!(cause.is_ok(), "{cause:?}");
}

#[test]
fn a_process_with_threads_is_told_what_to_do() {
    let error = gatehouse_sandbox::confine::confine_self(&Default::default());
    match error {
        Err(gatehouse_sandbox::launch::LaunchError::Layer(failure)) => {
            assert_eq!(failure.remedy, Some(gatehouse_sandbox::launch::Remedy::SingleThread));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_it_has_started_before_still_ends_with_it_or_at_its_word() {
    let host = Host::new();
    let mark = crate::life::mark(&host);
    let run = |way: &str| outside(&["launch-and-confine", &host.text("sockets"), &mark, way]);
    assert_eq!(run("hold"), Cause::Ok("TornDown".into()));
    assert_eq!(run("signal"), Cause::Ok("Signal(15)".into()));
    assert_eq!(crate::life::alive(&mark), 0);
    // Its death signal would come from a process that may signal nobody; the end of its hold does what is needed.
    assert_eq!(run("leaving"), Cause::Ok(String::new()));
    crate::life::eventually(|| crate::life::alive(&mark) == 0).await;
    assert_eq!(run("killed"), Cause::Signal(9));
    crate::life::eventually(|| crate::life::alive(&mark) == 0).await;
}
