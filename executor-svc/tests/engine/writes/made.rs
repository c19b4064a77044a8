//! Changes that are made, and such as are refused.

use super::*;

#[tokio::test]
async fn a_file_is_edited_written_and_its_receipts_tell_the_hashes() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let file = ground.path("project/a.txt");
    std::fs::write(&file, "one\r\ntwo\r\n").unwrap();
    let before = sha256(&file);
    let receipt =
        caller.call("Edit", json!({"file_path": file, "old_string": "two", "new_string": "three"})).await;
    assert_eq!((&receipt["ok"], &receipt["replacements"]), (&json!(true), &json!(1)), "{receipt}");
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\nthree\r\n");
    assert_eq!(
        (&receipt["before_sha256"], &receipt["after_sha256"]),
        (&json!(before), &json!(sha256(&file)))
    );
    assert!(receipt["diff"].as_str().unwrap().contains("+three"), "{receipt}");

    let new = ground.path("project/deep/er/new.txt");
    let receipt =
        caller.call("Write", json!({"file_path": new, "content": "x\n", "create_only": true})).await;
    assert_eq!(receipt["before_sha256"], json!(null), "{receipt}");
    assert_eq!(receipt["created_directories"].as_array().unwrap().len(), 2);
    assert_eq!(std::fs::read(&new).unwrap(), b"x\n");
    let again = caller.call("Write", json!({"file_path": new, "content": "y\n", "create_only": true})).await;
    assert_eq!(code(&again), Some("exists"), "{again}");
    let unasked = caller.call("Write", json!({"file_path": new, "content": "y\n"})).await;
    assert_eq!(code(&unasked), Some("expected_hash_required"), "{unasked}");
    let hash = sha256(&new);
    let over =
        caller.call("Write", json!({"file_path": new, "content": "y\n", "expected_sha256": hash})).await;
    assert_eq!(over["ok"], true, "{over}");
    let stale =
        caller.call("Write", json!({"file_path": new, "content": "z\n", "expected_sha256": hash})).await;
    assert_eq!(code(&stale), Some("changed_meanwhile"), "{stale}");
    assert_eq!(std::fs::read(&new).unwrap(), b"y\n");
    let same = caller.call("Edit", json!({"file_path": new, "old_string": "y", "new_string": "y"})).await;
    assert_eq!((&same["ok"], &same["unchanged"]), (&json!(true), &json!(true)), "{same}");
    let names: Vec<_> =
        std::fs::read_dir(ground.path("project")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[tokio::test]
async fn a_notebook_is_edited() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let file = ground.path("project/n.ipynb");
    std::fs::write(
        &file,
        r#"{"cells": [{"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["old"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#,
    )
    .unwrap();
    let receipt = caller
        .call(
            "NotebookEdit",
            json!({"notebook_path": file, "edit_mode": "replace", "cell_id": "a1", "new_source": "new"}),
        )
        .await;
    assert_eq!((&receipt["ok"], &receipt["cell_id"]), (&json!(true), &json!("a1")), "{receipt}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"new\""));
}

#[tokio::test]
async fn what_may_not_be_written_is_refused_by_its_cause() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let project = ground.path("project");
    std::fs::create_dir(project.join(".git")).unwrap();
    std::fs::write(project.join(".git/config"), "x").unwrap();
    std::fs::write(project.join(".env"), "x").unwrap();
    std::fs::write(project.join("one"), "x").unwrap();
    std::fs::hard_link(project.join("one"), project.join("two")).unwrap();
    std::os::unix::fs::symlink("one", project.join("link")).unwrap();
    for (path, wanted) in [
        (project.join(".git/config"), "git_refused"),
        (project.join(".env"), "protected_path"),
        (project.join("one"), "hard_link_refused"),
        (project.join("link"), "symlink_refused"),
        (project.join("../outside"), "outside_root"),
        ("/etc/hostname".into(), "outside_root"),
        (ground.path("state/ledger.db"), "protected_path"),
        (project.join("absent"), "not_found"),
    ] {
        let receipt =
            caller.call("Edit", json!({"file_path": path, "old_string": "x", "new_string": "y"})).await;
        assert_eq!(code(&receipt), Some(wanted), "{}: {receipt}", path.display());
    }
}

#[tokio::test]
async fn a_reading_session_has_no_tool_that_writes() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _shim, turn) = house.waiting("start-key-0123456789").await;
    let mut reply = reply_request(&started, &turn, "r1", "");
    let input = json!({"file_path": "/x", "content": "y", "create_only": true}).to_string();
    reply.tool_calls =
        vec![gatehouse_proto::v1::ToolCall { name: "Write".into(), input_json: input, client_id: None }];
    let refused = house.front().reply_and_wait(reply).await;
    assert_eq!(super::super::house::code(refused), gatehouse_proto::codes::ErrorCode::ProfileForbids);
    house.close().await;
}

#[tokio::test]
async fn two_live_sessions_never_write_in_the_same_place() {
    let ground = Ground::new("");
    let caller = Caller::writing(&ground).await;
    let house = &caller.house;
    std::fs::create_dir(ground.path("project/deep")).unwrap();
    for (directory, free) in [("project", false), ("project/deep", false), ("bin", true)] {
        let mut ask = house.start_request(&format!("another-key-{directory:-<20}"));
        ask.working_directory = ground.path(directory).display().to_string();
        ask.set_capability_profile(gatehouse_proto::v1::CapabilityProfile::DirectWrite);
        let started = house.front().start(ask).await;
        if free {
            started.unwrap();
        } else {
            let code = super::super::house::code(started);
            assert_eq!(code, gatehouse_proto::codes::ErrorCode::WorkingDirectoryInvalid, "{directory}");
        }
    }
}
