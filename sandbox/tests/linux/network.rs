//! Sockets of the families and kinds that only Linux has, and a network of a program's own.

use gatehouse_sandbox::launch::Network;

use crate::host::Host;
use crate::probe::Control::{Anybody, Nobody, Root};
use crate::probe::{Cause, command, inside, refused};

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
async fn a_pair_of_packet_sockets_leads_nowhere() {
    let host = Host::new();
    let (confined, stream) = (command(&host), host.text("sockets/stream"));
    // A pair of packet sockets can be had; the kernel sends to the other end whatever address is named.
    for attempt in ["pair-send-to", "pair-send-message"] {
        assert!(inside(&confined, &[attempt, "5", &stream]).await.is_ok());
    }
    refused(&confined, &["pair-connect", "5", &stream], &["EPERM"], Nobody).await;
    assert_eq!(host.reached(), 0);
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
