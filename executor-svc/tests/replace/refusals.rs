//! Each refusal, by its cause. `World::refusal` also shows that nothing was changed by it.

use std::os::unix::fs::{PermissionsExt, symlink};

use executor_svc::files::replace::{ReplaceOptions, Replacer};

use crate::world::World;

#[test]
fn paths_outside_the_root_are_refused() {
    let world = World::new();
    std::fs::write(world.outside.join("file"), "x").unwrap();
    assert_eq!(world.refusal(world.outside.join("file")), "outside_root");
    assert_eq!(world.refusal(world.outside.join("new")), "outside_root");
    assert_eq!(world.refusal(world.root.join("../outside/file")), "outside_root");
    assert_eq!(world.refusal(world.root.join("dir/../../outside/file")), "outside_root");
    let sibling = format!("{}-more/file", world.root.display());
    assert_eq!(world.refusal(sibling), "outside_root");
    assert_eq!(world.refusal(&world.root), "not_a_file");
    assert_eq!(world.refusal("/"), "outside_root");
}

#[test]
fn a_link_at_any_component_is_refused() {
    let world = World::new();
    world.put("dir/file", "x");
    std::fs::write(world.outside.join("file"), "x").unwrap();
    symlink(world.root.join("dir"), world.root.join("inside")).unwrap();
    symlink(&world.outside, world.root.join("out")).unwrap();
    symlink(world.outside.join("file"), world.root.join("last")).unwrap();
    symlink("nowhere", world.root.join("dangling")).unwrap();
    for path in ["inside/file", "inside/new", "out/file", "out/new/deep", "last", "dangling", "dangling/new"]
    {
        assert_eq!(world.refusal(world.root.join(path)), "symlink_refused", "{path}");
    }
}

#[test]
fn git_is_refused_at_any_depth_and_in_any_spelling() {
    let world = World::new();
    world.put(".git/config", "x");
    world.put("sub/.git", "gitdir: elsewhere");
    world.put("dir/x", "x");
    for path in [
        ".git/config",
        ".git/hooks/new",
        "sub/.git",
        "sub/.git/new",
        ".GIT/config",
        "dir/.Git",
        "dir/.git",
        "new/.git/x",
        ".g\u{200c}it/config",
        ".g\u{131}t/x",
        "dir/.ｇｉｔ",
        "GIT~1/config",
        "dir/git~1",
    ] {
        assert_eq!(world.refusal(world.root.join(path)), "git_refused", "{path}");
    }
    // Names that only contain it are ordinary.
    world.write(world.root.join(".gitignore"), "target").unwrap();
    world.write(world.root.join("x.git"), "x").unwrap();
}

#[test]
fn protected_paths_are_refused_whether_they_exist_or_not() {
    let world = World::new();
    world.put(".env", "TOKEN=1");
    for path in [".env", ".ENV", "new/.env", ".ssh/id_rsa", "deep/.aws/credentials"] {
        assert_eq!(world.refusal(world.root.join(path)), "protected_path", "{path}");
    }
    world.write(world.root.join(".env.example"), "TOKEN=").unwrap();
}

#[test]
fn files_with_more_than_one_name_are_refused_even_inside_the_root() {
    let world = World::new();
    let path = world.put("one", "x");
    std::fs::hard_link(&path, world.root.join("two")).unwrap();
    assert_eq!(world.refusal(&path), "hard_link_refused");
    assert_eq!(world.refusal(world.root.join("two")), "hard_link_refused");
}

#[test]
fn what_is_no_regular_file_is_refused_and_never_blocks() {
    let world = World::new();
    world.put("dir/file", "x");
    nix::unistd::mkfifo(&world.root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.root.join("socket")).unwrap();
    for path in ["dir", "fifo", "socket", "dir/file/below", "dir/file/below/deep"] {
        assert_eq!(world.refusal(world.root.join(path)), "not_a_file", "{path}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_refused() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let world = World::new();
    let made = mknod(&world.root.join("null"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3));
    // Only the superuser can make one.
    assert_eq!(made.is_ok(), world.root.join("null").exists());
    if made.is_ok() {
        assert_eq!(world.refusal(world.root.join("null")), "not_a_file");
    }
    for path in ["/dev/null", "/proc/self/comm", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        assert!(matches!(world.refusal(path), "special_file_system" | "protected_path"), "{path}");
    }
}

#[test]
fn read_only_files_are_refused_although_they_could_be_replaced() {
    let world = World::new();
    let path = world.put("closed", "x");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(world.refusal(&path), "permission_denied");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o200)).unwrap();
    // Writable and unreadable: the superuser reads it all the same, others cannot know what they would replace.
    if std::fs::File::open(&path).is_err() {
        assert_eq!(world.refusal(&path), "permission_denied");
    } else {
        world.write(&path, "x").unwrap();
    }
}

#[test]
fn read_only_directories_are_refused() {
    let world = World::new();
    let path = world.put("dir/file", "x");
    let set = |mode| {
        std::fs::set_permissions(world.root.join("dir"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o555);
    let codes =
        [&path, &world.root.join("dir/new"), &world.root.join("dir/new/deep")].map(|p| world.refusal(p));
    set(0o755);
    assert_eq!(codes, ["permission_denied"; 3]);
}

#[test]
#[cfg(target_os = "linux")]
fn immutable_files_are_refused_also_for_the_superuser() {
    use rustix::fs::IFlags;
    let world = World::new();
    let path = world.put("immutable", "x");
    let file = std::fs::File::open(&path).unwrap();
    for flag in [IFlags::IMMUTABLE, IFlags::APPEND] {
        // Only the superuser can set it, and only some file systems know it.
        if rustix::fs::ioctl_setflags(&file, flag).is_err() {
            continue;
        }
        let code = world.refusal(&path);
        rustix::fs::ioctl_setflags(&file, IFlags::empty()).unwrap();
        assert_eq!(code, "permission_denied", "{flag:?}");
    }
}

#[test]
fn names_that_are_too_long_are_refused_before_anything_is_made() {
    let world = World::new();
    let long = "n".repeat(256);
    assert_eq!(world.refusal(world.root.join(&long)), "too_large");
    assert_eq!(world.refusal(world.root.join("new").join(&long).join("file")), "too_large");
    assert_eq!(world.refusal(world.root.join("d/".repeat(2500)).join("file")), "too_large");
    // The longest that there is can be replaced: the temporary name is not made of it.
    let longest = world.root.join("n".repeat(255));
    world.write(&longest, "one").unwrap();
    world.write(&longest, "two").unwrap();
}

#[test]
fn a_nul_character_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let path = world.root.join(std::ffi::OsStr::from_bytes(b"a\0b"));
    assert_eq!(world.refusal(path), "not_a_file");
}

#[test]
fn files_over_the_limit_are_refused_before_and_after() {
    let world = World::with(ReplaceOptions { max_bytes: 10, ..ReplaceOptions::default() });
    let path = world.put("large", "01234567890");
    assert_eq!(world.refusal(&path), "too_large");
    let small = world.put("small", "0123456789");
    assert_eq!(world.write(&small, "01234567890").unwrap_err().code().as_str(), "too_large");
    world.write(&small, "9876543210").unwrap();
}

#[test]
fn a_root_that_was_replaced_is_refused() {
    let world = World::new();
    let path = world.put("file", "x");
    std::fs::rename(&world.root, world.top().join("moved")).unwrap();
    assert_eq!(world.refusal(&path), "outside_root");
    std::fs::create_dir(&world.root).unwrap();
    std::fs::write(&path, "x").unwrap();
    assert_eq!(world.refusal(&path), "outside_root");
    std::fs::remove_dir_all(&world.root).unwrap();
    symlink(world.top().join("moved"), &world.root).unwrap();
    assert_eq!(world.refusal(&path), "outside_root");
}

#[test]
#[cfg(target_os = "linux")]
fn other_users_files_are_refused_when_their_owner_could_not_be_kept() {
    // Shown as another user than the superuser: a file that everybody may write, in a directory that everybody may.
    let world = World::new();
    let path = world.put("theirs", "x");
    for (path, mode) in [(world.top(), 0o755), (&*world.root, 0o777), (&*path, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    if !nix::unistd::geteuid().is_root() {
        // Then it is our own file, and there is nobody else to be.
        world.write(&path, "mine").unwrap();
        return;
    }
    let told = as_user(1000, || {
        let world = World::at(world.top(), Replacer::new(ReplaceOptions::default()));
        let mine = world.write(world.root.join("mine"), "x").map(|_| "written");
        (world.write(&path, "refused").unwrap_err().code().as_str(), mine.unwrap())
    });
    assert_eq!(told, ("permission_denied", "written"));
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    world.assert_tidy();
}

/// Runs something in a thread that meets the file system as another user.
#[cfg(target_os = "linux")]
fn as_user<T: Send>(id: u32, act: impl FnOnce() -> T + Send) -> T {
    use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
    let run = || {
        setfsgid(Gid::from_raw(id));
        setfsuid(Uid::from_raw(id));
        act()
    };
    std::thread::scope(|threads| threads.spawn(run).join().unwrap())
}
