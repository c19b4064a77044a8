//! Where the credential is: in its file, and in the executor. It is looked for everywhere else while it is in use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gatehouse_tests::deepseek::{Answer, Message, call, text};
use gatehouse_tests::processes;
use serde_json::json;

use crate::world::{World, delegate, seen_out};

#[tokio::test(flavor = "multi_thread")]
async fn the_credential_is_in_its_file_and_nowhere_else() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, root) = world.session().await;
    let read = call("c", "Read", &json!({"file_path": root.join("README.md")}));
    let ran = call("d", "RunCommand", &json!({"argv": ["env"]}));
    world.provider.script([
        Answer::Good(Message::flash(vec![read, ran])),
        Answer::Held(Message::flash(vec![text("x")])),
        Answer::status(401, "authentication_error", &format!("bad key {}", world.credential)),
    ]);
    let id = delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(2).await;
    // While a request is under way the executor holds it.
    assert_eq!(world.provider.seen()[1].headers["x-api-key"], world.credential);
    in_no_process(&world);
    in_no_file(&world, &root);
    world.gateway.kill_executor();
    world.gateway.start_executor().await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(told["error"]["status"], 401, "{told}");
    in_no_process(&world);
    in_no_file(&world, &root);
    brain.finish("Done.").await.unwrap();
    let session = brain.session_id();
    for all in [vec!["show", session, "--json"], vec!["export", session], vec!["sessions"], vec!["verify"]] {
        let said = world.gateway.cli(&all);
        assert!(!said.stdout.is_empty() && !holds(&said.stdout, &world.credential), "{all:?}");
    }
    // The scan at the end goes through all that came over MCP, the operator service, the command line and the logs.
    world.gateway.finish().await;
}

/// The gateway's processes and whatever they have started, sandboxed or not.
fn family(top: &Path) -> BTreeSet<u32> {
    let mut family: BTreeSet<u32> = processes::of_directory(top).into_iter().collect();
    loop {
        let parent = |pid: u32| -> Option<u32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let born: Vec<_> = pids
            .filter(|&pid| {
                !family.contains(&pid) && parent(pid).is_some_and(|parent| family.contains(&parent))
            })
            .collect();
        if born.is_empty() {
            return family;
        }
        family.extend(born);
    }
}

/// Arguments, environment and open files of every process of the gateway, and arguments and environment of all others.
fn in_no_process(world: &World) {
    let top = world.gateway.state_dir().parent().unwrap().to_owned();
    for process in processes::all() {
        let holds = process.arguments.iter().any(|argument| argument.contains(&world.credential));
        let environment = processes::environment(process.pid);
        assert!(
            !holds && !environment.values().any(|value| value.contains(&world.credential)),
            "{}",
            process.pid
        );
    }
    let pids = family(&top);
    assert!(pids.len() >= 6, "executor, front, two shims, two Claude Codes at least: {pids:?}");
    let file = world.drawer.path().join("deepseek.key");
    for pid in pids {
        let place = PathBuf::from(format!("/proc/{pid}"));
        for name in ["cmdline", "environ"] {
            let bytes = std::fs::read(place.join(name)).unwrap_or_default();
            assert!(!holds(&bytes, &world.credential), "{name} of {pid}");
        }
        for entry in std::fs::read_dir(place.join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            assert_ne!(target, file, "{pid} has the credential file open");
            let is_file =
                std::fs::metadata(entry.path()).is_ok_and(|found| found.is_file() && found.len() < 1 << 26);
            let bytes = if is_file { std::fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            assert!(!holds(&bytes, &world.credential), "{pid} has {} open", target.display());
        }
    }
}

/// State with ledger, logs and homes, sockets, worktree, source.
fn in_no_file(world: &World, root: &Path) {
    let top = world.gateway.state_dir().parent().unwrap().to_owned();
    let mut looked = 0;
    for place in [top, root.to_owned(), world.repository.path()] {
        let mut waiting = vec![place];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    waiting.push(entry.path());
                } else if kind.is_file() {
                    looked += 1;
                    let bytes = std::fs::read(entry.path()).unwrap_or_default();
                    assert!(!holds(&bytes, &world.credential), "{}", entry.path().display());
                }
            }
        }
    }
    assert!(looked > 20, "the ledger, the homes and the logs were looked at: {looked}");
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}
