//! Nothing of it is for nothing: what is handled and what is granted is each needed by an attempt that comes out
//! differently without it.

use std::os::unix::net::UnixDatagram;

use nix::sys::stat::{Mode as Bits, SFlag};
use nix::unistd::mkfifo;

use super::*;

/// As `restricted`, but only some of it is handled.
fn handling<T: Send>(grants: &Grants, handled: &Handled, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::sys::prctl::set_no_new_privs().unwrap();
            restrict_in(grants, handled, version().unwrap()).unwrap();
            what()
        });
        thread.join().unwrap()
    })
}

fn call<T>(done: nix::Result<T>) -> Option<i32> {
    errno(done.map_err(io::Error::from))
}

type Attempt = fn(&Place) -> Option<i32>;

/// An attempt outside of what is granted, for each right.
fn attempts() -> Vec<(AccessFs, Attempt)> {
    vec![
        (AccessFs::Execute, |place| {
            errno(Command::new(place.at("outside/program")).stdin(Stdio::null()).status())
        }),
        (AccessFs::WriteFile, |place| {
            errno(fs::OpenOptions::new().append(true).open(place.at("outside/file")))
        }),
        (AccessFs::ReadFile, |place| errno(fs::File::open(place.at("outside/file")))),
        (AccessFs::ReadDir, |place| errno(fs::read_dir(place.at("outside")))),
        (AccessFs::Truncate, |place| call(nix::unistd::truncate(&place.at("outside/file"), 0))),
        (AccessFs::MakeDir, |place| errno(fs::create_dir(place.at("outside/dir")))),
        (AccessFs::RemoveDir, |place| errno(fs::remove_dir(place.at("outside/empty")))),
        (AccessFs::RemoveFile, |place| errno(fs::remove_file(place.at("outside/spare")))),
        (AccessFs::MakeSym, |place| errno(std::os::unix::fs::symlink("x", place.at("outside/link")))),
        (AccessFs::MakeFifo, |place| call(mkfifo(&place.at("outside/fifo"), Bits::S_IRUSR))),
        (AccessFs::MakeSock, |place| errno(UnixDatagram::bind(place.at("outside/socket")))),
        (AccessFs::MakeChar, |place| {
            // The one that everybody may make: it has no driver.
            call(nix::sys::stat::mknod(&place.at("outside/char"), SFlag::S_IFCHR, Bits::S_IRUSR, 0))
        }),
        (AccessFs::MakeReg, |place| {
            call(nix::sys::stat::mknod(&place.at("outside/regular"), SFlag::S_IFREG, Bits::S_IRUSR, 0))
        }),
    ]
}

#[test]
fn each_right_that_is_handled_refuses_something_that_nothing_else_does() {
    // To be executed a file also has to be read, and so has its loader: both are, everywhere, where that is tried.
    let grants = |place: &Place, right| {
        let readable = if right == AccessFs::Execute { vec!["/".into()] } else { Vec::new() };
        let confinement =
            Confinement { readable, writable: vec![place.at("inside")], ..Confinement::default() };
        Grants::for_minimal_root(&confinement)
    };
    let prepared = || {
        let place = Place::new();
        fs::create_dir(place.at("outside/empty")).unwrap();
        fs::write(place.at("outside/spare"), "").unwrap();
        fs::copy("/bin/true", place.at("outside/program")).unwrap();
        place
    };
    let abi = version().unwrap();
    let mut rights = BitFlags::empty();
    for (right, attempt) in attempts() {
        let place = prepared();
        let grants = grants(&place, right);
        let all = Handled::all(abi, &grants);
        assert_eq!(handling(&grants, &all, || attempt(&place)), EACCES, "{right:?}");
        let rest = Handled { files: all.files & !right, ..all };
        assert_eq!(handling(&grants, &rest, || attempt(&place)), None, "{right:?}");
        rights |= right;
    }
    // Block devices only root can make; devices take commands (version 5) in a test of their own; Refer is the other
    // way round: without it nothing moves between directories, granted or not.
    let others = AccessFs::MakeBlock | AccessFs::Refer | AccessFs::IoctlDev | AccessFs::ResolveUnix;
    assert_eq!(AccessFs::from_all(abi) & !others, rights);
}

#[test]
fn without_refer_nothing_moves_between_directories_even_where_writing_is_granted() {
    let place = Place::new();
    fs::create_dir(place.at("inside/below")).unwrap();
    let grants = place.command();
    let all = Handled::all(version().unwrap(), &grants);
    let moves = || errno(fs::rename(place.at("inside/file"), place.at("inside/below/file")));
    let rest = Handled { files: all.files & !AccessFs::Refer, ..all };
    assert_eq!(handling(&grants, &rest, moves), EXDEV);
    assert_eq!(handling(&grants, &all, moves), None);
}

#[test]
fn block_devices_are_refused_by_their_right_alone() {
    if !nix::unistd::geteuid().is_root() {
        // Nobody else may make one anywhere; root's run proves it.
        return;
    }
    let place = Place::new();
    let grants = place.command();
    let all = Handled::all(version().unwrap(), &grants);
    let make = || {
        let number = nix::sys::stat::makedev(254, 0);
        call(nix::sys::stat::mknod(&place.at("inside/block"), SFlag::S_IFBLK, Bits::S_IRUSR, number))
    };
    assert_eq!(handling(&grants, &all, make), EACCES);
    let rest = Handled { files: all.files & !AccessFs::MakeBlock, ..all };
    assert_eq!(handling(&grants, &rest, make), None);
}

#[test]
fn each_scope_and_each_rule_for_tcp_refuses_something_that_nothing_else_does() {
    let abi = version().unwrap();
    let name = format!("gatehouse-needed-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _server = UnixListener::bind_addr(&address).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    let parent = nix::unistd::getppid();
    let outcomes = |handled: &Handled| {
        handling(&Grants::default(), handled, || {
            [
                call(nix::sys::signal::kill(parent, None)),
                errno(UnixStream::connect_addr(&address)),
                errno(TcpStream::connect(port)),
                errno(TcpListener::bind("127.0.0.1:0")),
            ]
        })
    };
    let all = Handled::all(abi, &Grants::default());
    let refused = outcomes(&all);
    if abi >= ABI::V6 {
        assert_eq!(refused[..2], [EPERM; 2]);
        let no_signal = Handled { scopes: Scope::AbstractUnixSocket.into(), ..all };
        let no_abstract = Handled { scopes: Scope::Signal.into(), ..all };
        // What is allowed then is what was allowed all along: the parent may be another user's.
        assert_eq!(outcomes(&no_signal)[0], call(nix::sys::signal::kill(parent, None)));
        assert_eq!(outcomes(&no_abstract)[1], None);
    }
    if abi >= ABI::V4 {
        assert_eq!(refused[2..], [EACCES; 2]);
        let no_connect = Handled { network: AccessNet::BindTcp.into(), ..all };
        let no_bind = Handled { network: AccessNet::ConnectTcp.into(), ..all };
        assert_eq!(outcomes(&no_connect)[2], None);
        assert_eq!(outcomes(&no_bind)[3], None);
    }
}

/// What is tried with each set of grants: everything that some policy needs.
fn uses(place: &Place) -> Vec<Option<i32>> {
    let write = |path: PathBuf| errno(fs::OpenOptions::new().write(true).open(path));
    let name = place.at("").parent().unwrap().file_name().unwrap().to_owned();
    let make = |dir: &str| {
        let path = Path::new(dir).join(&name);
        let made = errno(fs::write(&path, "x"));
        let _ = fs::remove_file(path);
        made
    };
    let mut found = vec![
        errno(fs::File::open("/etc/passwd")),
        make("/dev/shm"),
        make("/tmp"),
        errno(fs::write(place.at("inside/file"), "x")),
        errno(fs::File::open(place.at("outside/file"))),
        errno(Command::new(place.at("outside/program")).stdin(Stdio::null()).status()),
        errno(fs::File::open("/proc/self/status")),
        write(place.terminal.clone()),
    ];
    found.extend(DEVICES.iter().map(|name| write(Path::new("/dev").join(name))));
    found
}

#[test]
fn each_grant_of_each_policy_lets_something_through_that_no_other_does() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let mut place = Place::new();
    place.terminal = PathBuf::from(ptsname(&master, Vec::new()).unwrap().into_string().unwrap());
    fs::copy("/bin/true", place.at("outside/program")).unwrap();
    let scratch = Scratch::Memory { bytes: 1 };
    let (writable, readable) = (vec![place.at("inside")], vec![place.at("outside/file")]);
    let programs = super::super::super::elf::program_files(&place.at("outside/program")).unwrap();
    let whole =
        Confinement { writable: writable.clone(), scratch: scratch.clone(), ..Confinement::default() };
    let named = Confinement { writable, readable, programs, scratch, ..Confinement::default() };
    for grants in [Grants::for_whole_system(&whole), Grants::for_minimal_root(&named)] {
        let everything = restricted(&grants, || uses(&place));
        for at in 0..grants.files.len() {
            let mut files = grants.files.clone();
            let taken = files.remove(at);
            if taken.1 == Right::Execute
                && taken.0 != Path::new("/")
                && taken.0 != place.at("outside/program")
            {
                // A library of the system: what a program says without it is not the kernel's answer.
                continue;
            }
            let less = Grants { files, ports: Vec::new(), private_loopback: false };
            let found = restricted(&less, || uses(&place));
            assert_ne!(found, everything, "{taken:?} is needed by nothing");
        }
    }
    let itself = Grants::for_itself(&[place.at("inside")]);
    let list = || errno(fs::read_dir(place.at("inside")));
    assert_eq!(restricted(&itself, list), None);
    assert_eq!(restricted(&Grants::default(), list), EACCES);
}
