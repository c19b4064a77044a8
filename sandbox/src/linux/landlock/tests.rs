//! Landlock alone, without any namespace, mount or filter: it restricts one thread, so each test restricts one of its own.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use super::*;

mod needed;

/// Runs `what` in a thread that is restricted to `grants`.
fn restricted<T: Send>(grants: &Grants, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            restrict(grants, &mut Vec::new()).unwrap();
            what()
        });
        thread.join().unwrap()
    })
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|error| error.raw_os_error())
}

const EACCES: Option<i32> = Some(nix::libc::EACCES);
const EPERM: Option<i32> = Some(nix::libc::EPERM);
const EXDEV: Option<i32> = Some(nix::libc::EXDEV);

struct Place {
    top: tempfile::TempDir,
    /// A terminal of the test's own, where it has one.
    terminal: PathBuf,
}

impl Place {
    fn new() -> Self {
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        for dir in ["outside", "inside"] {
            fs::create_dir(top.path().join(dir)).unwrap();
            fs::write(top.path().join(dir).join("file"), "x").unwrap();
        }
        Self { top, terminal: PathBuf::new() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// A command that may write `inside`.
    fn command(&self) -> Grants {
        Grants::for_whole_system(&Confinement { writable: vec![self.at("inside")], ..Confinement::default() })
    }
}

#[test]
fn a_command_changes_nothing_outside_of_what_is_writable() {
    let place = Place::new();
    let (file, new) = (place.at("outside/file"), place.at("outside/new"));
    type Attempt<'a> = Box<dyn Fn() -> Option<i32> + Send + Sync + 'a>;
    let attempts: [(&str, Attempt<'_>); 9] = [
        ("write", Box::new(|| errno(fs::OpenOptions::new().append(true).open(&file)))),
        ("truncate", Box::new(|| errno(nix::unistd::truncate(&file, 0).map_err(io::Error::from)))),
        ("create", Box::new(|| errno(fs::File::create_new(&new)))),
        ("mkdir", Box::new(|| errno(fs::create_dir(&new)))),
        ("symlink", Box::new(|| errno(std::os::unix::fs::symlink("x", &new)))),
        (
            "mkfifo",
            Box::new(|| {
                errno(nix::unistd::mkfifo(&new, nix::sys::stat::Mode::S_IRUSR).map_err(io::Error::from))
            }),
        ),
        ("bind", Box::new(|| errno(UnixListener::bind(&new)))),
        ("unlink", Box::new(|| errno(fs::remove_file(&file)))),
        ("rmdir", Box::new(|| errno(fs::remove_dir(place.at("outside"))))),
    ];
    for (name, attempt) in &attempts {
        assert_eq!(restricted(&place.command(), attempt), EACCES, "{name}");
    }
    // The same, unrestricted, in an order in which each can work.
    for (name, attempt) in &attempts {
        let found = attempt();
        assert_eq!(found, None, "{name}");
        let _ = fs::remove_file(&new).or_else(|_| fs::remove_dir(&new));
    }
}

#[test]
fn files_do_not_move_across_the_line() {
    let place = Place::new();
    let (outer, inner) = (place.at("outside/file"), place.at("inside/moved"));
    let attempts = || [errno(fs::rename(&outer, &inner)), errno(fs::hard_link(&outer, &inner))];
    for found in restricted(&place.command(), attempts) {
        assert!([EACCES, EXDEV].contains(&found), "{found:?}");
    }
    assert_eq!(errno(fs::rename(&outer, &inner)), None);
}

#[test]
fn what_is_writable_is_written() {
    let place = Place::new();
    let inside = place.at("inside");
    restricted(&place.command(), || {
        fs::write(inside.join("file"), "y").unwrap();
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::rename(inside.join("file"), inside.join("a/b/file")).unwrap();
        fs::hard_link(inside.join("a/b/file"), inside.join("a/link")).unwrap();
        std::os::unix::fs::symlink("file", inside.join("link")).unwrap();
        nix::unistd::truncate(&inside.join("a/link"), 0).unwrap();
        fs::remove_dir_all(inside.join("a")).unwrap();
        // No sockets and no devices even there.
        assert_eq!(errno(UnixListener::bind(inside.join("socket"))), EACCES);
    });
    fs::write("/dev/null", "x").unwrap();
    restricted(&place.command(), || fs::write("/dev/null", "x").unwrap());
}

#[test]
fn what_was_not_named_is_neither_read_listed_nor_executed() {
    let place = Place::new();
    let program = place.at("outside/program");
    fs::copy("/bin/true", &program).unwrap();
    let readable = vec![place.at("inside")];
    let grants = Grants::for_minimal_root(&Confinement { readable, ..Confinement::default() });
    let run = |path: &PathBuf| errno(Command::new(path).stdin(Stdio::null()).status());
    restricted(&grants, || {
        assert_eq!(errno(fs::read(place.at("outside/file"))), EACCES);
        assert_eq!(errno(fs::read_dir(place.at("outside"))), EACCES);
        assert_eq!(fs::read(place.at("inside/file")).unwrap(), b"x");
        assert_eq!(run(&program), EACCES);
    });
    assert_eq!(errno(fs::read(place.at("outside/file"))), None);
    assert_eq!(run(&program), None);
}

#[test]
fn tcp_reaches_the_named_ports_and_no_other() {
    if version().unwrap() < ABI::V4 {
        return;
    }
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [named, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let network = Network::Listeners { ports: vec![named.port()] };
    let grants = Grants::for_minimal_root(&Confinement { network, ..Confinement::default() });
    restricted(&grants, || {
        assert_eq!(errno(TcpStream::connect(named)), None);
        assert_eq!(errno(TcpStream::connect(other)), EACCES);
        assert_eq!(errno(TcpListener::bind("127.0.0.1:0")), EACCES);
    });
    assert_eq!(errno(TcpStream::connect(other)), None);
    let loopback = Confinement { network: Network::PrivateLoopback, ..Confinement::default() };
    restricted(&Grants::for_whole_system(&loopback), || {
        assert_eq!(errno(TcpListener::bind("127.0.0.1:0")), None);
    });
}

#[test]
fn signals_and_abstract_sockets_stay_inside() {
    if version().unwrap() < ABI::V6 {
        return;
    }
    let name = format!("gatehouse-landlock-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _server = UnixListener::bind_addr(&address).unwrap();
    let mut victim = Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(victim.id().cast_signed());
    let signal = || errno(nix::sys::signal::kill(pid, None).map_err(io::Error::from));
    let connect = || errno(UnixStream::connect_addr(&address));
    let found = restricted(&Grants::for_itself(&[]), || (signal(), connect()));
    assert_eq!(found, (EPERM, EPERM));
    assert_eq!((signal(), connect()), (None, None));
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn devices_take_no_commands_unless_they_were_granted() {
    if version().unwrap() < ABI::V5 {
        return;
    }
    // A terminal, as a device of which the host has many.
    let Ok(terminal) = fs::OpenOptions::new().read(true).write(true).open("/dev/ptmx") else { return };
    let size = |file: &fs::File| errno(rustix::termios::tcgetwinsize(file).map_err(io::Error::from));
    assert_eq!(size(&terminal), None);
    let opened_inside = restricted(&Grants::for_whole_system(&Confinement::default()), || {
        // Reading is granted everywhere to a command; writing, and commands, are not.
        fs::OpenOptions::new().read(true).open("/dev/ptmx").map(|file| size(&file))
    });
    assert!(matches!(opened_inside, Ok(EACCES) | Err(_)), "{opened_inside:?}");
}
