//! Hard links and bind mounts.

use std::fs::hard_link;
use std::process::Command;

use executor_svc::files::{FilePolicyConfig, HardLinks};
use serde_json::json;

use crate::world::{World, session};

#[test]
fn a_file_whose_names_all_lie_inside_the_root_is_read() {
    let world = World::new();
    let one = world.write("root/one", "shared\n");
    std::fs::create_dir(world.root.join("dir")).unwrap();
    hard_link(&one, world.root.join("dir/two")).unwrap();
    assert_eq!(world.read(&one)["content"], "shared\n");
    assert_eq!(world.search(&json!({"text": "shared"}))["matches"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_with_a_name_outside_the_root_is_refused_and_the_remedy_named() {
    let world = World::new();
    let outside = world.write("store/package", "shared\n");
    hard_link(&outside, world.root.join("package")).unwrap();
    let receipt = world.read(world.root.join("package"));
    assert_eq!(receipt["code"], "hard_link_refused");
    assert!(receipt["hint"].as_str().unwrap().contains("files.hard_links"), "{receipt}");
    assert_eq!(world.refusal(&outside), "hard_link_refused");
    assert_eq!(world.search(&json!({"text": "shared"}))["skipped"], json!({"hard_link": 1}));
    assert_eq!(world.find(&json!({}))["skipped"], json!({"hard_link": 1}));

    let config = FilePolicyConfig { hard_links: HardLinks::ProtectedOnly, ..FilePolicyConfig::default() };
    let relaxed = World { files: session(config, &world.root), ..world };
    assert_eq!(relaxed.read(relaxed.root.join("package"))["content"], "shared\n");
}

#[test]
fn another_name_of_a_secret_is_refused_also_when_links_are_relaxed_and_made_later() {
    for hard_links in [HardLinks::Strict, HardLinks::ProtectedOnly] {
        let world = World::with(|config| config.hard_links = hard_links);
        let secret = world.write("home/.config/gh/hosts.yml", "token");
        hard_link(&secret, world.root.join("harmless")).unwrap();
        assert_eq!(world.refusal(world.root.join("harmless")), "protected_path");
        let later = world.write("home/.config/gh/later", "token");
        hard_link(&later, world.root.join("later")).unwrap();
        assert_eq!(world.refusal(world.root.join("later")), "protected_path");
        assert_eq!(world.search(&json!({"text": "token"}))["skipped"], json!({"protected": 2}));
    }
}

#[test]
fn a_second_name_of_a_file_that_its_name_protects_is_refused() {
    let world = World::new();
    let env = world.write("root/.env", "TOKEN=1");
    hard_link(&env, world.root.join("plain")).unwrap();
    assert_eq!(world.refusal(world.root.join("plain")), "protected_path");
    let inside_git = world.write("root/.git/objects/x", "blob");
    hard_link(&inside_git, world.root.join("blob")).unwrap();
    assert_eq!(world.refusal(world.root.join("blob")), "protected_path");
}

#[test]
fn a_root_that_covers_its_file_system_needs_no_walk_to_know_its_links() {
    let world = World::new();
    let one = world.write("store/one", "shared\n");
    hard_link(&one, world.top.join("two")).unwrap();
    let world = World { files: session(FilePolicyConfig::default(), "/".as_ref()), ..world };
    assert_eq!(world.read(&one)["content"], "shared\n");
}

/// Runs one of the tests below once more, in a mount namespace where it may mount. It needs root or user namespaces.
fn in_a_mount_namespace(test: &str) -> bool {
    const INSIDE: &str = "GATEHOUSE_TEST_INSIDE_MOUNT_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "--propagation", "private"]);
    let output = command.arg(own).args([test, "--exact", "--nocapture"]).env(INSIDE, "1").output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

fn bind(from: &std::path::Path, to: &std::path::Path) {
    let done = Command::new("mount").arg("--bind").arg(from).arg(to).status().unwrap();
    assert!(done.success(), "mount --bind {} {}", from.display(), to.display());
}

#[test]
#[cfg(target_os = "linux")]
fn a_bind_mount_gives_a_secret_no_other_name() {
    if !in_a_mount_namespace("links::a_bind_mount_gives_a_secret_no_other_name") {
        return;
    }
    let world = World::new();
    let secret = world.write("home/.config/gh/deep/token", "token");
    let plain = world.write("root/plain", "plain\n");
    for dir in ["whole", "gh", "deep"] {
        std::fs::create_dir(world.root.join(dir)).unwrap();
    }
    std::fs::write(world.root.join("file"), "").unwrap();
    bind(&world.home, &world.root.join("whole"));
    bind(&world.home.join(".config/gh"), &world.root.join("gh"));
    bind(&world.home.join(".config/gh/deep"), &world.root.join("deep"));
    bind(&secret, &world.root.join("file"));
    for path in ["whole/.config/gh/deep/token", "gh/deep/token", "deep/token", "file"] {
        assert_eq!(world.refusal(world.root.join(path)), "protected_path", "{path}");
    }
    assert_eq!(world.find(&json!({"directory": world.root.join("deep")}))["code"], "protected_path");
    assert_eq!(world.read(&plain)["content"], "plain\n");
    let found = world.search(&json!({"text": "token"}));
    assert_eq!((&found["matches"], &found["skipped"]), (&json!([]), &json!({"protected": 4})), "{found}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_mount_onto_a_protected_place_protects_what_it_shows() {
    if !in_a_mount_namespace("links::a_mount_onto_a_protected_place_protects_what_it_shows") {
        return;
    }
    let world = World::new();
    let source = world.write("root/keys/key", "secret");
    std::fs::create_dir(world.home.join(".ssh")).unwrap();
    bind(&world.root.join("keys"), &world.home.join(".ssh"));
    assert_eq!(world.refusal(&source), "protected_path");
    assert_eq!(world.search(&json!({"text": "secret"}))["matches"], json!([]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_special_file_system_mounted_anywhere_is_refused_by_its_type() {
    if !in_a_mount_namespace("links::a_special_file_system_mounted_anywhere_is_refused_by_its_type") {
        return;
    }
    let world = World::new();
    std::fs::create_dir(world.root.join("proc")).unwrap();
    bind("/proc".as_ref(), &world.root.join("proc"));
    assert_eq!(world.refusal(world.root.join("proc/version")), "special_file_system");
    let found = world.search(&json!({"text": "Linux"}));
    assert_eq!((&found["matches"], &found["skipped"]), (&json!([]), &json!({"special_file_system": 1})));
}
