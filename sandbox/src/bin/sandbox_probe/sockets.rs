//! Attempts on sockets.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::libc;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let path = arguments.path(0);
    let done = |done: io::Result<()>| done.map(|()| String::new());
    Some(match arguments.name {
        "socket" => socket(arguments).map(|_| String::new()),
        "connect-tcp" => connect_tcp(arguments.text(0).to_str().unwrap_or("")),
        "connect-multipath" => connect_special(arguments, 262),
        "fast-open" => fast_open(arguments),
        "fast-open-option" => fast_open_option(arguments),
        "send-udp" => send_udp(arguments.text(0).to_str().unwrap_or("")),
        "resolve" => resolve(arguments.text(0).to_str().unwrap_or("")),
        "bind-tcp" => done(TcpListener::bind("127.0.0.1:0").map(drop)),
        "serve-loopback" => serve_loopback(),
        "listen-unbound" => listen_unbound(),
        "connect-unix" => done(UnixStream::connect(path).map(drop)),
        "connect-abstract" => done(connect_abstract(arguments)),
        "connect-abstract-from-a-thread" => {
            std::thread::scope(|scope| scope.spawn(|| done(connect_abstract(arguments))).join())
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        }
        "send-datagram" => done(send_datagram(path)),
        "pair-send-to" => pair(arguments, arguments.path(1), How::SendTo),
        "pair-send-message" => pair(arguments, arguments.path(1), How::SendMessage),
        "pair-connect" => pair(arguments, arguments.path(1), How::Connect),
        "pair-ping" => pair_ping(),
        "accept-on" => accept_on(arguments.small(0)),
        "runtime" => runtime(path),
        _ => return None,
    })
}

/// By numbers: family, type, protocol.
fn socket(arguments: &Arguments<'_>) -> io::Result<i64> {
    let [family, kind, protocol] = [0, 1, 2].map(|at| arguments.number(at));
    raw::call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0])
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn connect_tcp(to: &str) -> Outcome {
    let mut stream = TcpStream::connect_timeout(&address(to)?, Duration::from_secs(3))?;
    stream.write_all(b"ping")?;
    Ok(String::new())
}

fn sockaddr(to: &str) -> io::Result<[u8; 16]> {
    let SocketAddr::V4(to) = address(to)? else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut bytes = [0; 16];
    let family = u16::try_from(libc::AF_INET).unwrap_or(2).to_ne_bytes();
    let parts = family.into_iter().chain(to.port().to_be_bytes()).chain(to.ip().octets());
    bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    Ok(bytes)
}

fn stream_socket(protocol: i64) -> io::Result<i64> {
    raw::call(libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into(), protocol, 0, 0, 0])
}

fn connect_special(arguments: &Arguments<'_>, protocol: i64) -> Outcome {
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    let socket = stream_socket(protocol)?;
    raw::call_with(libc::SYS_connect, &[socket], &mut to, &[16]).map(|_| String::new())
}

/// Connects and sends in one call, which Landlock's rule for connecting does not see.
fn fast_open(arguments: &Arguments<'_>) -> Outcome {
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    let socket = stream_socket(0)?;
    let flags = libc::MSG_FASTOPEN.into();
    raw::call_with(libc::SYS_sendto, &[socket, 0, 0, flags], &mut to, &[16]).map(|_| String::new())
}

fn fast_open_option(arguments: &Arguments<'_>) -> Outcome {
    let socket = stream_socket(0)?;
    let mut on = 1_i32.to_ne_bytes();
    let option = [socket, libc::IPPROTO_TCP.into(), libc::TCP_FASTOPEN_CONNECT.into()];
    raw::call_with(libc::SYS_setsockopt, &option, &mut on, &[4])?;
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    raw::call_with(libc::SYS_connect, &[socket], &mut to, &[16]).map(|_| String::new())
}

fn send_udp(to: &str) -> Outcome {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.send_to(b"ping", address(to)?).map(|sent| sent.to_string())
}

fn resolve(name: &str) -> Outcome {
    let mut found = std::net::ToSocketAddrs::to_socket_addrs(&(name, 80))?;
    found.next().map(|address| address.to_string()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn serve_loopback() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.write_all(b"pong")?;
    let mut text = [0; 4];
    listener.accept()?.0.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn listen_unbound() -> Outcome {
    let socket = stream_socket(0)?;
    raw::call(libc::SYS_listen, [socket, 1, 0, 0, 0, 0]).map(|_| String::new())
}

fn connect_abstract(arguments: &Arguments<'_>) -> io::Result<()> {
    let name = arguments.text(0).to_str().unwrap_or("");
    UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?).map(drop)
}

fn send_datagram(to: &Path) -> io::Result<()> {
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    socket.send_to(b"ping", to).map(drop)
}

#[derive(Clone, Copy)]
enum How {
    SendTo,
    SendMessage,
    Connect,
}

/// A connected pair is made without `socket`; what can one end of it still be pointed at?
fn pair(arguments: &Arguments<'_>, to: &Path, how: How) -> Outcome {
    let kind = SocketType::from_raw(u32::try_from(arguments.small(0)).unwrap_or(0));
    let (one, _other) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    point(&one, to, how)?;
    Ok(String::new())
}

fn point(socket: &OwnedFd, to: &Path, how: How) -> io::Result<()> {
    let to = SocketAddrUnix::new(to)?;
    match how {
        How::SendTo => rustix::net::sendto(socket, b"ping", SendFlags::empty(), &to).map(drop)?,
        How::SendMessage => {
            let mut nothing = SendAncillaryBuffer::default();
            let text = [IoSlice::new(b"ping")];
            rustix::net::sendmsg_addr(socket, &to, &text, &mut nothing, SendFlags::empty()).map(drop)?;
        }
        How::Connect => {
            rustix::net::connect(socket, &to)?;
            rustix::net::send(socket, b"ping", SendFlags::empty()).map(drop)?;
        }
    }
    Ok(())
}

fn pair_ping() -> Outcome {
    let (mut one, mut other) = UnixStream::pair()?;
    one.write_all(b"ping")?;
    let mut text = [0; 4];
    other.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What our own processes do all day: threads, timers, signals, a connection to the one socket.
fn runtime(socket: &Path) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let _signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let connected = tokio::spawn(tokio::net::UnixStream::connect(socket.to_owned()));
        connected.await.map_err(io::Error::other)??;
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::task::spawn_blocking(std::thread::available_parallelism).await.map_err(io::Error::other)??;
        Ok(String::new())
    })
}

/// Accepts on a listener that was inherited under this number.
fn accept_on(number: i32) -> Outcome {
    let socket = raw::call(libc::SYS_accept4, [number.into(), 0, 0, 0, 0, 0])?;
    let done = raw::call(libc::SYS_shutdown, [socket, 2, 0, 0, 0, 0]);
    let _ = std::io::stdout().as_fd();
    done.map(|_| String::new())
}
