//! What the system says about the processes: their namespaces, filters and capabilities, and what they see of the files.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gatehouse::chatgpt::Start;
use gatehouse::gateway::front_ready;
use gatehouse_proto::socket::Role;
use gatehouse_tests::confinement::{foreign_namespaces, mounts, thread_states, view};
use gatehouse_tests::{Gateway, Setup, claude, processes};

use crate::{PROMPT, claude_of, finish, is_root, shim_of};

/// Every thread has a system call filter and no privilege, and can get none.
fn assert_bound(pid: u32) {
    let threads = thread_states(pid);
    assert!(!threads.is_empty());
    for thread in threads {
        let told = |field: &str| thread[field].as_str();
        assert_eq!((told("Seccomp"), told("NoNewPrivs")), ("2", "1"), "{thread:?}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(told(set), "0000000000000000", "{set}");
        }
    }
}

/// A path and all directories above it but the root.
fn with_parents(path: &Path) -> Vec<PathBuf> {
    let mut line: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
    line.pop();
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_and_a_shim_have_one_socket_in_a_root_of_their_own() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let (front, shim) = (gateway.front_pid().unwrap(), shim_of(&gateway));
    assert_eq!(thread_states(shim).len(), 1);
    for (pid, role) in [(front, Role::Front), (shim, Role::Runner)] {
        assert_bound(pid);
        let socket = role.socket(&gateway.runtime_dir());
        if is_root() {
            assert_eq!(foreign_namespaces(pid).unwrap(), ["cgroup", "ipc", "mnt", "net", "user", "uts"]);
            let seen: BTreeSet<PathBuf> = view(pid, &[]).unwrap().into_iter().collect();
            assert_eq!(seen, with_parents(&socket).into_iter().collect());
        } else {
            // They keep everybody else of this account out, us too.
            assert_eq!(view(pid, &[]).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        }
        let mut mounts = mounts(pid).unwrap();
        mounts.sort_by(|one, other| one.path.cmp(&other.path));
        let paths: Vec<&Path> = mounts.iter().map(|mount| mount.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/"), &role.directory(&gateway.runtime_dir())]);
        for mount in &mounts {
            for option in ["ro", "nosuid", "nodev", "noexec"] {
                assert!(mount.options.iter().any(|found| found == option), "{mount:?}");
            }
        }
    }
    finish(brain, gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_has_its_program_and_its_directories_in_a_root_of_its_own() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude.clone())).await;
    let brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let (pid, shim) = (claude_of(&brain), shim_of(&gateway));
    assert_bound(pid);
    assert_eq!(foreign_namespaces(pid).unwrap(), ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]);
    if is_root() {
        let network = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        assert_ne!(network(pid), network(shim), "the shim stands outside of its network");
    }

    let home = PathBuf::from(&processes::environment(pid)["HOME"]);
    let session = home.parent().unwrap();
    let own = ["home", "config", "tmp", "cwd"].map(|name| session.join(name));
    let mut except: Vec<&Path> = own.iter().map(PathBuf::as_path).collect();
    except.extend([Path::new("/proc"), Path::new("/dev")]);
    let root = format!("/proc/{pid}/root");
    let inside = |path: &Path| PathBuf::from(format!("{root}{}", path.display()));
    let is_file = |path: &PathBuf| !inside(path).symlink_metadata().unwrap().is_dir();
    // It has no right to list what lies above its directories, but root has.
    if is_root() {
        let files: BTreeSet<PathBuf> = view(pid, &except).unwrap().into_iter().filter(is_file).collect();
        let is_library = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("ld-") || (name.starts_with("lib") && name.contains(".so"))
        };
        let others: Vec<&PathBuf> = files.iter().filter(|path| !is_library(path)).collect();
        let mut expected = [&claude, &session.join("run/mcp.json")];
        expected.sort();
        assert_eq!(others, expected);
    }
    assert_eq!(std::fs::read_dir(inside(&own[3])).unwrap().count(), 0, "it works where nothing is");
    let numbers = std::fs::read_dir(inside(Path::new("/proc"))).unwrap();
    let seen =
        numbers.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().parse::<u32>().is_ok());
    assert_eq!(seen.count(), 2, "itself and the first process of its namespace");
    finish(brain, gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_confines_claude_code_is_told_from_its_first_turn_on() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let mut brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let told = |boundary: &serde_json::Value| -> Vec<String> {
        let layers = boundary["enforced_by"].as_array().unwrap();
        layers.iter().map(|layer| layer.as_str().unwrap().to_owned()).collect()
    };
    let boundary = brain.state().0["network_boundary"].clone();
    assert_eq!(boundary["claude"], "loopback-two-ports");
    let expected = "userns mountns pidns netns ipcns utsns cgroupns loopback dev proc minimal_root capabilities \
        no_new_privs rlimits landlock seccomp";
    // What Landlock has beyond its file rules depends on the kernel; in which order layers are put up is the sandbox's affair.
    let required: BTreeSet<String> =
        told(&boundary).into_iter().filter(|layer| !layer.starts_with("landlock_")).collect();
    assert_eq!(required, expected.split_whitespace().map(str::to_owned).collect());
    // A new executor is told again.
    gateway.kill_executor();
    gateway.start_executor().await;
    let state = brain.recover().await.unwrap();
    assert_eq!(told(&state.0["network_boundary"]), told(&boundary));
    gateway.learn(&brain);
    finish(brain, gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_front_finds_the_socket_of_every_later_executor() {
    let mut gateway = Gateway::start(Setup::without_claude()).await;
    let socket = Role::Front.socket(&gateway.runtime_dir());
    let made = |path: &Path| {
        let found = path.symlink_metadata().unwrap();
        // The number alone may be that of the one before.
        (found.ino(), found.ctime(), found.ctime_nsec())
    };
    let front = gateway.front_pid().unwrap();
    for _ in 0..2 {
        let (before, directory) = (made(&socket), made(socket.parent().unwrap()).0);
        gateway.kill_executor();
        gateway.start_executor().await;
        assert_ne!(made(&socket), before, "it is another socket");
        assert_eq!(made(socket.parent().unwrap()).0, directory, "in the same directory");
        front_ready(&gateway.endpoint()).await.unwrap();
    }
    assert_eq!(gateway.front_pid(), Some(front));
    assert!(processes::is_alive(front));
    gateway.finish().await;
}
