//! Sockets of every kind.

use gatehouse_sandbox::launch::Network;

use crate::host::Host;
use crate::probe::Control::{Anybody, Nobody, Root};
use crate::probe::{Cause, command, inside, outside, refused};

#[tokio::test]
async fn a_command_makes_no_socket_of_any_family() {
    let host = Host::new();
    let confined = command(&host);
    let families = [
        (["1", "1", "0"], Anybody),
        (["1", "2", "0"], Anybody),
        (["1", "5", "0"], Anybody),
        (["2", "1", "0"], Anybody),
        (["2", "2", "0"], Anybody),
        (["10", "1", "0"], Anybody),
        (["10", "2", "0"], Anybody),
        (["2", "3", "255"], Root),
        (["16", "3", "0"], Anybody),
        (["17", "3", "0"], Root),
        // Not every kernel has them; the filter refuses before anybody looks.
        (["40", "1", "0"], Nobody),
        (["38", "5", "0"], Nobody),
        (["31", "3", "0"], Nobody),
    ];
    for ([family, kind, protocol], control) in families {
        refused(&confined, &["socket", family, kind, protocol], &["EPERM"], control).await;
    }
}

#[tokio::test]
async fn nothing_outside_hears_of_a_command() {
    let host = Host::new();
    let confined = command(&host);
    let (stream, datagram) = (host.text("sockets/stream"), host.text("sockets/datagram"));
    let tcp = format!("127.0.0.1:{}", host.tcp);
    let attempts = [
        vec!["connect-tcp", &*tcp],
        vec!["connect-unix", &stream],
        vec!["send-datagram", &datagram],
        vec!["connect-abstract", &host.abstract_name],
        vec!["connect-abstract-from-a-thread", &host.abstract_name],
        vec!["pair-send-to", "2", &datagram],
        vec!["pair-send-message", "2", &datagram],
        vec!["pair-connect", "2", &datagram],
        vec!["pair-send-to", "3", &datagram],
        vec!["pair-send-message", "3", &datagram],
        vec!["send-udp", &tcp],
    ];
    for attempt in &attempts {
        refused(&confined, attempt, &["EPERM"], Nobody).await;
    }
    // A pair of packet sockets can be had; the kernel sends to the other end whatever address is named.
    for attempt in ["pair-send-to", "pair-send-message"] {
        assert!(inside(&confined, &[attempt, "5", &stream]).await.is_ok());
    }
    refused(&confined, &["pair-connect", "5", &stream], &["EPERM"], Nobody).await;
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

#[tokio::test]
async fn private_loopback_serves_itself_and_reaches_nothing() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.network = Network::PrivateLoopback;
    let tcp = format!("127.0.0.1:{}", host.tcp);
    assert_eq!(inside(&confined, &["serve-loopback"]).await, Cause::Ok("pong".into()));
    assert!(inside(&confined, &["bind-tcp"]).await.is_ok());
    // Nobody listens there: this loopback is another one.
    refused(&confined, &["connect-tcp", &tcp], &["ECONNREFUSED"], Anybody).await;
    refused(&confined, &["connect-tcp", "1.1.1.1:443"], &["ENETUNREACH"], Nobody).await;
    refused(&confined, &["send-udp", "8.8.8.8:53"], &["ENETUNREACH"], Nobody).await;
    for words in [["socket", "1", "1", "0"], ["socket", "16", "3", "0"], ["socket", "2", "1", "262"]] {
        refused(&confined, &words, &["EPERM"], Nobody).await;
    }
    refused(&confined, &["connect-unix", &host.text("sockets/stream")], &["EPERM"], Anybody).await;
    refused(&confined, &["pair-send-to", "2", &host.text("sockets/datagram")], &["EPERM"], Anybody).await;
}
