//! Attempts on sockets.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, Protocol, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let path = arguments.path(0);
    let done = |done: io::Result<()>| done.map(|()| String::new());
    Some(match arguments.name {
        "socket" => done(socket(arguments).map(drop)),
        "connect-tcp" => connect_tcp(arguments.text(0).to_str().unwrap_or("")),
        "send-udp" => send_udp(arguments.text(0).to_str().unwrap_or("")),
        "resolve" => resolve(arguments.text(0).to_str().unwrap_or("")),
        "bind-tcp" => done(TcpListener::bind("127.0.0.1:0").map(drop)),
        "serve-loopback" => serve_loopback(),
        "listen-unbound" => listen_unbound(),
        "connect-unix" => done(UnixStream::connect(path).map(drop)),
        "send-datagram" => done(send_datagram(path)),
        "send-message" => send_message(path),
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
fn socket(arguments: &Arguments<'_>) -> io::Result<OwnedFd> {
    let number = |at| u32::try_from(arguments.small(at)).map_err(io::Error::other);
    let family = AddressFamily::from_raw(number(0)?.try_into().map_err(io::Error::other)?);
    let protocol = NonZeroU32::new(number(2)?).map(Protocol::from_raw);
    Ok(rustix::net::socket(family, SocketType::from_raw(number(1)?), protocol)?)
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn connect_tcp(to: &str) -> Outcome {
    let mut stream = TcpStream::connect_timeout(&address(to)?, Duration::from_secs(3))?;
    stream.write_all(b"ping")?;
    Ok(String::new())
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
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::listen(&socket, 1)?;
    Ok(String::new())
}

/// As `send-datagram`, by the other call.
fn send_message(to: &Path) -> Outcome {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    point(&socket, to, How::SendMessage).map(|()| String::new())
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
    let (one, _other) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None)?;
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
    let socket = rustix::net::accept(raw::inherited(number)?)?;
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Both)?;
    Ok(String::new())
}
