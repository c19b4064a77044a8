//! Hostile code inside a running process: system calls that the test has it make, in its own name.
//!
//! The process is stopped where it waits in a system call, is given the registers of another one, takes one step, and gets
//! its own registers back. The kernel sees the process itself asking: its filters, its namespaces, its Landlock rules
//! decide. Whatever a taken-over process could try, its kernel answers as it does here. (The method is a debugger's; only
//! root may use it on processes that keep their memory to themselves.)

use std::io::IoSlice;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::waiting::PATIENCE;

/// A process whose next moves the test makes. All calls must come from the thread that took it. Dropping it lets it go on
/// as if nothing had been.
#[derive(Debug)]
pub struct Hijacked {
    pid: Pid,
    own: libc::user_regs_struct,
    /// A page of its memory for texts and structures.
    page: u64,
    used: usize,
}

/// The instruction that all system calls are made by.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const PAGE: u64 = 4096;

impl Hijacked {
    /// Stops it in its main thread, once that waits in a system call.
    ///
    /// # Errors
    /// When the system does not let us: the process keeps others out, and we are not root.
    ///
    /// # Panics
    /// When it does not come to wait.
    pub fn take(pid: u32) -> nix::Result<Self> {
        let pid = Pid::from_raw(pid.try_into().expect("a process id"));
        let deadline = Instant::now() + PATIENCE;
        let mut hijacked = loop {
            let stopped = Self::stop(pid)?;
            if stopped.read(stopped.own.rip - 2) == SYSCALL {
                break stopped;
            }
            assert!(Instant::now() < deadline, "it never waits in a system call");
            drop(stopped);
            std::thread::yield_now();
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = hijacked.call(
            libc::SYS_mmap,
            [0, PAGE, word(libc::PROT_READ | libc::PROT_WRITE), word(flags), u64::MAX, 0],
        )?;
        hijacked.page = page;
        Ok(hijacked)
    }

    fn stop(pid: Pid) -> nix::Result<Self> {
        ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD)?;
        ptrace::interrupt(pid)?;
        stopped(pid)?;
        Ok(Self { pid, own: ptrace::getregs(pid)?, page: 0, used: 0 })
    }

    /// Has it make a system call.
    ///
    /// # Errors
    /// What the kernel answers.
    ///
    /// # Panics
    /// When it ends by that, or cannot be traced any more.
    pub fn call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> nix::Result<u64> {
        let mut regs = self.own;
        regs.rip = self.own.rip - 2;
        regs.rax = number.cast_unsigned();
        // It is in no system call, so that none is started again.
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = arguments;
        ptrace::setregs(self.pid, regs).expect("it is stopped");
        ptrace::step(self.pid, None).expect("it is stopped");
        stopped(self.pid).expect("it takes the step");
        let answer = ptrace::getregs(self.pid).expect("it is stopped").rax.cast_signed();
        match i32::try_from(answer) {
            Ok(error @ -4095..=-1) => Err(Errno::from_raw(-error)),
            _ => Ok(answer.cast_unsigned()),
        }
    }

    /// Puts bytes where it can read them; gives the address.
    ///
    /// # Panics
    /// When all of them together are more than a page.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let base = self.page + self.used as u64;
        self.used += bytes.len().next_multiple_of(16);
        assert!(self.used as u64 <= PAGE, "a page is enough");
        let remote = RemoteIoVec { base: base.try_into().expect("an address"), len: bytes.len() };
        process_vm_writev(self.pid, &[IoSlice::new(bytes)], &[remote]).expect("it is stopped");
        base
    }

    fn read(&self, address: u64) -> [u8; 2] {
        let mut bytes = [0; 2];
        let remote = RemoteIoVec { base: address.try_into().expect("an address"), len: 2 };
        process_vm_readv(self.pid, &mut [std::io::IoSliceMut::new(&mut bytes)], &[remote])
            .expect("it is stopped");
        bytes
    }

    fn text(&mut self, bytes: &[u8]) -> u64 {
        self.put(&[bytes, &[0]].concat())
    }

    /// Has it make an attempt.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn attempt(&mut self, attempt: &Attempt<'_>) -> nix::Result<u64> {
        self.used = 0;
        match *attempt {
            Attempt::Connect(path) => self.connect(path.as_os_str().as_bytes()),
            Attempt::ConnectAbstract(name) => self.connect(&[&[0], name.as_bytes()].concat()),
            Attempt::ConnectTcp(port) => self.connect_tcp(port),
            Attempt::Datagram(path) => self.datagram(path.as_os_str().as_bytes()),
            Attempt::Open(path, flags) => {
                let path = self.text(path.as_os_str().as_bytes());
                let opened =
                    self.call(libc::SYS_openat, [word(libc::AT_FDCWD), path, word(flags), 0o600, 0, 0])?;
                self.close(opened);
                Ok(opened)
            }
            Attempt::Execute(path) => {
                let path = self.text(path.as_os_str().as_bytes());
                self.call(libc::SYS_execve, [path, 0, 0, 0, 0, 0])
            }
            Attempt::Call(number, arguments) => self.call(number, arguments),
        }
    }

    fn close(&mut self, descriptor: u64) {
        self.call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]).expect("it was just opened");
    }

    fn socket(&mut self, family: i32, kind: i32) -> nix::Result<u64> {
        self.call(libc::SYS_socket, [word(family), word(kind), 0, 0, 0, 0])
    }

    fn connect_tcp(&mut self, port: u16) -> nix::Result<u64> {
        let socket = self.socket(libc::AF_INET, libc::SOCK_STREAM)?;
        let family = u16::try_from(libc::AF_INET).expect("a small number").to_ne_bytes();
        let address = self.put(&[&family[..], &port.to_be_bytes(), &[127, 0, 0, 1], &[0; 8]].concat());
        let answer = self.call(libc::SYS_connect, [socket, address, 16, 0, 0, 0]);
        self.close(socket);
        answer
    }

    fn connect(&mut self, name: &[u8]) -> nix::Result<u64> {
        let socket = self.socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
        let (address, length) = self.address(name);
        let answer = self.call(libc::SYS_connect, [socket, address, length, 0, 0, 0]);
        self.close(socket);
        answer
    }

    fn datagram(&mut self, name: &[u8]) -> nix::Result<u64> {
        let socket = self.socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
        let (address, length) = self.address(name);
        let text = self.put(b"ping");
        let answer = self.call(libc::SYS_sendto, [socket, text, 4, 0, address, length]);
        self.close(socket);
        answer
    }

    fn address(&mut self, name: &[u8]) -> (u64, u64) {
        let family = u16::try_from(libc::AF_UNIX).expect("a small number").to_ne_bytes();
        let bytes = [&family, name].concat();
        (self.put(&bytes), bytes.len() as u64)
    }
}

impl Drop for Hijacked {
    fn drop(&mut self) {
        if self.page != 0 {
            let _ = self.call(libc::SYS_munmap, [self.page, PAGE, 0, 0, 0, 0]);
        }
        // Fails only when it is gone.
        let _ = ptrace::setregs(self.pid, self.own);
        let _ = ptrace::detach(self.pid, None);
    }
}

/// Waits until it stops, however that is called.
fn stopped(pid: Pid) -> nix::Result<()> {
    match waitpid(pid, Some(WaitPidFlag::__WALL))? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => Ok(()),
        other => panic!("it was to stop: {other:?}"),
    }
}

/// A number as the 64 bits of a register.
fn word(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

/// Something that hostile code would try.
#[derive(Debug, Clone, Copy)]
pub enum Attempt<'a> {
    /// Connect to a Unix stream socket.
    Connect(&'a Path),
    /// Connect to one with an abstract name.
    ConnectAbstract(&'a str),
    /// Connect to this port of 127.0.0.1.
    ConnectTcp(u16),
    /// Send to a Unix datagram socket.
    Datagram(&'a Path),
    /// Open a file, with these flags.
    Open(&'a Path, i32),
    /// Become another program.
    Execute(&'a Path),
    /// Any call of six numbers.
    Call(libc::c_long, [u64; 6]),
}

/// A listener with an abstract name, for the control of [`Attempt::ConnectAbstract`].
///
/// # Panics
/// When the name is taken.
#[must_use]
pub fn listen_abstract(name: &str) -> std::os::unix::net::UnixListener {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
    std::os::unix::net::UnixListener::bind_addr(&address).expect("a fresh name")
}
