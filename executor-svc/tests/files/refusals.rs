//! Each refusal, by its cause.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, RootFault, canonical_root};
use executor_svc::tools::{self, ToolName};
use serde_json::json;

use crate::world::{World, paths};

#[test]
fn what_is_not_a_readable_text_file_is_refused_with_its_own_code() {
    let world = World::new();
    world.write("root/text", "fine\n");
    world.write("root/latin1", b"caf\xe9\n");
    world.write("root/.git/config", "x");
    assert_eq!(world.read(world.root.join("text"))["content"], "fine\n");
    assert_eq!(world.refusal(world.root.join("none")), "not_found");
    assert_eq!(world.refusal(world.root.join("text/below")), "not_found");
    assert_eq!(world.refusal(&world.root), "not_a_file");
    assert_eq!(world.refusal(world.root.join("latin1")), "not_utf8");
    assert_eq!(world.refusal(world.root.join(".git/config")), "git_refused");
    assert_eq!(world.refusal(world.root.join(".GIT/config")), "git_refused");
    assert_eq!(world.refusal(world.root.join("a".repeat(300))), "too_large");
}

#[test]
fn a_fifo_a_socket_and_a_device_are_refused_and_never_block() {
    let world = World::new();
    let fifo = world.root.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.root.join("socket")).unwrap();
    for (name, kind) in [("fifo", "a FIFO"), ("socket", "a socket")] {
        let receipt = world.read(world.root.join(name));
        assert_eq!(receipt["code"], "not_a_file");
        assert!(receipt["message"].as_str().unwrap().contains(kind), "{receipt}");
    }
    let found = world.search(&json!({"text": "x"}));
    assert_eq!(found["skipped"], json!({"not_a_file": 2}));
}

#[test]
fn a_link_at_any_component_is_refused_and_its_real_target_named() {
    let world = World::new();
    let real = world.write("root/dir/file", "x");
    symlink(world.root.join("dir"), world.root.join("link")).unwrap();
    symlink("file", world.root.join("dir/last")).unwrap();
    symlink("nowhere", world.root.join("dangling")).unwrap();
    for path in ["link/file", "dir/last", "link/last"] {
        let receipt = world.read(world.root.join(path));
        assert_eq!(receipt["code"], "symlink_refused", "{path}");
        assert!(receipt["hint"].as_str().unwrap().contains(real.to_str().unwrap()), "{receipt}");
    }
    assert_eq!(world.refusal(world.root.join("dangling")), "symlink_refused");
    assert_eq!(world.find(&json!({"directory": world.root.join("link")}))["code"], "symlink_refused");
}

#[test]
fn a_link_to_a_secret_does_not_tell_where_the_secret_is() {
    let world = World::new();
    let secret = world.write("home/.config/gh/hosts.yml", "token");
    symlink(&secret, world.root.join("link")).unwrap();
    let receipt = world.read(world.root.join("link"));
    assert_eq!(receipt["code"], "symlink_refused");
    assert!(!receipt.to_string().contains("hosts.yml"), "{receipt}");
}

#[test]
fn protected_paths_are_refused_however_they_are_spelled() {
    let world = World::new();
    let secret = world.write("home/.ssh/id_rsa", "key");
    world.write("root/.env", "TOKEN=1");
    world.write("root/.env.example", "TOKEN=");
    world.write("root/dir/x", "x");
    let spellings = [
        secret.clone(),
        world.home.join(".ssh/../.ssh//./id_rsa"),
        world.home.join(".SSH/id_rsa"),
        world.home.join(".s\u{200d}sh/id_rsa"),
        world.home.join(".ssh/not-there"),
        world.root.join(".env"),
        world.root.join("dir/../.env"),
    ];
    for path in spellings {
        assert_eq!(world.refusal(&path), "protected_path", "{}", path.display());
    }
    assert_eq!(world.read(world.root.join(".env.example"))["content"], "TOKEN=");
    let spelled = Path::new("/proc/self/root").join(secret.strip_prefix("/").unwrap());
    assert_eq!(world.refusal(spelled), "protected_path");
}

#[test]
fn own_and_configured_places_are_protected_and_read_roots_narrow_reading() {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(state.path().join("state/sub")).unwrap();
    std::fs::write(state.path().join("state/sub/ledger"), "x").unwrap();
    let own = state.path().join("state");
    let world = World::with(|config| {
        config.own_dirs = vec![own.clone()];
        config.extra_protected = vec!["**/private-*".to_owned()];
    });
    world.write("root/private-notes", "x");
    assert_eq!(world.refusal(own.join("sub/ledger")), "protected_path");
    assert_eq!(world.find(&json!({"directory": own}))["code"], "protected_path");
    assert_eq!(world.refusal(world.root.join("private-notes")), "protected_path");

    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "x").unwrap();
    let narrowed = World::new();
    let config = FilePolicyConfig { read_roots: vec![narrowed.root.clone()], ..FilePolicyConfig::default() };
    let files = crate::world::session(config, &narrowed.root);
    let narrowed = World { files, ..narrowed };
    let inside = narrowed.write("root/file", "x");
    assert_eq!(narrowed.read(inside)["ok"], true);
    assert_eq!(narrowed.refusal(outside.path().canonicalize().unwrap().join("file")), "outside_root");
}

#[test]
fn unreadable_files_are_refused_unless_the_user_may_read_everything() {
    let world = World::new();
    let path = world.write("root/closed", "x");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    // Root reads it all the same.
    if std::fs::File::open(&path).is_err() {
        assert_eq!(world.refusal(&path), "permission_denied");
        assert_eq!(world.search(&json!({"text": "x"}))["skipped"], json!({"permission_denied": 1}));
    }
}

#[test]
fn names_that_are_no_text_are_counted_and_not_shown() {
    let world = World::new();
    std::fs::write(world.root.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "needle").unwrap();
    world.write("root/good", "needle");
    let found = world.search(&json!({"text": "needle"}));
    assert_eq!(paths(&found, &world.root), ["good"]);
    assert_eq!(found["skipped"], json!({"not_utf8_name": 1}));
    assert_eq!(world.find(&json!({}))["skipped"], json!({"not_utf8_name": 1}));
}

#[test]
fn inputs_are_held_against_their_schema() {
    for (tool, input, field) in [
        (ToolName::Read, json!({"file_path": "relative"}), "file_path"),
        (ToolName::Read, json!({"file_path": "/a\0b"}), "file_path"),
        (ToolName::Read, json!({"file_path": 7}), "file_path"),
        (ToolName::Read, json!({}), "file_path"),
        (ToolName::Read, json!({"file_path": "/a", "start_line": 0}), "start_line"),
        (ToolName::Read, json!({"file_path": "/a", "max_lines": 1.5}), "max_lines"),
        (ToolName::Read, json!({"file_path": "/a", "start_line": null}), "start_line"),
        (ToolName::Read, json!({"file_path": "/a", "model": "x"}), "model"),
        (ToolName::FindFiles, json!({"limit": 2001}), "limit"),
        (ToolName::FindFiles, json!({"glob": "a["}), "glob"),
        (ToolName::FindFiles, json!({"include_hidden": "yes"}), "include_hidden"),
        (ToolName::FindFiles, json!({"cursor": "nonsense"}), "cursor"),
        (ToolName::SearchText, json!({"text": ""}), "text"),
        (ToolName::SearchText, json!({"text": "a\nb"}), "text"),
        (ToolName::SearchText, json!({"text": "a", "context_lines": 6}), "context_lines"),
        (ToolName::SearchText, json!({"text": "a", "limit": 1001}), "limit"),
    ] {
        let fault = tools::check(tool, &input).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some(field), "{input}: {fault}");
    }
    assert!(tools::check(ToolName::Read, &json!({"file_path": "/a", "start_line": 2.0})).is_ok());
    assert!(tools::check(ToolName::Read, &json!("/a")).is_err());
}

#[test]
fn every_schema_is_of_the_contracts_form() {
    for tool in tools::descriptions(Profile::ReadOnly) {
        assert_eq!(tool.read_only, tool.name != ToolName::RunCommand);
        let schema = &tool.input_schema;
        assert_eq!(
            (schema["type"].as_str(), schema["additionalProperties"].as_bool()),
            (Some("object"), Some(false))
        );
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
            assert!(property["type"].is_string(), "{name}");
        }
        let text = schema.to_string();
        for word in ["$ref", "$defs", "oneOf", "anyOf", "allOf", "nullable", "\"default\":null"] {
            assert!(!text.contains(word), "{word}");
        }
    }
}

#[test]
fn a_working_directory_is_resolved_once_and_writing_profiles_are_kept_out_of_wide_places() {
    let world = World::new();
    let policy = world.files.policy();
    symlink(&world.root, world.top.join("spelling")).unwrap();
    let root = canonical_root(&world.top.join("spelling"), Profile::DirectWrite, policy).unwrap();
    assert_eq!(root.path, world.root);
    root.verify().unwrap();
    std::fs::remove_dir(&world.root).unwrap();
    std::fs::create_dir(world.top.join("keeps-the-inode-busy")).unwrap();
    std::fs::create_dir(&world.root).unwrap();
    assert_eq!(root.verify(), Err(RootFault::Replaced(world.root.clone())));

    assert!(canonical_root(Path::new("/"), Profile::ReadOnly, policy).is_ok());
    for wide in [Path::new("/"), &world.home, &world.top] {
        let fault = canonical_root(wide, Profile::DirectWrite, policy).unwrap_err();
        assert!(matches!(fault, RootFault::TooWide { .. }), "{fault}");
    }
    std::fs::create_dir_all(world.home.join(".ssh")).unwrap();
    let file = world.write("root/file", "x");
    for (path, wanted) in [
        (Path::new("relative"), "absolute"),
        (&world.root.join("none"), "no such"),
        (&file, "not a directory"),
        (&world.home.join(".ssh"), "protected"),
        (Path::new("/proc"), "special"),
    ] {
        let fault = canonical_root(path, Profile::ReadOnly, policy).unwrap_err().to_string();
        assert!(fault.contains(wanted), "{}: {fault}", path.display());
    }
}

#[test]
fn a_policy_with_a_relative_path_or_a_pattern_for_everything_is_refused() {
    let relative = FilePolicyConfig { own_dirs: vec!["state".into()], ..FilePolicyConfig::default() };
    assert!(FilePolicy::new(relative).is_err());
    let everything =
        FilePolicyConfig { extra_protected: vec!["/*".to_owned()], ..FilePolicyConfig::default() };
    assert!(FilePolicy::new(everything).is_err());
}
