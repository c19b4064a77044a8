//! The operator, asking about actions.

use gatehouse_proto::refusal::{ActionRefusal, Refusal};
use gatehouse_proto::v1;
use serde_json::Value;
use tonic::Status;

use super::caller::Caller;
use super::house::*;

/// The operator of a house, in one session.
pub struct Asking<'a> {
    pub house: &'a House,
    pub session: String,
}

impl<'a> Asking<'a> {
    pub fn of(caller: &'a Caller) -> Self {
        Self { house: &caller.house, session: id(&caller.started) }
    }

    pub async fn undo(&self, action: &str, request_id: &str) -> Result<v1::ActionView, Status> {
        let ask = v1::UndoActionRequest {
            native_session_id: self.session.clone(),
            tool_call_id: action.into(),
            request_id: request_id.into(),
        };
        Ok(self.house.operator().undo_action(ask).await?.into_inner())
    }

    pub async fn resolve(
        &self,
        action: &str,
        request_id: &str,
        decision: v1::Decision,
    ) -> Result<v1::ActionView, Status> {
        let ask = v1::ResolveActionRequest {
            native_session_id: self.session.clone(),
            tool_call_id: action.into(),
            request_id: request_id.into(),
            decision: decision.into(),
        };
        Ok(self.house.operator().resolve_action(ask).await?.into_inner())
    }

    pub async fn diff(&self, action: &str) -> Result<v1::DiffView, Status> {
        let ask = v1::GetDiffRequest { native_session_id: self.session.clone(), tool_call_id: action.into() };
        let mut operator = self.house.operator().max_decoding_message_size(8 * 1024 * 1024);
        Ok(operator.get_diff(ask).await?.into_inner())
    }

    pub async fn action(&self, action: &str) -> v1::ActionView {
        let ask = v1::GetActionRequest { tool_call_id: action.into() };
        self.house.operator().get_action(ask).await.unwrap().into_inner()
    }

    pub async fn verify(&self) -> v1::VerifyLedgerReply {
        self.house.operator().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner()
    }
}

/// The receipt of an action.
pub fn receipt(action: &v1::ActionView) -> Value {
    serde_json::from_str(action.receipt_json.as_deref().expect("a receipt")).unwrap()
}

/// The code of a refusal for what is on disk.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> ActionRefusal {
    ActionRefusal::from_status(&answer.expect_err("a refusal")).expect("a refusal with an action code")
}

/// Any other refusal.
pub fn denied<T: std::fmt::Debug>(answer: Result<T, Status>) -> Refusal {
    Refusal::from_status(&answer.expect_err("a refusal")).expect("a refusal of ours")
}

/// The id of the action that a receipt is of.
pub fn call_id(receipt: &Value) -> String {
    receipt["tool_call_id"].as_str().expect("an id").to_owned()
}
