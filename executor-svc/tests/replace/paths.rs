//! Any spelling of a path: what is written lies below the root, is no link, no `.git` and nothing protected, and nothing else
//! has changed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::world::{World, snapshot};

fn world() -> World {
    let world = World::new();
    for name in ["file", "dir/file", "dir/deep/file", ".git/config", "dir/.git/HEAD", ".env"] {
        world.put(name, "inside");
    }
    for name in ["file", "dir/file"] {
        let path = world.outside.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "outside").unwrap();
    }
    symlink(&world.outside, world.root.join("out")).unwrap();
    symlink("../outside/file", world.root.join("linked")).unwrap();
    symlink("dir", world.root.join("within")).unwrap();
    symlink("nowhere", world.root.join("dangling")).unwrap();
    symlink(".", world.root.join("dir/self")).unwrap();
    world
}

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["dir", "deep", "file", "new", "a b", "ä"]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![".", "..", "", "root", "outside"]).prop_map(str::to_owned),
        3 => prop::sample::select(vec!["out", "linked", "within", "dangling", "self"]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![".git", ".GIT", ".Git", ".g\u{200c}it", ".git ", ".git.", "git~1", ".git::$INDEX_ALLOCATION", ".\u{ff47}it", ".env", ".env.local", ".ssh"])
            .prop_map(str::to_owned),
        1 => "[a-z\u{1}\u{7f}\\\\*?]{1,12}",
        1 => Just("n".repeat(256)),
    ]
}

fn is_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().to_lowercase().contains(".git"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases))]
    #[test]
    fn nothing_is_written_but_what_may_be(parts in prop::collection::vec(component(), 1..7), absolute in any::<bool>()) {
        let world = world();
        let tail = parts.join("/");
        let asked = if absolute { format!("/{tail}") } else { format!("{}/{tail}", world.root.display()) };
        let before = snapshot(world.top());
        let done = world.write(&asked, "written");
        let after = snapshot(world.top());
        let changed: Vec<&(PathBuf, String)> = after.iter().filter(|entry| !before.contains(entry)).collect();
        let gone = before.iter().filter(|(path, _)| !after.iter().any(|(now, _)| now == path)).count();
        prop_assert_eq!(gone, 0, "{}", asked);
        match done {
            Err(fault) => {
                prop_assert!(changed.is_empty(), "{} {}: {:?}", asked, fault, changed);
            }
            Ok(_) => {
                let files: Vec<_> = changed.iter().filter(|(_, holds)| holds == "file Ok(\"written\")").collect();
                prop_assert_eq!(files.len(), 1, "{} {:?}", asked, changed);
                for (path, holds) in &changed {
                    prop_assert!(path.starts_with(&world.root) && !is_git(path), "{}: {:?}", asked, path);
                    prop_assert!(holds == "directory" || path == &files[0].0, "{}: {:?}", asked, changed);
                    prop_assert!(!path.ends_with(".env") && !path.ends_with(".env.local"), "{}", asked);
                    prop_assert!(!path.to_string_lossy().contains("/.ssh"), "{}", asked);
                }
            }
        }
    }
}
