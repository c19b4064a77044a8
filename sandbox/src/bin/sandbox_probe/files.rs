//! Attempts on files.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::time::TimeSpec;

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let (path, other) = (arguments.path(0), arguments.path(1));
    let done = |done: io::Result<()>| done.map(|()| String::new());
    Some(match arguments.name {
        "read" => read(path),
        "list" => list(path),
        "stat" => fs::metadata(path).map(|found| format!("{} {}", found.size(), found.mode() & 0o7777)),
        "open-to-write" => done(OpenOptions::new().write(true).open(path).map(drop)),
        "create" => done(OpenOptions::new().write(true).create_new(true).open(path).map(drop)),
        "write" => done(fs::write(path, "written")),
        "chmod" => done(fs::set_permissions(path, fs::Permissions::from_mode(0o777))),
        "touch" => done(touch(path)),
        "setxattr" => done(set_attribute(path)),
        "truncate" => done(nix::unistd::truncate(path, 0).map_err(io::Error::from)),
        "unlink" => done(fs::remove_file(path)),
        "mkdir" => done(fs::DirBuilder::new().recursive(true).mode(0o755).create(path)),
        "rename" => done(fs::rename(path, other)),
        "hard-link" => done(fs::hard_link(path, other)),
        "symlink-and-read" => symlink(path, other).and_then(|()| read(other)),
        "mknod-and-open" => done(make_and_open_device(path)),
        "read-below-descriptor" => read_below(arguments.small(0), other),
        "read-below-cwd" => read(path),
        "fill" => fill(path, arguments.number(1)),
        "descriptors" => list(Path::new("/dev/fd")),
        "make-set-user-id" => done(fs::set_permissions(path, fs::Permissions::from_mode(0o4755))),
        "rename-within" => rename_within(path),
        "kind" => kind(path),
        _ => return None,
    })
}

fn read(path: &Path) -> Outcome {
    let mut text = Vec::new();
    fs::File::open(path)?.take(64 * 1024).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).replace(['\n', '\0'], " "))
}

fn list(path: &Path) -> Outcome {
    let mut names: Vec<String> = fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names.join(" "))
}

fn kind(path: &Path) -> Outcome {
    let kind = fs::symlink_metadata(path)?.file_type();
    let name = [
        (kind.is_char_device(), "device"),
        (kind.is_dir(), "directory"),
        (kind.is_file(), "file"),
        (kind.is_symlink(), "link"),
        (kind.is_socket(), "socket"),
    ];
    Ok(name.iter().find(|(is, _)| *is).map_or("other", |(_, name)| name).to_owned())
}

fn touch(path: &Path) -> io::Result<()> {
    let then = TimeSpec::new(1, 0);
    Ok(utimensat(AT_FDCWD, path, &then, &then, UtimensatFlags::FollowSymlink)?)
}

/// In a directory of one's own: makes a tree, moves it, removes it.
fn rename_within(path: &Path) -> Outcome {
    let (one, other) = (path.join("one"), path.join("other"));
    fs::create_dir_all(one.join("below"))?;
    fs::write(one.join("below/file"), "moved")?;
    fs::rename(&one, &other)?;
    let text = fs::read_to_string(other.join("below/file"))?;
    fs::remove_dir_all(&other)?;
    Ok(text)
}

fn set_attribute(path: &Path) -> io::Result<()> {
    rustix::fs::setxattr(path, "user.probe", b"x", rustix::fs::XattrFlags::empty()).map_err(io::Error::from)
}

/// A block device that no driver has: opening it where devices count says ENXIO, and EACCES where they do not.
fn make_and_open_device(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let number = nix::sys::stat::makedev(254, 0);
    #[cfg(not(target_os = "linux"))]
    let number = nix::libc::makedev(254, 0);
    mknod(path, SFlag::S_IFBLK, Mode::S_IRUSR, number)?;
    fs::File::open(path).map(drop)
}

/// Through a directory's descriptor that somebody forgot to close.
fn read_below(directory: i32, name: &Path) -> Outcome {
    let directory = raw::inherited(directory)?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mut text = String::new();
    let file = rustix::fs::openat(directory, name, flags, rustix::fs::Mode::empty())?;
    fs::File::from(file).take(64 * 1024).read_to_string(&mut text)?;
    Ok(text)
}

fn fill(path: &Path, most: i64) -> Outcome {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(OFlag::O_CLOEXEC.bits())
        .open(path)?;
    let block = vec![1_u8; 1 << 20];
    let mut written = 0;
    while written < most {
        written += i64::try_from(file.write(&block)?).unwrap_or(0);
    }
    Ok(written.to_string())
}
