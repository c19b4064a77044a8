//! Files: what is hidden, what is read-only, what is writable.

use gatehouse_sandbox::launch::{LaunchError, Policy, Scratch, Stage};

use crate::host::{Host, SECRET};
use crate::probe::Control::{Anybody, Nobody, Root};
use crate::probe::{Cause, PROBE, command, inside, is_root, outside, refused, request, start, text};

#[tokio::test]
async fn a_secret_is_not_read_listed_or_looked_at_under_any_of_its_names() {
    let host = Host::new();
    let secret = host.text("home/.ssh/id_rsa");
    let confined = command(&host);
    assert_eq!(outside(&["read", &secret]), Cause::Ok(SECRET.into()));
    let victim = host.victim();
    for attempt in [
        vec!["read", &*secret],
        vec!["list", &host.text("home/.ssh")],
        vec!["stat", &secret],
        vec!["read", &host.text("home/alias")],
        vec!["read", &host.text("home/.aws/credentials")],
        vec!["read", &host.text("home/dot/aws/credentials")],
        vec!["list", &host.text("state")],
        vec!["read", &format!("/proc/self/root{secret}")],
        vec!["read", &host.text("home/../home/./.ssh/id_rsa")],
    ] {
        refused(&confined, &attempt, &["EACCES"], Anybody).await;
    }
    // Outside it has another current directory.
    refused(&confined, &["read", &format!("/proc/self/cwd{secret}")], &["EACCES"], Nobody).await;
    // The first process inside is ours and shows nothing; a process outside is not there.
    refused(&confined, &["read", &format!("/proc/1/root{secret}")], &["EACCES"], Nobody).await;
    refused(&confined, &["read", &format!("/proc/{victim}/root{secret}")], &["ENOENT"], Anybody).await;
}

#[tokio::test]
async fn no_new_name_for_a_secret_can_be_made() {
    let host = Host::new();
    let secret = host.text("home/.ssh/id_rsa");
    let confined = command(&host);
    refused(&confined, &["symlink-and-read", &secret, "/tmp/link"], &["EACCES"], Nobody).await;
    assert!(outside(&["symlink-and-read", &secret, &host.text("ws/link")]).is_ok());
    refused(&confined, &["hard-link", &secret, "/tmp/hard"], &["EACCES"], Nobody).await;
    assert!(outside(&["hard-link", &secret, &host.text("ws/hard")]).is_ok());
    let (ssh, away) = (host.text("home/.ssh"), host.text("home/away"));
    refused(&confined, &["rename", &ssh, &away], &["EROFS", "EBUSY"], Nobody).await;
    refused(&confined, &["rename", &host.text("home"), &host.text("away")], &["EROFS", "EBUSY"], Nobody)
        .await;
    assert!(outside(&["rename", &host.text("home/dot"), &away]).is_ok());
}

#[tokio::test]
async fn another_hard_link_is_hidden_when_it_is_named_and_known_to_leak_when_not() {
    let host = Host::new();
    let mut confined = command(&host);
    let linked = host.text("home/linked");
    assert_eq!(inside(&confined, &["read", &linked]).await, Cause::Ok(SECRET.into()), "no mask can know");
    confined.hidden.push(linked.clone().into());
    refused(&confined, &["read", &linked], &["EACCES"], Anybody).await;
}

#[tokio::test]
async fn nothing_starts_in_a_hidden_directory() {
    let host = Host::new();
    let mut request = request(Policy::Command, &[PROBE, "read-below-cwd", "id_rsa"]);
    request.cwd = host.path("home/.ssh").into();
    match start(&request, &command(&host)).await {
        Err(LaunchError::Layer(failure)) => {
            assert!(failure.call.starts_with("hide "), "{failure}");
        }
        other => panic!("{other:?}"),
    }
    request.cwd = host.path("home/dot/aws").into();
    let mut confined = command(&host);
    confined.hidden = vec![host.path("home/dot")];
    assert!(start(&request, &confined).await.is_err());
    confined.hidden.clear();
    request.cwd = "/nonexistent/gatehouse".into();
    match start(&request, &confined).await {
        Err(LaunchError::Step { stage, errno }) => assert_eq!((stage, errno), (Stage::Directory, 2)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_forgotten_descriptor_of_a_directory_is_not_there_inside() {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use std::os::fd::AsRawFd;
    let host = Host::new();
    let directory = std::fs::File::open(host.path("home/.ssh")).unwrap();
    fcntl(&directory, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let attempt =
        ["read-below-descriptor".to_owned(), directory.as_raw_fd().to_string(), "id_rsa".to_owned()];
    refused(&command(&host), &attempt, &["EBADF"], Anybody).await;
    assert_eq!(inside(&command(&host), &["descriptors"]).await, Cause::Ok("0 1 2 3".into()));
}

#[tokio::test]
async fn nothing_of_the_host_can_be_written_changed_or_made() {
    let host = Host::new();
    let confined = command(&host);
    let file = host.text("ws/file");
    for attempt in [
        vec!["create", &*host.text("home/new")],
        vec!["create", &host.text("ws/new")],
        vec!["mkdir", &host.text("ws/directory")],
        vec!["write", &file],
        vec!["open-to-write", &file],
        vec!["chmod", &file],
        vec!["touch", &file],
        vec!["setxattr", &file],
        vec!["truncate", &file],
        vec!["rename", &file, &host.text("ws/renamed")],
        vec!["unlink", &host.text("ws/renamed")],
    ] {
        // `unlink` comes last: its control run removes what the control run of `rename` has left.
        let attempt_inside = if attempt[0] == "unlink" { vec!["unlink", &*file] } else { attempt.clone() };
        if attempt[0] == "unlink" {
            std::fs::write(&file, "again").unwrap();
        }
        refused(&confined, &attempt_inside, &["EROFS"], Nobody).await;
        assert!(outside(&attempt).is_ok(), "{attempt:?}");
    }
    refused(&confined, &["create", "/var/tmp/gatehouse-probe-file"], &["EROFS"], Nobody).await;
}

#[tokio::test]
async fn the_scratch_is_where_writing_works() {
    let host = Host::new();
    let mut confined = command(&host);
    let directory = host.path("scratch");
    std::fs::create_dir(&directory).unwrap();
    for scratch in
        [Scratch::Memory { bytes: 1 << 20 }, Scratch::Directory { path: directory.clone(), bytes: 1 << 20 }]
    {
        confined.scratch = scratch;
        assert!(inside(&confined, &["write", "/tmp/file"]).await.is_ok());
        assert!(inside(&confined, &["mkdir", "/tmp/a/b"]).await.is_ok());
        assert!(inside(&confined, &["write", "/tmp/home/file"]).await.is_ok());
        assert!(inside(&confined, &["write", "/dev/shm/file"]).await.is_ok());
    }
    // It is a mount: not to be moved away or replaced by a link.
    refused(&confined, &["rename", "/tmp", "/var/tmp/away"], &["EBUSY", "EROFS", "EXDEV"], Nobody).await;
    // A directory is kept; memory is not.
    assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "written");
    confined.scratch = Scratch::None;
    refused(&confined, &["write", "/tmp/file"], &["EROFS"], Nobody).await;
    assert_eq!(inside(&confined, &["kind", "/tmp"]).await, Cause::Ok("directory".into()));
}

#[tokio::test]
async fn the_hosts_own_tmp_is_covered_and_a_workspace_below_it_is_there() {
    let top = tempfile::tempdir_in("/tmp").unwrap();
    let file = top.path().join("ws/file");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "public").unwrap();
    let host = Host::new();
    let mut confined = command(&host);
    refused(&confined, &["read", &text(&file)], &["ENOENT"], Anybody).await;
    confined.readable.push(top.path().join("ws"));
    assert_eq!(inside(&confined, &["read", &text(&file)]).await, Cause::Ok("public".into()));
    refused(&confined, &["write", &text(&file)], &["EROFS"], Anybody).await;
    std::fs::write(top.path().join("ws/.env"), SECRET).unwrap();
    confined.hidden.push(top.path().join("ws/.env"));
    refused(&confined, &["read", &text(&top.path().join("ws/.env"))], &["EACCES"], Anybody).await;
}

#[tokio::test]
async fn a_writable_place_is_written_and_nothing_beside_it() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.writable = vec![host.path("ws")];
    assert!(inside(&confined, &["write", &host.text("ws/made")]).await.is_ok());
    assert_eq!(std::fs::read_to_string(host.path("ws/made")).unwrap(), "written");
    refused(&confined, &["write", &host.text("home/made")], &["EROFS"], Anybody).await;
}

#[tokio::test]
async fn a_scratch_that_a_program_has_prepared_leads_nothing_astray() {
    let host = Host::new();
    let (scratch, trap) = (host.path("scratch"), host.path("home/file"));
    std::fs::create_dir(&scratch).unwrap();
    let top = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::write(top.path().join("file"), "public").unwrap();
    let name = top.path().file_name().unwrap();
    std::os::unix::fs::symlink("/etc", scratch.join(name)).unwrap();
    std::os::unix::fs::symlink(&trap, scratch.join("home")).unwrap();
    let mut confined = command(&host);
    confined.scratch = Scratch::Directory { path: scratch.clone(), bytes: 1 << 20 };
    confined.readable.push(top.path().to_owned());
    let below = text(&top.path().join("file"));
    assert_eq!(inside(&confined, &["read", &below]).await, Cause::Ok("public".into()));
    assert_eq!(inside(&confined, &["kind", "/tmp/home"]).await, Cause::Ok("directory".into()));
    assert!(inside(&confined, &["read", "/etc/passwd"]).await.is_ok(), "nothing is mounted over /etc");
}

#[tokio::test]
async fn a_scratch_inside_of_what_is_hidden_shows_itself_and_nothing_around_it() {
    let host = Host::new();
    let scratch = host.path("state/scratch");
    std::fs::create_dir(&scratch).unwrap();
    std::fs::write(scratch.join("own"), "public").unwrap();
    std::fs::write(host.path("state/ledger"), "secret").unwrap();
    let mut confined = command(&host);
    confined.scratch = Scratch::Directory { path: scratch.clone(), bytes: 1 << 20 };
    assert!(confined.hidden.contains(&host.path("state")));
    assert_eq!(inside(&confined, &["read", "/tmp/own"]).await, Cause::Ok("public".into()));
    for path in
        [text(&host.path("state/ledger")), text(&scratch.join("own")), "/tmp/../state/ledger".to_owned()]
    {
        let found = inside(&confined, &["read", &path]).await;
        assert!(
            matches!(&found, Cause::Errno(name) if name == "EACCES" || name == "ENOENT"),
            "{path}: {found:?}"
        );
    }
}

#[tokio::test]
async fn devices_the_kernels_settings_and_its_memory_are_out_of_reach() {
    let host = Host::new();
    let confined = command(&host);
    if is_root() {
        refused(&confined, &["mknod-and-open", "/tmp/device"], &["EACCES", "EPERM"], Nobody).await;
    }
    for device in ["/dev/vda", "/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/console"] {
        assert_eq!(inside(&confined, &["stat", device]).await, Cause::Errno("ENOENT".into()), "{device}");
    }
    for file in ["/proc/kcore", "/proc/keys", "/sys/kernel/debug", "/sys/firmware"] {
        let found = inside(&confined, &["read", file]).await;
        // Masked where it exists.
        let expected = if std::fs::exists(file).unwrap() { "EACCES" } else { "ENOENT" };
        assert_eq!(found, Cause::Errno(expected.into()), "{file}");
    }
    // Opened, never written: a mistake here would change the machine that runs the tests.
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/sys/kernel/mm/ksm/run"] {
        if std::fs::exists(file).unwrap() {
            refused(&confined, &["open-to-write", file], &["EROFS", "EACCES"], Root).await;
        }
    }
}

#[tokio::test]
async fn what_is_written_is_bounded() {
    let host = Host::new();
    let mut confined = command(&host);
    refused(&confined, &["fill", "/tmp/big", "67108864"], &["ENOSPC"], Nobody).await;
    refused(&confined, &["fill", "/dev/shm/big", "134217728"], &["ENOSPC"], Nobody).await;
    std::fs::create_dir(host.path("scratch")).unwrap();
    confined.scratch = Scratch::Directory { path: host.path("scratch"), bytes: 8 << 20 };
    let mut request = request(Policy::Command, &[PROBE, "fill", "/tmp/big", "67108864"]);
    request.limits.file_bytes = Some(4 << 20);
    let run = crate::probe::run(&request, &confined).await;
    let xfsz = nix::libc::SIGXFSZ;
    assert_eq!(run.ended.how, gatehouse_sandbox::launch::Exit::Signal(xfsz), "{run:?}");
    assert_eq!(std::fs::metadata(host.path("scratch/big")).unwrap().len(), 4 << 20);
    std::fs::remove_file(host.path("scratch/big")).unwrap();
    // Many files, hidden behind a directory that nobody may list.
    let script = format!(
        "mkdir /tmp/d; for i in 1 2 3; do {PROBE} fill /tmp/d/$i 4194304; done; chmod 0 /tmp/d; exec sleep 100"
    );
    let many =
        crate::probe::run(&crate::probe::request(Policy::Command, &["/bin/sh", "-c", &script]), &confined)
            .await;
    assert_eq!(
        (many.ended.how, many.ended.scratch_full),
        (gatehouse_sandbox::launch::Exit::TornDown, true),
        "{many:?}"
    );
    std::fs::set_permissions(host.path("scratch/d"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
}
