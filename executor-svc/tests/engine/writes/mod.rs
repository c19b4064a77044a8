//! Edit, Write and NotebookEdit through the whole of the executor.

mod interrupted;
mod made;

use serde_json::{Value, json};

use super::caller::Caller;
use super::house::*;

/// SHA-256 of a file's bytes, in hexadecimal.
fn sha256(path: &std::path::Path) -> String {
    gatehouse_proto::digest::sha256_hex(&std::fs::read(path).unwrap())
}

fn code(receipt: &Value) -> Option<&str> {
    receipt["code"].as_str()
}
