//! What tunnel-client looks at before it takes a call.

use gatehouse_tests::tunnel::{LogIn, Probe};
use gatehouse_tests::{Gateway, Setup};

use super::{Tunnel, profile, tcp_profile};

#[tokio::test(flavor = "multi_thread")]
async fn the_client_becomes_ready_over_tcp_and_over_a_unix_socket() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let socket = gateway.socket_front().await;
    let listen = format!("listen = \"unix:{}\"", socket.socket.display());
    for profile in [tcp_profile(&gateway), profile(&gateway, &listen, &[])] {
        let tunnel = Tunnel::start(&gateway, &profile).await;
        let found = &tunnel.client.readiness;
        assert_eq!(found.probe, Probe::Agreed("2025-11-25".to_owned()), "{profile}");
        assert_eq!(found.log_in, LogIn::None, "{profile}");
        let listed = tunnel.control.result(tunnel.message("tools/list", &serde_json::json!({}))).await;
        assert_eq!(listed["tools"].as_array().map(Vec::len), Some(6));
    }
    drop(socket);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_shows_at_the_first_look_and_does_not_look_like_a_log_in() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let wrong = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(wrong.path(), "w".repeat(40)).unwrap();
    let right = gateway.state_dir().join("front.key");
    let profile = tcp_profile(&gateway).replace(right.to_str().unwrap(), wrong.path().to_str().unwrap());
    let tunnel = Tunnel::start(&gateway, &profile).await;
    assert_eq!(tunnel.client.readiness.probe, Probe::RequiresAuth);
    assert_eq!(tunnel.client.readiness.log_in, LogIn::None);
    let listed = tunnel.message("tools/list", &serde_json::json!({}));
    let refused = tunnel.control.send(gatehouse_tests::tunnel::Command::jsonrpc(listed)).answer().await;
    // The front's own words reach the product, with the id: nothing was made up on the way.
    assert_eq!((refused.code, &refused.json["error"]["code"]), (401, &serde_json::json!(-32001)));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_front_the_client_is_not_ready_and_says_what_failed() {
    let mut gateway = Gateway::start(Setup::without_claude()).await;
    let profile = tcp_profile(&gateway);
    gateway.kill_front();
    let tunnel = Tunnel::start(&gateway, &profile).await;
    assert!(!tunnel.client.readiness.is_ready());
    let lists =
        || gatehouse_tests::tunnel::Command::jsonrpc(tunnel.message("tools/list", &serde_json::json!({})));
    let failed = tunnel.control.send(lists()).answer().await;
    assert_eq!(failed.json["error"]["data"]["tunnel_failure"]["source"], "connect", "{}", failed.json);
    gateway.start_front().await;
    // A client that runs needs no restart for that.
    assert_eq!(tunnel.control.send(lists()).answer().await.code, 200);
    gateway.finish().await;
}
