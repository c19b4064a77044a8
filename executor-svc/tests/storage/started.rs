//! What a start meets: another executor, a directory that cannot be written, another's lock, no room.

use rusqlite::Connection;

use super::world::*;

fn words(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_second_executor_is_refused_by_name_of_the_first_and_let_in_when_that_is_killed() {
    let ground = Ground::new();
    let running = ground.start().await;
    let begun = running.begin("first").await.unwrap();
    std::fs::create_dir(ground.path("run2")).unwrap();
    let second = ground.command().arg("--runtime-dir").arg(ground.path("run2")).output();
    // Twice the same flag is wrong usage: it is given once.
    assert_eq!(second.unwrap().status.code(), Some(2));
    let mut second = std::process::Command::new(EXECUTOR);
    second.args(["--state-dir", ground.state().to_str().unwrap()]);
    second.args(["--runtime-dir", ground.path("run2").to_str().unwrap()]).env("HOME", ground.path("home"));
    let refused = second.output().unwrap();
    assert_eq!(refused.status.code(), Some(75), "{}", words(&refused));
    let (text, named) = (words(&refused), format!("process {}", running.pid()));
    assert!(text.contains("another executor works in") && text.contains(&named), "{text}");
    assert_eq!(running.status(&begun).await.map(|reply| id(&reply)), Ok(id(&begun)), "the first goes on");

    running.kill();
    let running = ground.start().await;
    running.status(&begun).await.unwrap();
}

#[tokio::test]
async fn a_state_directory_that_can_only_be_read_is_named_and_can_be_verified() {
    let ground = Ground::new();
    let running = ground.start().await;
    running.begin("first").await.unwrap();
    running.kill();
    // A whole ledger without a log, as an orderly end of a backup leaves it.
    drop(
        Connection::open(ground.path("state/ledger.db"))
            .unwrap()
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
    );
    let before = snapshot(&ground.state());
    let mut shell = Shell::new();
    let state = ground.state().display().to_string();
    shell.done(&format!("mount --bind {state} {state} && mount -o remount,bind,ro {state}"));
    let run = |more: &str| format!("{EXECUTOR} {} {more}", ground.arguments().join(" "));
    let out = ground.path("out").display().to_string();
    assert_ne!(shell.run(&format!("{} 2>{out}", run(""))), 0);
    let text = std::fs::read_to_string(ground.path("out")).unwrap();
    assert!(text.contains("Read-only file system") && text.contains(&state), "{text}");
    shell.done(&format!("{} >{out}", run("--verify")));
    let found = std::fs::read_to_string(ground.path("out")).unwrap();
    assert!(found.lines().last().unwrap().contains("\"ok\":true"), "{found}");
    assert_eq!(snapshot(&ground.state()), before, "nothing was touched");
}

#[tokio::test]
async fn a_ledger_that_another_process_keeps_to_itself_is_told_and_left_alone() {
    let ground = Ground::new();
    ground.start().await.kill();
    let other = Connection::open(ground.path("state/ledger.db")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT;").unwrap();
    let refused = ground.ends();
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("locked"), "{}", words(&refused));
    drop(other);
    ground.start().await;
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_begun_and_the_start_says_so() {
    let ground = Ground::new();
    let mut shell = Shell::new();
    let state = ground.state().display().to_string();
    shell.done(&format!("mount -t tmpfs -o size=1m,mode=700 none {state}"));
    shell.run(&format!("cat /dev/zero > {state}/filler 2>/dev/null"));
    let out = ground.path("out").display().to_string();
    let line = format!("{EXECUTOR} {} 2>{out}", ground.arguments().join(" "));
    assert_ne!(shell.run(&line), 0);
    let text = std::fs::read_to_string(ground.path("out")).unwrap();
    assert!(text.contains("No space left") || text.contains("full"), "{text}");
    shell.done(&format!("rm {state}/filler"));
    let running = shell.start(&ground).await;
    running.begin("first").await.unwrap();
}
