//! What goes through: connections, signals, the end.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use gatehouse_sandbox::launch::Confined;
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::launching::write;

/// Opens a listener for the whole machine beside each of Claude Code's own, and passes on to it, the first through the
/// proxy if there is one. Their ports are written down beside the executable, for the test.
pub fn open(own: Vec<TcpListener>, proxy: Option<u16>, place: &Path) -> Vec<TcpListener> {
    let public: Vec<_> =
        own.iter().map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port")).collect();
    let ports: Vec<u16> =
        public.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect();
    if !ports.is_empty() {
        write(place, "ports.json", &serde_json::to_vec(&ports).expect("numbers"));
    }
    let proxies = std::iter::once(proxy).chain(std::iter::repeat(None));
    for ((listener, &port), proxy) in own.into_iter().zip(&ports).zip(proxies) {
        tokio::spawn(pass_on(listener, proxy.unwrap_or(port)));
    }
    public
}

async fn pass_on(listener: TcpListener, port: u16) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(async move {
            // A server that is not there is a connection that breaks.
            if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                both_ways(client, server).await;
            }
        });
    }
}

/// Until either side is gone; then the other is let go at once.
async fn both_ways(mut client: TcpStream, mut server: TcpStream) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.split(), server.split());
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

/// Passes on the shim's signals, and the end. When the shim lets go, everything inside ends with this process.
pub async fn until_the_end(control: UnixStream, mut confined: Confined) {
    control.set_nonblocking(true).expect("a socket");
    let mut control = tokio::net::UnixStream::from_std(control).expect("a stream");
    let mut number = [0];
    loop {
        tokio::select! {
            ended = confined.hold.ended() => {
                let text = ended.map(|ended| serde_json::to_vec(&ended).expect("it came as JSON"));
                let _ = control.write_all(&text.unwrap_or_default()).await;
                return;
            }
            read = control.read(&mut number) => match read {
                Ok(1) => {
                    let signal = Signal::try_from(i32::from(number[0])).expect("a signal");
                    // One that has ended needs none.
                    let _ = confined.hold.signal(signal);
                }
                _ => drop(confined.hold.kill().await),
            }
        }
    }
}
