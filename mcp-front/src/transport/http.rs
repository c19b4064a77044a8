//! Streamable HTTP, stateless, with JSON replies.
//!
//! A request passes, in this order: where it comes from (Host, Origin), the key, the path, the method and media types, the
//! size of its body, its form as a message, the headers of the protocol, the library. Whatever is refused on the way is a
//! JSON-RPC error with the request's id, as far as one can be found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::IntoResponse;
use axum::serve::ListenerExt;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

pub use super::access::Access;
use super::jsonrpc::{self, Message, Rejection};
use super::library::{self, Server};
use super::listen::Bound;
use super::{MAX_MESSAGE_BYTES, Serving, headers};

mod body;
mod reply;
/// Paths that a tunnel asks in order to learn whether there is a log-in. There is none.
const NO_LOG_IN: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
/// Whoever sends this only wants to know whether we work (`gatehouse doctor`): it is no client that was here.
const PROBE: &str = "x-gatehouse-probe";
/// How much of a request that is refused anyway is read to find its id.
const PEEKED: usize = 64 * 1024;
/// How long calls that are being answered may take to end, once the front is to end.
const FAREWELL: Duration = Duration::from_secs(2);

type Library = StreamableHttpService<Server, NeverSessionManager>;

/// All that answers HTTP.
#[derive(Clone)]
pub struct HttpFront {
    access: Access,
    serving: Serving,
    endpoints: Arc<[(&'static str, Library)]>,
    met: Arc<AtomicBool>,
}

impl HttpFront {
    /// The surfaces of `serving`, open to those whom `access` lets in.
    #[must_use]
    pub fn new(access: Access, serving: &Serving) -> Self {
        let endpoints = serving.surfaces.all().iter().map(|surface| {
            let server = Server::new(surface, serving);
            (surface.path, library(server))
        });
        Self { access, endpoints: endpoints.collect(), serving: serving.clone(), met: Arc::default() }
    }

    /// Serves until `serving.closing` is cancelled.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn serve(self, bound: Bound) -> std::io::Result<()> {
        let closing = self.serving.closing.clone();
        let farewell = self.serving.closing.clone();
        let service = axum::routing::any(move |request| {
            let front = self.clone();
            async move { front.answer(request).await }
        });
        let app = axum::Router::new().fallback(service);
        let served = async move {
            match bound {
                Bound::Tcp(listener) => {
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    let listener = listener.tap_io(|stream| {
                        // Only costs a little time if it cannot be set.
                        let _ = stream.set_nodelay(true);
                    });
                    axum::serve(listener, app).with_graceful_shutdown(closing.cancelled_owned()).await
                }
                Bound::Unix(listener, _) => {
                    let listener = tokio::net::UnixListener::from_std(listener)?;
                    // The socket's name stays behind, out of reach by now; it is replaced at the next start.
                    axum::serve(listener, app).with_graceful_shutdown(closing.cancelled_owned()).await
                }
            }
        };
        tokio::select! {
            ended = served => ended,
            () = async { farewell.cancelled().await; tokio::time::sleep(FAREWELL).await } => Ok(()),
        }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let began = Instant::now();
        let path = request.uri().path();
        let mut response = if NO_LOG_IN.contains(&path) {
            (StatusCode::NOT_FOUND, "not found\n").into_response()
        } else {
            let probe = request.headers().contains_key(PROBE);
            let (method, answered) = self.route(request).await;
            let response = answered.unwrap_or_else(|rejection| {
                if !probe {
                    self.serving.contact.refused(reply::code_label(rejection.code));
                }
                self.refuse(&rejection)
            });
            let status = reply::status_label(response.status());
            self.serving.metrics.request(method, status, began.elapsed());
            response
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    fn refuse(&self, rejection: &Rejection) -> Response<Body> {
        self.serving.metrics.refusal("protocol", reply::code_label(rejection.code));
        let mut response = reply::json(rejection.status, &rejection.to_json());
        if rejection.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    async fn route(&self, request: Request<Body>) -> (&'static str, Result<Response<Body>, Rejection>) {
        let (parts, body) = request.into_parts();
        let endpoint = self.endpoints.iter().find(|(path, _)| *path == parts.uri.path());
        if let Some((_, library)) = endpoint {
            return self.message(library, &parts, body).await;
        }
        let answered = match (parts.uri.path(), self.access.check_provenance(&parts)) {
            (_, Err(rejection)) => Err(rejection),
            ("/healthz", Ok(())) => only_get(&parts).map(|()| reply::plain(StatusCode::OK, "ok\n")),
            ("/readyz", Ok(())) => self.ready(&parts).await,
            ("/metrics", Ok(())) => self.metrics(&parts).await,
            _ => self.nowhere(&parts, body).await,
        };
        ("-", answered)
    }

    async fn ready(&self, parts: &Parts) -> Result<Response<Body>, Rejection> {
        only_get(parts)?;
        Ok(match self.serving.executor.ready().await {
            Ok(()) => reply::plain(StatusCode::OK, "ready\n"),
            Err(why) => {
                let text = format!("not ready: {} ({})\n", why.message, why.code);
                reply::plain(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        })
    }

    async fn metrics(&self, parts: &Parts) -> Result<Response<Body>, Rejection> {
        self.access.check_key(&parts.headers)?;
        only_get(parts)?;
        let figures = self.serving.executor.figures().await;
        let text = self.serving.metrics.render(self.serving.waits.waiting(), figures.as_deref());
        let mut response = reply::plain(StatusCode::OK, text);
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }

    async fn nowhere(&self, parts: &Parts, body: Body) -> Result<Response<Body>, Rejection> {
        let refused = match self.access.check_key(&parts.headers) {
            Err(rejection) => rejection,
            Ok(()) => Rejection::http(StatusCode::NOT_FOUND, "There is nothing at this path."),
        };
        Err(refused.about(peeked(body).await))
    }

    async fn message(
        &self,
        library: &Library,
        parts: &Parts,
        body: Body,
    ) -> (&'static str, Result<Response<Body>, Rejection>) {
        if let Err(rejection) = self.check(parts) {
            return ("-", Err(rejection.about(peeked(body).await)));
        }
        self.note_first_contact(parts);
        let message = body::whole(body, MAX_MESSAGE_BYTES).await.and_then(|bytes| jsonrpc::read(&bytes));
        let message = match message {
            Ok(message) => message,
            Err(rejection) => return ("-", Err(rejection)),
        };
        let method = match &message {
            Message::Request { method, whole, .. } => {
                if !parts.headers.contains_key(PROBE) {
                    self.serving.contact.request(method, whole);
                }
                method
            }
            Message::Notification { .. } => "notification",
        };
        (method, self.hand_over(library, parts, message).await)
    }

    /// Which headers reach us at all depends on tunnels that nobody can look into. Names only, once.
    fn note_first_contact(&self, parts: &Parts) {
        if !self.met.swap(true, Ordering::Relaxed) {
            let names: Vec<_> = parts.headers.keys().map(http::HeaderName::as_str).collect();
            tracing::info!(headers = names.join(" "), "first request");
        }
    }

    fn check(&self, parts: &Parts) -> Result<(), Rejection> {
        self.access.check_provenance(parts)?;
        self.access.check_key(&parts.headers)?;
        headers::check(&parts.method, &parts.headers)
    }

    async fn hand_over(
        &self,
        library: &Library,
        parts: &Parts,
        message: Message,
    ) -> Result<Response<Body>, Rejection> {
        let offered = library::offered(self.serving.protocol);
        let (id, whole) = match &message {
            Message::Request { id, whole, .. } => (Some(id.clone()), whole),
            Message::Notification { whole } => (None, whole),
        };
        let headers = headers::for_library(&parts.headers, &message, offered)
            .map_err(|refused| refused.about(id.clone()))?;
        // Written anew: both readers see the same message, whatever was doubled or escaped in the original.
        let text = serde_json::to_vec(whole).map_err(|_| reply::broken(id.clone()))?;
        let mut request = Request::new(http_body_util::Full::new(bytes::Bytes::from(text)));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        reply::settle(library.handle(request).await, id).await
    }
}

impl std::fmt::Debug for HttpFront {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFront").field("access", &self.access).finish_non_exhaustive()
    }
}

async fn peeked(body: Body) -> Option<serde_json::Value> {
    jsonrpc::peek_id(&body::beginning(body, PEEKED).await)
}

fn only_get(parts: &Parts) -> Result<(), Rejection> {
    match parts.method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Rejection::http(StatusCode::NOT_FOUND, "Only GET is answered here.")),
    }
}

fn library(server: Server) -> Library {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .with_max_request_body_bytes(usize::MAX)
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let factory = move || Ok::<_, std::io::Error>(server.clone());
    StreamableHttpService::new(factory, Arc::new(NeverSessionManager::default()), config)
}
