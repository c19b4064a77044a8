//! The way to the provider: TCP, perhaps through the configured proxy, and TLS.
//!
//! Nothing here reads the environment. Which certificates are believed is the platform's affair: its verifier decides, by
//! its own store.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::failure::AskError;
use crate::config::DeepseekSettings;

/// How long a connection may take to come about.
const PATIENCE: Duration = Duration::from_secs(20);

/// Both directions of a connection.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The platform's trust, looked up when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Trust(OnceCell<Arc<ClientConfig>>);

impl Trust {
    async fn config(&self) -> Result<Arc<ClientConfig>, AskError> {
        let made = self.0.get_or_try_init(|| async {
            tokio::task::spawn_blocking(platform_trust).await.map_err(|_| AskError::Interrupted)?
        });
        made.await.cloned()
    }
}

fn platform_trust() -> Result<Arc<ClientConfig>, AskError> {
    let tls = |error: rustls::Error| AskError::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.map_err(tls)?.with_platform_verifier().map_err(tls)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A connection over which the endpoint can be asked.
pub(super) async fn connect(settings: &DeepseekSettings, trust: &Trust) -> Result<Box<dyn Duplex>, AskError> {
    let opening = async {
        let endpoint = &settings.endpoint;
        let stream = match &settings.proxy {
            None => tcp(endpoint).await?,
            Some(proxy) => through(proxy, endpoint).await?,
        };
        if endpoint.scheme_str() != Some("https") {
            return Ok(stream);
        }
        let host = endpoint.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|error| AskError::Tls(error.to_string()))?;
        let connector = TlsConnector::from(trust.config().await?);
        let stream = connector.connect(name, stream).await.map_err(|error| refused(&error))?;
        Ok(Box::new(stream) as Box<dyn Duplex>)
    };
    let opened = tokio::time::timeout(PATIENCE, opening).await;
    opened.unwrap_or_else(|_| {
        Err(AskError::Unreachable(format!("no connection within {} s", PATIENCE.as_secs())))
    })
}

/// A handshake that did not come about: for want of trust, or for want of a connection.
fn refused(error: &io::Error) -> AskError {
    let is_tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    if is_tls { AskError::Tls(error.to_string()) } else { AskError::Unreachable(error.to_string()) }
}

fn port_of(uri: &Uri) -> u16 {
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    uri.port_u16().unwrap_or(usual)
}

async fn tcp(uri: &Uri) -> Result<Box<dyn Duplex>, AskError> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port_of(uri))).await;
    let stream = stream.map_err(|error| AskError::Unreachable(error.to_string()))?;
    // An answer comes in many small pieces; waiting to fill packets helps nobody.
    let _ = stream.set_nodelay(true);
    Ok(Box::new(stream))
}

/// A tunnel through the proxy, which sees where it leads and nothing of what goes through.
async fn through(proxy: &Uri, endpoint: &Uri) -> Result<Box<dyn Duplex>, AskError> {
    let failed = |error: hyper::Error| AskError::Unreachable(format!("the proxy: {error}"));
    let stream = tcp(proxy).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection.with_upgrades());
    let authority = format!("{}:{}", endpoint.host().unwrap_or_default(), port_of(endpoint));
    let request = http::Request::connect(&authority)
        .header(http::header::HOST, &authority)
        .body(Empty::<Bytes>::new())
        .map_err(|error| AskError::Unreachable(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(AskError::Unreachable(format!(
            "the proxy answered with HTTP status {}",
            response.status()
        )));
    }
    let tunnel = hyper::upgrade::on(response).await.map_err(failed)?;
    Ok(Box::new(TokioIo::new(tunnel)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    fn uri(text: impl std::fmt::Display) -> Uri {
        text.to_string().parse().unwrap()
    }

    /// A proxy for one connection, which answers so; it gives what it was asked, and sends back what comes through.
    async fn proxy(answer: &'static str) -> (Uri, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = uri(format_args!("http://{}", listener.local_addr().unwrap()));
        let asked = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            let mut through = [0; 4];
            if stream.read_exact(&mut through).await.is_ok() {
                stream.write_all(&through).await.unwrap();
            }
            head
        });
        (address, asked)
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_a_tunnel_and_what_is_sent_goes_through_it() {
        let (address, asked) = proxy("HTTP/1.1 200 Connection established\r\n\r\n").await;
        // Nobody resolves that name but the proxy.
        let endpoint = uri("https://provider.invalid/v1");
        let mut tunnel = through(&address, &endpoint).await.unwrap();
        tunnel.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        tunnel.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"ping");
        assert_eq!(
            asked.await.unwrap(),
            ["CONNECT provider.invalid:443 HTTP/1.1", "host: provider.invalid:443"]
        );
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_told_as_it_is() {
        let (address, _) = proxy("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
        let Err(AskError::Unreachable(why)) = through(&address, &uri("http://127.0.0.1:9/v1")).await else {
            panic!("refused")
        };
        assert_eq!(why, "the proxy answered with HTTP status 403 Forbidden");
    }
}
