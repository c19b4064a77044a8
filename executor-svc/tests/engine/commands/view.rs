//! What a command sees, can write and can reach.

use super::*;

#[tokio::test]
async fn a_command_gets_exactly_its_arguments_and_its_input() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let words = ["", "a b", "\"q\"", "$(id)", "new\nline", "*", "--", "ä\u{1F600}", "'"];
    let mut argv = vec!["printf", "<%s>"];
    argv.extend(words);
    let receipt = commander.run(json!({"argv": argv})).await;
    assert_eq!(end(&receipt), (None, Some(0), words.map(|word| format!("<{word}>")).concat().as_str()));
    let receipt = commander.run(json!({"argv": ["tr", "a-z", "A-Z"], "stdin": "one\ntwo"})).await;
    assert_eq!(end(&receipt), (None, Some(0), "ONE\nTWO"));
    let receipt = commander.run(json!({"argv": ["cat"]})).await;
    assert_eq!(end(&receipt), (None, Some(0), ""), "without input there is none to wait for");
    let receipt = commander.run(json!({"argv": ["true"], "stdin": "x".repeat(400_000)})).await;
    assert_eq!(receipt["ok"], true, "a command need not read: {receipt}");
}

#[tokio::test]
async fn only_the_scratch_can_be_written_and_it_stays_for_the_session() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    std::fs::write(ground.path("project/file"), "before").unwrap();
    let receipt =
        commander.sh("echo x > file; echo y > new; chmod 777 file; echo z > /var/tmp/gatehouse-z").await;
    let stderr = receipt["stderr"].as_str().unwrap();
    assert_eq!(stderr.matches("Read-only file system").count(), 4, "{receipt}");
    assert_eq!(std::fs::read_to_string(ground.path("project/file")).unwrap(), "before");
    assert!(!ground.path("project/new").exists());
    let receipt =
        commander.sh("echo kept > /tmp/k; echo home > $HOME/h; echo $HOME $TMPDIR; pwd > /tmp/where").await;
    assert_eq!(end(&receipt), (None, Some(0), "/tmp/home /tmp\n"));
    let receipt = commander.sh("cat /tmp/k /tmp/home/h").await;
    assert_eq!(end(&receipt), (None, Some(0), "kept\nhome\n"), "the next command finds it");
    let state = ground.path("state").display().to_string();
    let receipt = commander.sh("cat /proc/self/mountinfo; env; ls -la /tmp /proc/self/fd").await;
    assert!(!receipt["stdout"].as_str().unwrap().contains(&format!("{state}/ledger")), "{receipt}");
}

#[tokio::test]
async fn secrets_are_out_of_sight_and_counted() {
    // Not below /tmp, of which a command sees nothing but its root anyway.
    let ground = Ground::below("/var/tmp".as_ref(), "");
    let mut commander = Commander::new(&ground).await;
    std::fs::create_dir(ground.path("project/deep")).unwrap();
    for name in ["project/.env", "project/deep/.env.production", "project/.env.example"] {
        std::fs::write(ground.path(name), "TOKEN=secret").unwrap();
    }
    let state = ground.path("state");
    let receipt = commander
        .sh(&format!("cat .env deep/.env.production; ls {}; cat .env.example", state.display()))
        .await;
    assert_eq!(end(&receipt), (None, Some(0), "TOKEN=secret"), "{receipt}");
    assert_eq!(receipt["stderr"].as_str().unwrap().matches("Permission denied").count(), 3, "{receipt}");
    assert_eq!(receipt["hidden"], json!({"paths": 2, "scan_cut": false}));
}

#[tokio::test]
async fn the_environment_is_its_own() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let receipt =
        commander.run(json!({"argv": ["env"], "env": {"CI": "1", "LC_ALL": "C", "RUST_LOG": "a=b"}})).await;
    let lines: Vec<&str> = receipt["stdout"].as_str().unwrap().lines().collect();
    for line in [
        "CI=1",
        "LC_ALL=C",
        "RUST_LOG=a=b",
        "HOME=/tmp/home",
        "GIT_TERMINAL_PROMPT=0",
        "CARGO_NET_OFFLINE=true",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
    for name in [
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "CARGO_MANIFEST_DIR",
        "LD_LIBRARY_PATH",
        "XDG_SESSION_ID",
    ] {
        assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}: {lines:?}");
    }
}

#[tokio::test]
async fn there_is_no_network_unless_a_private_loopback_is_configured() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempt = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let argv = json!({"argv": ["bash", "-c", attempt]});
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.run(argv.clone()).await;
    assert!(receipt["stderr"].as_str().unwrap().contains("Operation not permitted"), "{receipt}");
    let ground = Ground::new("[commands]\nprivate_loopback = true\n");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.run(argv).await;
    assert!(receipt["stderr"].as_str().unwrap().contains("Connection refused"), "another network: {receipt}");
    assert!(receipt["enforced_by"].as_array().unwrap().contains(&json!("loopback")), "{receipt}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
}

#[tokio::test]
async fn the_receipt_says_what_confined_the_command() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.sh("dd if=/dev/zero of=/dev/null bs=50000000 count=1").await;
    let layers = receipt["enforced_by"].as_array().unwrap();
    for layer in ["userns", "mountns", "pidns", "netns", "masks", "no_new_privs", "landlock", "seccomp"] {
        assert!(layers.contains(&json!(layer)), "{layer}: {receipt}");
    }
    assert!(receipt["peak_memory_bytes"].as_u64().unwrap() > 40_000_000, "{receipt}");
}

#[tokio::test]
async fn a_tool_chain_is_in_view_wherever_it_lies() {
    // Below /tmp, of which a command sees nothing else.
    let ground = Ground::new("[commands]\npath = [\"GROUND/bin\"]\n");
    std::fs::write(ground.path("bin/tool"), "#!/bin/sh\necho from the tool chain\n").unwrap();
    crate::program::make_program(ground.path("bin/tool"));
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.run(json!({"argv": ["tool"]})).await;
    assert_eq!(end(&receipt), (None, Some(0), "from the tool chain\n"), "{receipt}");
}
