use std::os::unix::ffi::OsStringExt;

use super::status::{Failed, Failure, outcome};
use super::*;

#[test]
fn a_request_keeps_bytes_that_are_not_unicode() {
    let request = LaunchRequest {
        argv: vec!["/bin/x".into(), OsString::from_vec(vec![0xff, b'a'])],
        cwd: OsString::from_vec(b"/\xfe".to_vec()),
        env: BTreeMap::from([("A".into(), OsString::from_vec(vec![0x80]))]),
        group: ProcessGroup::OwnSession,
        limits: Limits { open_files: Some(64), ..Limits::default() },
        policy: Policy::Command,
    };
    let text = serde_json::to_vec(&request).unwrap();
    assert_eq!(serde_json::from_slice::<LaunchRequest>(&text).unwrap(), request);
}

#[test]
fn only_a_ready_line_without_a_failure_counts_as_started() {
    let ready = r#"{"ready":["a"]}"#.to_owned() + "\n";
    let failed = r#"{"failed":{"step":{"stage":"exec","errno":2}}}"#.to_owned() + "\n";
    let failure = Some(Failed::Step(Failure { stage: Stage::Exec, errno: 2 }));
    assert_eq!(outcome(ready.as_bytes()), Ok(vec!["a".to_owned()]));
    assert_eq!(outcome((ready.clone() + &failed).as_bytes()), Err(failure.clone()));
    assert_eq!(outcome(failed.as_bytes()), Err(failure));
    for silent in ["", "\n", "{}", "ready", &ready[..5]] {
        assert_eq!(outcome(silent.as_bytes()), Err(None), "{silent:?}");
    }
}
