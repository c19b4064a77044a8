//! Sockets of every kind.

use crate::host::Host;
use crate::probe::Control::Nobody;
use crate::probe::{Cause, command, inside, outside, refused};

#[tokio::test]
async fn nothing_outside_hears_of_a_command() {
    let host = Host::new();
    let confined = command(&host);
    let (stream, datagram) = (host.text("sockets/stream"), host.text("sockets/datagram"));
    let tcp = format!("127.0.0.1:{}", host.tcp);
    let mut attempts = vec![
        vec!["connect-tcp", &*tcp],
        vec!["connect-unix", &stream],
        vec!["send-datagram", &datagram],
        vec!["send-message", &datagram],
        vec!["send-udp", &tcp],
    ];
    if cfg!(target_os = "linux") {
        attempts.extend([
            vec!["connect-abstract", &*host.abstract_name],
            vec!["connect-abstract-from-a-thread", &host.abstract_name],
            vec!["pair-send-to", "2", &datagram],
            vec!["pair-send-message", "2", &datagram],
            vec!["pair-connect", "2", &datagram],
            vec!["pair-send-to", "3", &datagram],
            vec!["pair-send-message", "3", &datagram],
        ]);
    }
    for attempt in &attempts {
        refused(&confined, attempt, &["EPERM"], Nobody).await;
    }
    assert_eq!(host.reached(), 0);
    for attempt in &attempts {
        assert!(outside(attempt).is_ok(), "{attempt:?}");
    }
    // All but the UDP one, which goes to no server, arrive.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while host.reached() < attempts.len() - 1 && std::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.reached(), attempts.len() - 1);
}

#[tokio::test]
async fn no_name_is_looked_up() {
    let host = Host::new();
    let cause = inside(&command(&host), &["resolve", "name.example"]).await;
    assert!(!cause.is_ok(), "{cause:?}");
}

#[tokio::test]
async fn pairs_of_streams_and_pipes_work() {
    let host = Host::new();
    assert_eq!(inside(&command(&host), &["pair-ping"]).await, Cause::Ok("ping".into()));
}
