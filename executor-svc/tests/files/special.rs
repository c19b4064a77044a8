//! The kernel's own trees: nothing below them is ever read.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use executor_svc::files::FilePolicyConfig;
use serde_json::json;

use crate::world::{World, session};

/// Some of what is below a directory, links included, a few levels deep.
fn below(dir: &Path, depth: usize, most: usize, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        if found.len() >= most {
            return;
        }
        let path = entry.path();
        found.push(path.clone());
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&path, depth - 1, most, found);
        }
    }
}

#[test]
fn everything_below_proc_sys_and_dev_is_refused() {
    let world = World::new();
    let world = World { files: session(FilePolicyConfig::default(), "/".as_ref()), ..world };
    let mut all = Vec::new();
    for (tree, depth, most) in [("/dev", 4, 2_000), ("/proc", 3, 4_000), ("/sys", 4, 6_000)] {
        below(tree.as_ref(), depth, most, &mut all);
    }
    all.extend(["/proc/self/mem", "/proc/self/environ", "/proc/self/fd/0", "/dev/shm/x"].map(PathBuf::from));
    assert!(all.len() > 100, "{}", all.len());
    for path in all.iter().filter(|path| path.to_str().is_some()) {
        let code = world.refusal(path);
        assert!(
            matches!(code.as_str(), "special_file_system" | "protected_path"),
            "{}: {code}",
            path.display()
        );
    }
}

#[test]
fn a_walk_from_the_top_leaves_them_out_and_says_so() {
    let world = World::new();
    let world = World { files: session(FilePolicyConfig::default(), "/".as_ref()), ..world };
    let found = world.find(&json!({"directory": "/", "max_depth": 2, "limit": 2000}));
    assert_eq!(found["ok"], true);
    let is_kernels = |path: &str| ["/proc", "/sys", "/dev"].iter().any(|tree| path.starts_with(tree));
    for entry in found["entries"].as_array().unwrap() {
        assert!(!is_kernels(entry["path"].as_str().unwrap()), "{entry}");
    }
    assert!(found["skipped"]["special_file_system"].as_u64().unwrap() >= 3, "{}", found["skipped"]);
    for tree in ["/proc", "/sys", "/dev"] {
        assert_eq!(world.search(&json!({"text": "x", "directory": tree}))["code"], "special_file_system");
    }
}
