//! One HTTP/1.1 exchange with the front, on TCP or a Unix socket.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// The path of the session tools' surface.
pub const MCP_PATH: &str = "/mcp";

/// Where a front listens, and what it wants to see.
#[derive(Clone)]
pub enum Endpoint {
    /// TCP on loopback.
    Tcp {
        /// Address and port.
        address: SocketAddr,
        /// The key of the front's key file; without it the front answers 401.
        key: Option<String>,
    },
    /// A Unix socket; its directory's mode is the guard, no key is needed.
    Unix {
        /// The socket.
        socket: PathBuf,
    },
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url())
    }
}

impl Endpoint {
    /// How a person writes it down.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Tcp { address, .. } => format!("http://{address}{MCP_PATH}"),
            Self::Unix { socket } => format!("unix:{}", socket.display()),
        }
    }

    fn host(&self) -> String {
        match self {
            Self::Tcp { address, .. } => address.to_string(),
            Self::Unix { .. } => "localhost".to_owned(),
        }
    }

    /// A request to `path` with what every request to this endpoint carries: Host and key.
    #[must_use]
    pub fn request(&self, method: http::Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(http::header::HOST, self.host());
        match self {
            Self::Tcp { key: Some(key), .. } => request.header("X-Gatehouse-Key", key),
            Self::Tcp { key: None, .. } | Self::Unix { .. } => request,
        }
    }

    /// A POST to the MCP path with the headers that the protocol demands.
    #[must_use]
    pub fn post(&self) -> http::request::Builder {
        self.request(http::Method::POST, MCP_PATH)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json, text/event-stream")
    }
}

/// An HTTP answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Nobody listens there.
    #[error("cannot connect to {endpoint}: {source}")]
    Connect {
        /// Where.
        endpoint: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke before the answer was complete.
    #[error("the connection to {endpoint} broke: {source}")]
    Broken {
        /// Where.
        endpoint: String,
        /// Why.
        source: hyper::Error,
    },
}

/// Sends one request on a connection of its own and reads the whole answer.
///
/// # Errors
/// When nobody listens, or the connection breaks.
pub async fn send(endpoint: &Endpoint, request: Request<Full<Bytes>>) -> Result<Reply, ExchangeError> {
    let connect = |source| ExchangeError::Connect { endpoint: endpoint.url(), source };
    match endpoint {
        Endpoint::Tcp { address, .. } => {
            let stream = TcpStream::connect(address).await.map_err(connect)?;
            exchange(endpoint, stream, request).await
        }
        Endpoint::Unix { socket } => {
            let stream = UnixStream::connect(socket).await.map_err(connect)?;
            exchange(endpoint, stream, request).await
        }
    }
}

async fn exchange<S>(
    endpoint: &Endpoint,
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Reply, ExchangeError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |source| ExchangeError::Broken { endpoint: endpoint.url(), source };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    };
    let answer = answer.await.map_err(broken);
    driver.abort();
    answer
}
