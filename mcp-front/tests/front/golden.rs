//! What clients cache or show word for word. A change of these files is a change of the contract with ChatGPT: run with
//! `GATEHOUSE_WRITE_GOLDEN=1` and read the difference.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Ask, MODERN, initialize, modern, request};
use crate::process::HttpFront;

fn compare(name: &str, found: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/front/golden").join(name);
    // The version is that of the build, not of the contract.
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    let found = format!("{found:#}\n").replace(&version, "\"VERSION\"");
    if std::env::var_os("GATEHOUSE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{name} differs from what clients know; it is now:\n{found}");
}

fn ask(options: &[&str], message: &Value) -> Value {
    Ask::message(message).send(&HttpFront::start(options)).json()
}

#[test]
fn the_tools_are_listed_in_the_same_bytes_as_ever() {
    compare("tools_list.json", &ask(&[], &request("tools/list", json!({}))));
}

#[test]
fn the_latest_revision_lists_the_same_tools_with_its_own_additions() {
    let mut listed = ask(&[], &modern("tools/list", json!({})));
    let known = ask(&[], &request("tools/list", json!({})));
    assert_eq!(listed["result"]["tools"], known["result"]["tools"]);
    listed["result"]["tools"] = json!("as in tools_list.json");
    compare("tools_list_2026.json", &listed);
}

#[test]
fn initialize_agrees_on_each_revision_that_has_it() {
    compare("initialize_2025_06_18.json", &ask(&[], &initialize("2025-06-18")));
    compare("initialize_2025_11_25.json", &ask(&[], &initialize("2025-11-25")));
    for newer in [MODERN, "2099-01-01", "2024-11-05"] {
        assert_eq!(ask(&[], &initialize(newer))["result"]["protocolVersion"], "2025-11-25", "{newer}");
    }
}

#[test]
fn discover_names_the_revisions_and_the_switch_takes_the_latest_away() {
    compare("discover.json", &ask(&[], &modern("server/discover", json!({}))));
    let legacy = HttpFront::start(&["--protocol", "legacy"]);
    let refused = Ask::message(&modern("server/discover", json!({}))).send(&legacy);
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json()["error"],
        json!({"code": -32022, "message": "Unsupported protocol version",
               "data": {"supported": ["2025-06-18", "2025-11-25"], "requested": MODERN}})
    );
    assert_eq!(refused.json()["id"], "t-1");
    assert_eq!(Ask::message(&initialize("2025-11-25")).send(&legacy).status, 200);
}

#[test]
fn the_first_512_characters_of_the_instructions_hold_the_loop() {
    let said = ask(&[], &initialize("2025-11-25"));
    let first: String = said["result"]["instructions"].as_str().unwrap().chars().take(512).collect();
    for essential in [
        "native_session_start",
        "native_session_reply_and_wait",
        "native_session_continue",
        "native_session_status",
        "pending_turn",
        "recovery_token",
        "same ids",
    ] {
        assert!(first.contains(essential), "{essential} is not in: {first}");
    }
}
