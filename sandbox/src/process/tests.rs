use std::process::{Child, Command, Stdio};

use super::*;

/// `sh` that carries a nonce as its `$0` and ends when its input does.
fn sleeper(nonce: &str) -> Child {
    Command::new("/bin/sh").args(["-c", "read line", nonce]).stdin(Stdio::piped()).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_live_process_is_adopted_by_its_identity_and_a_wrong_part_is_named() {
    let child = sleeper("nonce-a");
    let identity = identity_of(child.id()).unwrap().with_nonce("nonce-a");
    assert!(ProcessHandle::adopt(&identity).unwrap().is_alive());

    let wrong = [
        (ProcessIdentity { start_time: identity.start_time + 1, ..identity.clone() }, "start time"),
        (ProcessIdentity { executable: "/bin/other".into(), ..identity.clone() }, "executable"),
        (identity.clone().with_nonce("nonce"), "nonce"),
        (ProcessIdentity { pid: u32::MAX, ..identity.clone() }, "number"),
        (ProcessIdentity { pid: 0, ..identity.clone() }, "number"),
    ];
    for (identity, part) in wrong {
        match ProcessHandle::adopt(&identity) {
            Err(gone @ Gone::Another { differs }) => {
                assert_eq!(differs, part);
                assert!(gone.is_proven());
            }
            other => panic!("{part}: {other:?}"),
        }
    }
    end(child);
    assert!(matches!(ProcessHandle::adopt(&identity), Err(Gone::Ended)));
}

#[test]
fn a_zombie_is_gone_and_is_sent_nothing() {
    let mut child = sleeper("nonce-z");
    let identity = identity_of(child.id()).unwrap();
    let handle = ProcessHandle::adopt(&identity).unwrap();
    child.kill().unwrap();
    // Not waited for: a zombie once the signal has worked.
    while handle.is_alive() {
        std::thread::yield_now();
    }
    assert!(matches!(ProcessHandle::adopt(&identity), Err(Gone::Ended)));
    assert!(matches!(identity_of(child.id()), Err(Gone::Ended)));
    child.wait().unwrap();
    assert!(matches!(handle.signal(Signal::SIGTERM), Err(Gone::Ended)));
    assert!(matches!(handle.signal_group(Signal::SIGTERM), Err(Gone::Ended)));
}

#[tokio::test]
async fn the_end_of_an_adopted_process_is_seen() {
    let mut child = sleeper("nonce-w");
    let handle = ProcessHandle::adopt(&identity_of(child.id()).unwrap()).unwrap();
    let (waited, signalled) = tokio::join!(handle.wait_gone(), async { handle.signal(Signal::SIGKILL) });
    let () = waited;
    signalled.unwrap();
    assert!(!handle.is_alive());
    child.wait().unwrap();
}

#[test]
fn an_identity_is_stored_and_read_back() {
    let identity = identity_of(std::process::id()).unwrap().with_nonce("n");
    let text = serde_json::to_string(&identity).unwrap();
    assert_eq!(serde_json::from_str::<ProcessIdentity>(&text).unwrap(), identity);
    let bare: ProcessIdentity =
        serde_json::from_str(r#"{"pid":1,"start_time":2,"executable":"/x"}"#).unwrap();
    assert_eq!(bare.nonce, None);
}

#[test]
fn a_replaced_executable_is_still_the_same_file() {
    assert!(same_file(Path::new("/bin/x (deleted)"), Path::new("/bin/x")));
    assert!(!same_file(Path::new("/bin/x (deleted)"), Path::new("/bin/y")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
    let line = format!("7 (a) R (b) S 1 {} 4242 9 9", "0 ".repeat(17).trim());
    assert_eq!(platform::parse_stat(line.as_bytes()), Some((b'S', 4242)));
    for broken in ["", "7 (a", "7 (a)", "7 (a) S 1 2"] {
        assert_eq!(platform::parse_stat(broken.as_bytes()), None);
    }
}

#[test]
fn a_hidden_executable_is_accepted_only_where_a_nonce_stands_in_for_it() {
    let hidden = || Err(Gone::Unreadable(io::ErrorKind::PermissionDenied.into()));
    let bare = identity_of(std::process::id()).unwrap();
    assert!(matches!(bare.prove_executable(hidden()), Err(Gone::Unreadable(_))));
    assert!(bare.with_nonce("n").prove_executable(hidden()).is_ok());
}
