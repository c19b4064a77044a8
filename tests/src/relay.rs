//! A relay in front of a front: it puts the key into each request and passes everything else on as it is, the Host and
//! Origin headers included.

use std::net::SocketAddr;

use gatehouse::chatgpt::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts it; it lives as long as the runtime.
///
/// # Panics
/// When the endpoint is not TCP or no port is free.
pub async fn start(endpoint: Endpoint) -> SocketAddr {
    let Endpoint::Tcp { address, key: Some(key) } = endpoint else { panic!("a TCP endpoint with a key") };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let relay = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let key = key.clone();
            // A connection that breaks is the client's affair.
            tokio::spawn(async move { drop(pass_on(client, address, &key).await) });
        }
    });
    relay
}

/// One request per connection: the first head gets the key, and `Connection: close` so that no second one follows.
async fn pass_on(mut client: TcpStream, front: SocketAddr, key: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 4096];
        let count = client.read(&mut part).await?;
        if count == 0 {
            return Ok(());
        }
        head.extend_from_slice(&part[..count]);
    }
    let first_line = head.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut front = TcpStream::connect(front).await?;
    front.write_all(&head[..first_line]).await?;
    front.write_all(format!("X-Gatehouse-Key: {key}\r\n").as_bytes()).await?;
    front.write_all(&without_connection(&head[first_line..])).await?;
    tokio::io::copy_bidirectional(&mut client, &mut front).await?;
    Ok(())
}

/// The rest of the head and what follows it, with the connection's own header replaced.
fn without_connection(rest: &[u8]) -> Vec<u8> {
    let end = rest.windows(4).position(|end| end == b"\r\n\r\n").map_or(rest.len(), |at| at + 2);
    let mut out = b"Connection: close\r\n".to_vec();
    for line in rest[..end].split_inclusive(|&byte| byte == b'\n') {
        if !line.to_ascii_lowercase().starts_with(b"connection:") {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(&rest[end..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_connection_header_is_replaced() {
        let rest = b"Host: x\r\nConnection: keep-alive\r\nA: b\r\n\r\nbody";
        assert_eq!(without_connection(rest), b"Connection: close\r\nHost: x\r\nA: b\r\n\r\nbody");
    }
}
