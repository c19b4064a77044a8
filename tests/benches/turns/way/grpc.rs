//! Calls of bytes for bytes over gRPC, by the libraries that Gatehouse's own go through.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

type Answer = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// What a call gets, by the name it calls.
type Answering = fn(&'static super::parts::Lanes, &str, Vec<u8>) -> Answer;

/// The service; its calls are `/way/NAME`.
#[derive(Clone)]
struct Way {
    lanes: &'static super::parts::Lanes,
    answer: Answering,
}

impl NamedService for Way {
    const NAME: &'static str = "way";
}

struct Named(Way, String);

impl UnaryService<Vec<u8>> for Named {
    type Response = Vec<u8>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, Status>> + Send>>;

    fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
        let answer = (self.0.answer)(self.0.lanes, &self.1, request.into_inner());
        Box::pin(async { Ok(Response::new(answer.await)) })
    }
}

impl Service<http::Request<Body>> for Way {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let name = request.uri().path().trim_start_matches("/way/").to_owned();
        let named = Named(self.clone(), name);
        let codec = ProstCodec::default();
        Box::pin(async { Ok(tonic::server::Grpc::new(codec).unary(named, request).await) })
    }
}

/// Serves until the process ends.
pub async fn serve(socket: &Path, lanes: &'static super::parts::Lanes, answer: Answering) {
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    println!("{}", socket.display());
    let connections = tokio_stream::wrappers::UnixListenerStream::new(listener);
    Server::builder()
        .add_service(Way { lanes, answer })
        .serve_with_incoming(connections)
        .await
        .expect("it serves");
}

/// Calls.
pub async fn call(channel: Channel, path: &'static str, body: Vec<u8>) -> Vec<u8> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("a connection");
    let path = http::uri::PathAndQuery::from_static(path);
    let codec: ProstCodec<Vec<u8>, Vec<u8>> = ProstCodec::default();
    client.unary(Request::new(body), path, codec).await.expect("an answer").into_inner()
}
