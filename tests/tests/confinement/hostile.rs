//! Under hostile control: what the front, the shim and Claude Code could still do if somebody else were in them. The test
//! makes system calls in their name; the kernel answers.

use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gatehouse::chatgpt::Start;
use gatehouse_proto::socket::Role;
use gatehouse_tests::hijack::{Attempt, Hijacked, listen_abstract};
use gatehouse_tests::{Gateway, Setup, claude, processes};
use nix::errno::Errno;
use nix::libc;

use crate::{PROMPT, claude_of, finish, is_root, shim_of};

/// What there is on a machine beside the gateway.
struct Machine {
    top: tempfile::TempDir,
    _sockets: [UnixListener; 3],
    _datagrams: UnixDatagram,
    abstract_name: String,
    tcp: std::net::TcpListener,
    victim: Sleeper,
}

impl Machine {
    fn new() -> Self {
        let top = tempfile::Builder::new().prefix("gh-machine-").tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::write(at("secret"), "PRIVATE-KEY").unwrap();
        let abstract_name = format!("gatehouse-test-{}", uuid::Uuid::new_v4().simple());
        let bind = |name: &str| UnixListener::bind(at(name)).unwrap();
        Self {
            _sockets: [bind("docker.sock"), bind("bus"), listen_abstract(&abstract_name)],
            _datagrams: UnixDatagram::bind(at("datagrams")).unwrap(),
            abstract_name,
            tcp: std::net::TcpListener::bind("127.0.0.1:0").unwrap(),
            victim: Sleeper::start(),
            top,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }
}

/// A process that does nothing, and goes with this.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let quiet = || Stdio::null();
        let mut command = Command::new("/bin/sleep");
        Self(command.arg("1000").stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What an unconfined process gets for the same attempt; it shows that the attempt is a real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    Succeeds,
    /// It comes further, and fails for another reason.
    FailsWith(Errno),
    /// Where the object is not there, nobody gets it.
    Unknown,
}

struct Probe<'a> {
    what: &'static str,
    attempt: Attempt<'a>,
    refused_with: &'static [Errno],
    control: Control,
}

const fn probe<'a>(
    what: &'static str,
    attempt: Attempt<'a>,
    refused_with: &'static [Errno],
    control: Control,
) -> Probe<'a> {
    Probe { what, attempt, refused_with, control }
}

const NOT_THERE: &[Errno] = &[Errno::ENOENT];
const FORBIDDEN: &[Errno] = &[Errno::EPERM];

const fn call(number: libc::c_long, first: u64, second: u64, third: u64) -> Attempt<'static> {
    Attempt::Call(number, [first, second, third, 0, 0, 0])
}

/// No descriptor has this number.
const NONE: u64 = 9999;

/// What nobody who was taken over may do, whichever process it is.
fn of_all(victim: u64) -> Vec<Probe<'static>> {
    use Control::{FailsWith, Succeeds, Unknown};
    let (unix, internet) = (libc::AF_UNIX.unsigned_abs().into(), libc::AF_INET.unsigned_abs().into());
    let datagram = libc::SOCK_DGRAM.unsigned_abs().into();
    vec![
        probe(
            "a descriptor of another process",
            call(libc::SYS_pidfd_getfd, NONE, 0, 0),
            FORBIDDEN,
            FailsWith(Errno::EBADF),
        ),
        probe(
            "memory of another process",
            call(libc::SYS_process_vm_readv, victim, 0, 0),
            FORBIDDEN,
            Succeeds,
        ),
        probe("another namespace", call(libc::SYS_unshare, 0, 0, 0), FORBIDDEN, Succeeds),
        probe(
            "a namespace of another process",
            call(libc::SYS_setns, NONE, 0, 0),
            FORBIDDEN,
            FailsWith(Errno::EBADF),
        ),
        probe("a socket of datagrams", call(libc::SYS_socket, unix, datagram, 0), FORBIDDEN, Succeeds),
        probe("UDP", call(libc::SYS_socket, internet, datagram, 0), FORBIDDEN, Succeeds),
        probe("a listener's name", call(libc::SYS_bind, NONE, 0, 0), FORBIDDEN, FailsWith(Errno::EBADF)),
        probe("a listener", call(libc::SYS_listen, NONE, 0, 0), FORBIDDEN, FailsWith(Errno::EBADF)),
        probe(
            "the root directory",
            Attempt::Open(Path::new("/"), libc::O_DIRECTORY),
            &[Errno::EACCES],
            Succeeds,
        ),
        probe(
            "a file of the system",
            Attempt::Open(Path::new("/etc/passwd"), libc::O_RDONLY),
            NOT_THERE,
            Succeeds,
        ),
        probe("docker", Attempt::Open(Path::new("/run/docker.sock"), libc::O_PATH), NOT_THERE, Unknown),
        probe("the system's D-Bus", Attempt::Open(Path::new("/run/dbus"), libc::O_PATH), NOT_THERE, Unknown),
    ]
}

/// What the front and the shim may not do on top of that.
fn of_ours<'a>(machine: &'a Machine, paths: &'a Paths, victim: u64) -> Vec<Probe<'a>> {
    use Control::{FailsWith, Succeeds};
    let internet = libc::AF_INET.unsigned_abs().into();
    let stream = libc::SOCK_STREAM.unsigned_abs().into();
    vec![
        probe("operator.sock", Attempt::Connect(&paths.operator), NOT_THERE, Succeeds),
        probe("the other role's socket", Attempt::Connect(&paths.other), NOT_THERE, Succeeds),
        probe("docker.sock", Attempt::Connect(&paths.docker), NOT_THERE, Succeeds),
        probe("D-Bus", Attempt::Connect(&paths.bus), NOT_THERE, Succeeds),
        probe(
            "an abstract name",
            Attempt::ConnectAbstract(&machine.abstract_name),
            // Another network holds that name, and Landlock forbids it as well.
            &[Errno::ECONNREFUSED, Errno::EPERM],
            Succeeds,
        ),
        probe("a datagram", Attempt::Datagram(&paths.datagrams), FORBIDDEN, Succeeds),
        probe("TCP", call(libc::SYS_socket, internet, stream, 0), FORBIDDEN, Succeeds),
        probe("a secret file", Attempt::Open(&paths.secret, libc::O_RDONLY), NOT_THERE, Succeeds),
        probe("the ledger's directory", Attempt::Open(&paths.state, libc::O_DIRECTORY), NOT_THERE, Succeeds),
        probe(
            "its own status",
            Attempt::Open(Path::new("/proc/self/status"), libc::O_RDONLY),
            NOT_THERE,
            Succeeds,
        ),
        probe(
            "a new file",
            Attempt::Open(&paths.new_file, libc::O_CREAT | libc::O_WRONLY),
            &[Errno::EROFS],
            Succeeds,
        ),
        probe("another program", Attempt::Execute(&paths.no_program), FORBIDDEN, FailsWith(Errno::ENOENT)),
        probe("a child", call(libc::SYS_clone, 0, 0, 0), FORBIDDEN, Succeeds),
        probe(
            "a child that shares memory",
            call(libc::SYS_clone3, 0, 0, 0),
            &[Errno::ENOSYS],
            FailsWith(Errno::EINVAL),
        ),
        probe("a signal", call(libc::SYS_kill, victim, 0, 0), FORBIDDEN, Succeeds),
        probe("a trace", call(libc::SYS_ptrace, 0x4206, victim, 0), FORBIDDEN, Succeeds),
    ]
}

struct Paths {
    own: PathBuf,
    operator: PathBuf,
    other: PathBuf,
    docker: PathBuf,
    bus: PathBuf,
    datagrams: PathBuf,
    secret: PathBuf,
    state: PathBuf,
    new_file: PathBuf,
    no_program: PathBuf,
}

impl Paths {
    fn of(gateway: &Gateway, machine: &Machine, own: Role, other: Role) -> Self {
        let socket = |role: Role| role.socket(&gateway.runtime_dir());
        Self {
            own: socket(own),
            operator: socket(Role::Operator),
            other: socket(other),
            docker: machine.path("docker.sock"),
            bus: machine.path("bus"),
            datagrams: machine.path("datagrams"),
            secret: machine.path("secret"),
            state: gateway.state_dir(),
            new_file: own.directory(&gateway.runtime_dir()).join("new"),
            no_program: machine.path("no-program"),
        }
    }
}

/// Each attempt is refused as it must be, in this process; and it is a real attempt, as a process that nothing confines
/// shows.
fn refused(pid: u32, probes: &[Probe<'_>]) {
    let control = Sleeper::start();
    let mut hijacked = Hijacked::take(pid).unwrap();
    let mut free = Hijacked::take(control.0.id()).unwrap();
    for Probe { what, attempt, refused_with, control: expected } in probes {
        let answer = hijacked.attempt(attempt);
        assert!(answer.is_err_and(|errno| refused_with.contains(&errno)), "{what}: {answer:?}");
        if *expected == Control::Unknown {
            continue;
        }
        let answer = free.attempt(attempt);
        match (answer, expected) {
            (Ok(_), Control::Succeeds) => {}
            (Err(errno), Control::FailsWith(other)) if errno == *other => {}
            _ => panic!("control of {what}: {answer:?}"),
        }
        if let (Ok(child), Attempt::Call(libc::SYS_clone, _)) = (answer, attempt) {
            processes::signal(child.try_into().unwrap(), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// The kernel does not let an ordinary user into a process that keeps others out; there is nothing to probe then.
fn keeps_others_out(pid: u32) -> bool {
    !is_root() && Hijacked::take(pid).is_err_and(|errno| errno == Errno::EPERM)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_and_a_shim_under_hostile_control_reach_nothing_but_the_executors_socket_for_them() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let machine = Machine::new();
    let victim = machine.victim.0.id().into();
    for (pid, own, other) in [
        (gateway.front_pid().unwrap(), Role::Front, Role::Runner),
        (shim_of(&gateway), Role::Runner, Role::Front),
    ] {
        if keeps_others_out(pid) {
            continue;
        }
        let paths = Paths::of(&gateway, &machine, own, other);
        refused(pid, &of_all(victim));
        refused(pid, &of_ours(&machine, &paths, victim));
        let reached = Hijacked::take(pid).unwrap().attempt(&Attempt::Connect(&paths.own));
        assert!(reached.is_ok(), "the one socket that it is for: {reached:?}");
        std::fs::remove_file(&paths.new_file).unwrap();
    }
    // They have gone on as if nothing had been.
    finish(brain, gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_under_hostile_control_reads_and_writes_its_own_and_asks_the_shim() {
    use Control::{Succeeds, Unknown};
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let machine = Machine::new();
    let pid = claude_of(&brain);
    let victim = machine.victim.0.id().into();
    let home = PathBuf::from(&processes::environment(pid)["HOME"]);
    let session = home.parent().unwrap();
    let paths = Paths::of(&gateway, &machine, Role::Front, Role::Runner);
    let (key, log) = (gateway.state_dir().join("front.key"), session.join("run/shim.log"));
    let (mcp, new) = (session.join("run/mcp.json"), session.join("run/new"));
    let tcp = machine.tcp.local_addr().unwrap().port();
    refused(pid, &of_all(victim));
    refused(
        pid,
        &[
            probe("operator.sock", Attempt::Connect(&paths.operator), FORBIDDEN, Succeeds),
            probe("docker.sock", Attempt::Connect(&paths.docker), FORBIDDEN, Succeeds),
            probe("an abstract name", Attempt::ConnectAbstract(&machine.abstract_name), FORBIDDEN, Succeeds),
            probe(
                "a server of this machine",
                Attempt::ConnectTcp(tcp),
                &[Errno::EACCES, Errno::ECONNREFUSED],
                Succeeds,
            ),
            probe("a secret file", Attempt::Open(&paths.secret, libc::O_RDONLY), NOT_THERE, Succeeds),
            probe("the front's key", Attempt::Open(&key, libc::O_RDONLY), NOT_THERE, Succeeds),
            probe("the shim's log", Attempt::Open(&log, libc::O_RDONLY), NOT_THERE, Succeeds),
            probe(
                "the state directory",
                Attempt::Open(&paths.state, libc::O_DIRECTORY),
                &[Errno::EACCES],
                Succeeds,
            ),
            probe("its configuration", Attempt::Open(&mcp, libc::O_WRONLY), &[Errno::EROFS], Unknown),
            probe(
                "a new file",
                Attempt::Open(&new, libc::O_CREAT | libc::O_WRONLY),
                &[Errno::EROFS],
                Succeeds,
            ),
            probe("a program", Attempt::Execute(Path::new("/bin/sh")), NOT_THERE, Unknown),
            probe("a signal", call(libc::SYS_kill, victim, 0, 0), &[Errno::ESRCH], Succeeds),
        ],
    );
    let own = home.join("own-file");
    let kept = Hijacked::take(pid).unwrap().attempt(&Attempt::Open(&own, libc::O_CREAT | libc::O_WRONLY));
    assert!(kept.is_ok() && own.exists(), "its home is its own: {kept:?}");
    finish(brain, gateway).await;
}
