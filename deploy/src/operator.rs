//! The operator service of a running executor.

use std::path::Path;

use gatehouse_proto::socket::{MAX_MESSAGE, Role, channel};
use gatehouse_proto::v1::operator_client::OperatorClient;
use gatehouse_proto::v1::{HealthReply, HealthRequest};
use tonic::transport::Channel;

use crate::failure::Failure;

/// The client of the operator service.
pub type Operator = OperatorClient<Channel>;

/// A client of the executor whose sockets are in `runtime_dir`; connects with the first call.
///
/// # Errors
/// When the path cannot be a socket's.
pub fn client(runtime_dir: &Path) -> Result<Operator, Failure> {
    let channel = channel(&Role::Operator.socket(runtime_dir))?;
    Ok(OperatorClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
}

/// Whether an executor answers, and what it says of itself.
///
/// # Errors
/// [`Exit::Unreachable`](crate::failure::Exit::Unreachable) when none answers.
pub async fn health(operator: &mut Operator) -> Result<HealthReply, Failure> {
    Ok(operator.health(HealthRequest {}).await?.into_inner())
}
