//! `gatehouse verify`.

use gatehouse_proto::v1::VerifyLedgerRequest;
use serde_json::json;

use crate::cli::Json;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::Screen;

pub(super) async fn run(mut operator: Operator, options: &Json, screen: &mut Screen) -> Result<(), Failure> {
    let found = operator.verify_ledger(VerifyLedgerRequest {}).await?.into_inner();
    if options.json {
        let line = json!({
            "ok": found.ok, "entries": found.entries, "broken_at_seq": found.broken_at_seq, "message": found.message,
        });
        screen.line(line.to_string())?;
    } else if found.ok {
        screen.line(format!(
            "The ledger is whole: {} entries, each chained to the one before.",
            found.entries
        ))?;
    }
    if found.ok {
        return Ok(());
    }
    let place = found.broken_at_seq.map(|seq| format!(" at entry {seq}")).unwrap_or_default();
    Err(Failure::failed(format!("the ledger is broken{place}: {}", found.message))
        .hint("Stop the gateway, keep the state directory as it is, and restore the last good copy."))
}
