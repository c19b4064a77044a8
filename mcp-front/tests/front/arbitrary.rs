//! Whatever is sent, the answer is a protocol error that a tunnel can pass on, and never a failure of the front.

use std::net::TcpStream;
use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{Ask, exchange, modern};
use crate::process::HttpFront;

fn front() -> &'static HttpFront {
    static FRONT: OnceLock<HttpFront> = OnceLock::new();
    FRONT.get_or_init(|| HttpFront::start(&[]))
}

fn is_protocol(ask: &Ask) -> Result<(), TestCaseError> {
    let reply = exchange(TcpStream::connect(front().authority()).unwrap(), &ask.text());
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_as_a_body(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        is_protocol(&Ask::post(body))?;
    }

    #[test]
    fn any_message_of_any_method(method in any_method(), id in any_json(), params in any_json(), latest in any::<bool>()) {
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if latest && message["params"].is_object() {
            let meta = modern("x", json!({}))["params"]["_meta"].clone();
            message["params"]["_meta"] = meta;
        }
        is_protocol(&Ask::message(&message))?;
    }

    #[test]
    fn any_headers_and_paths(
        method in "[A-Z]{1,8}",
        path in "/[a-zA-Z0-9._~%/?&=-]{0,12}",
        accept in "[ -~]{0,30}",
        version in "[!-~]{0,16}",
        host in "[!-~]{1,16}",
        origin in "[!-~]{1,16}",
    ) {
        // Answers to HEAD have no body, and CONNECT has no path. What is no HTTP at all is answered by HTTP's own rules.
        prop_assume!(method != "HEAD" && method != "CONNECT" && !path.contains("/.well-known"));
        let ask = Ask::post("{}").method(&method).to(&path).with("Accept", &accept).with("Mcp-Protocol-Version", &version);
        is_protocol(&ask)?;
        is_protocol(&ask.clone().to("/mcp").with("Host", &host))?;
        is_protocol(&ask.to("/mcp").with("Origin", &origin))?;
    }
}
