//! The short form of a receipt that Claude Code itself is given. ChatGPT reads the ledger's.

use serde_json::json;

use crate::ledger::actions::ActionRow;

/// What Claude Code gets as the result of its tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortResult {
    /// Whether the action worked.
    pub ok: bool,
    /// JSON: the call, the outcome, the receipt's hash and its beginning.
    pub text: String,
}

/// The short form of a settled action; `None` if it has no receipt.
pub(super) fn short_result(row: &ActionRow, limit: usize) -> Option<ShortResult> {
    let receipt = row.receipt.as_deref()?;
    let ok = row.ok.unwrap_or(false);
    let text = json!({
        "tool_call_id": row.id,
        "ok": ok,
        "code": row.code,
        "receipt_sha256": row.receipt_sha256,
        "receipt_start": &receipt[..receipt.floor_char_boundary(limit)],
    });
    Some(ShortResult { ok, text: text.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    fn settled(receipt: &str) -> ActionRow {
        ActionRow {
            id: "toolu_0".into(),
            session_id: String::new(),
            run_id: None,
            turn_id: None,
            name: "Read".into(),
            client_id: None,
            input: String::new(),
            budget: 0,
            state: "done".into(),
            authorised_at: Timestamp::default(),
            finished_at: None,
            ok: Some(true),
            code: None,
            receipt: Some(receipt.to_owned()),
            receipt_sha256: Some("ab".into()),
            intent: None,
            reverts: None,
            subagent_id: None,
        }
    }

    #[test]
    fn the_start_is_cut_between_characters() {
        let result = short_result(&settled("日本語"), 4).unwrap();
        let value: serde_json::Value = serde_json::from_str(&result.text).unwrap();
        assert_eq!(value["receipt_start"], "日");
        assert!(result.ok);
    }

    #[test]
    fn an_action_without_a_receipt_has_no_result() {
        let mut row = settled("");
        row.receipt = None;
        assert_eq!(short_result(&row, 10), None);
    }
}
