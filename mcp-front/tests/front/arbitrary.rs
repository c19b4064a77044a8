//! Whatever is sent, the answer is a protocol error that a tunnel can pass on, and never a failure of the front.

use std::net::TcpStream;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{Ask, exchange, modern};
use crate::process::HttpFront;

fn is_protocol(front: &HttpFront, ask: &Ask) -> Result<(), TestCaseError> {
    let reply = exchange(TcpStream::connect(front.authority()).unwrap(), &ask.text());
    prop_assert!(reply.status < 500, "{reply:?}");
    if reply.status == 202 {
        prop_assert_eq!(reply.body, "");
        return Ok(());
    }
    let json: Value =
        serde_json::from_str(&reply.body).map_err(|_| TestCaseError::fail(format!("{reply:?}")))?;
    prop_assert_eq!(&json["jsonrpc"], "2.0");
    prop_assert!(json["error"]["code"].is_i64() || json["result"].is_object(), "{json}");
    Ok(())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-z_]{1,12}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_method() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("initialize".to_owned()),
        Just("ping".to_owned()),
        Just("tools/list".to_owned()),
        Just("tools/call".to_owned()),
        Just("server/discover".to_owned()),
        Just("notifications/cancelled".to_owned()),
        "[a-z/]{0,12}",
    ]
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn any_bytes_as_a_body() {
    let front = HttpFront::start(&[]);
    proptest!(cases(), |(body in proptest::collection::vec(any::<u8>(), 0..300))| {
        is_protocol(&front, &Ask::post(body))?;
    });
}

#[test]
fn any_message_of_any_method() {
    let front = HttpFront::start(&[]);
    let parts = (any_method(), any_json(), any_json(), any::<bool>());
    proptest!(cases(), |((method, id, params, latest) in parts)| {
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if latest && message["params"].is_object() {
            message["params"]["_meta"] = modern("x", json!({}))["params"]["_meta"].clone();
        }
        is_protocol(&front, &Ask::message(&message))?;
    });
}

#[test]
fn any_headers_and_paths() {
    let front = HttpFront::start(&[]);
    // Answers to HEAD have no body, and CONNECT has no path. What is no HTTP at all is answered by HTTP's own rules.
    let method = "[A-Z]{1,8}".prop_filter("has an answer", |method| method != "HEAD" && method != "CONNECT");
    let parts =
        (method, "/[a-zA-Z0-9._~%/?&=-]{0,12}", "[ -~]{0,30}", "[!-~]{0,16}", "[!-~]{1,16}", "[!-~]{1,16}");
    proptest!(cases(), |((method, path, accept, version, host, origin) in parts)| {
        let ask = Ask::post("{}").method(&method).with("Accept", &accept).with("Mcp-Protocol-Version", &version);
        is_protocol(&front, &ask.clone().to(&path))?;
        is_protocol(&front, &ask.clone().with("Host", &host))?;
        is_protocol(&front, &ask.with("Origin", &origin))?;
    });
}
