//! What is refused before anything starts, each with its cause.

use std::os::unix::fs::symlink;

use super::*;

async fn refused(commander: &mut Commander, input: Value, code: &str, word: &str) {
    let receipt = commander.run(input.clone()).await;
    assert_eq!(
        (receipt["ok"].clone(), receipt["code"].as_str()),
        (json!(false), Some(code)),
        "{input}: {receipt}"
    );
    assert!(receipt["message"].as_str().unwrap().contains(word), "{input}: {receipt}");
    assert!(receipt["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{receipt}");
    assert!(receipt.get("exit_code").is_none(), "nothing ran: {receipt}");
}

#[tokio::test]
async fn programs_are_refused_by_name_also_through_wrappers_and_links() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    std::fs::write(ground.path("project/precious"), "x").unwrap();
    symlink("/bin/rm", ground.path("project/harmless")).unwrap();
    symlink("harmless", ground.path("project/more-harmless")).unwrap();
    for argv in [
        json!(["rm", "precious"]),
        json!(["/bin/rm", "precious"]),
        json!(["./harmless", "precious"]),
        json!(["./more-harmless", "precious"]),
        json!(["env", "A=b", "timeout", "5", "./harmless", "precious"]),
        json!(["xargs", "-n", "1", "rm"]),
        json!(["find", ".", "-name", "precious", "-delete"]),
        json!(["find", ".", "-exec", "cat", "{}", ";"]),
        json!(["sudo", "-n", "id"]),
        json!(["claude", "-p", "hello"]),
    ] {
        refused(&mut commander, json!({"argv": argv}), "command_refused", "is refused").await;
    }
    assert!(ground.path("project/precious").exists());
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    std::fs::write(ground.path("project/text"), "no program").unwrap();
    refused(&mut commander, json!({"argv": ["no-such-program"]}), "spawn_failed", "/usr/bin").await;
    refused(&mut commander, json!({"argv": ["./nothing"]}), "spawn_failed", "there is no program").await;
    refused(&mut commander, json!({"argv": ["./text"]}), "spawn_failed", "Permission denied").await;
    refused(&mut commander, json!({"argv": ["/"]}), "spawn_failed", "Permission denied").await;
}

#[tokio::test]
async fn a_command_runs_in_the_root_or_below_it_and_nowhere_else() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let project = ground.path("project");
    std::fs::create_dir_all(project.join("deep/er")).unwrap();
    std::fs::create_dir(project.join(".git")).unwrap();
    symlink("deep", project.join("link")).unwrap();
    std::fs::write(project.join("file"), "").unwrap();
    let at = |name: &str| json!({"argv": ["pwd"], "cwd": project.join(name)});
    let deep = commander.run(at("deep/er")).await;
    assert_eq!(
        end(&deep),
        (None, Some(0), format!("{}\n", project.join("deep/er").canonicalize().unwrap().display()).as_str())
    );
    refused(&mut commander, at("link"), "symlink_refused", "link").await;
    refused(&mut commander, at("file"), "not_a_file", "directory").await;
    refused(&mut commander, at("nothing"), "not_found", "nothing").await;
    refused(&mut commander, at(".git"), "git_refused", ".git").await;
    refused(&mut commander, json!({"argv": ["pwd"], "cwd": "/usr"}), "outside_root", "/usr").await;
    refused(&mut commander, at("../state"), "protected_path", "state").await;
}

#[tokio::test]
async fn nothing_runs_without_its_sandbox() {
    let ground = Ground::new("");
    let mut house = ground.open_with(None);
    house.has_launcher = true;
    let mut commander = Commander::in_house(house).await;
    refused(&mut commander, json!({"argv": ["true"]}), "sandbox_unavailable", "sandbox-launch").await;
}
