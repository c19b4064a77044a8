//! The front, asked as the tunnel's client asks it.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::Line;
use crate::chatgpt::Endpoint;
use crate::chatgpt::http::send;
use crate::chatgpt::http::{MCP_PATH, Reply};

/// Tells the front that this is no client.
const PROBE: &str = "X-Gatehouse-Probe";
/// How long each answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where a tunnel looks for a log-in.
const NO_LOG_IN: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
/// How many tools there are.
const TOOLS: usize = 6;

/// What was found. Statuses are `None` where nothing was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where it was asked.
    pub endpoint: String,
    /// `/healthz`.
    pub alive: Result<u16, String>,
    /// `/readyz`.
    pub ready: Option<u16>,
    /// `initialize` with the key, and with a wrong one; `None` on a Unix socket, which wants none.
    pub keys: Option<(Option<u16>, Option<u16>)>,
    /// The paths of a log-in.
    pub log_in: Vec<Option<u16>>,
    /// Whether any answer asked for a log-in.
    pub challenged: bool,
    /// The version that it says it is, if it says one.
    pub version: Option<String>,
    /// The version of this program.
    pub ours: &'static str,
    /// What is wrong with the answers to `initialize`, `tools/list` and `server/discover`.
    pub protocol: Vec<String>,
}

/// Looks.
pub async fn gather(endpoint: &Endpoint, key_file: &Path) -> Facts {
    let key = std::fs::read_to_string(key_file).ok().map(|key| key.trim().to_owned());
    let plain = with_key(endpoint, None);
    let right = with_key(endpoint, key);
    let mut facts = Facts {
        endpoint: endpoint.url(),
        alive: get(&plain, "/healthz").await.map(|reply| reply.status.as_u16()),
        ready: None,
        keys: None,
        log_in: Vec::new(),
        challenged: false,
        version: None,
        ours: env!("CARGO_PKG_VERSION"),
        protocol: Vec::new(),
    };
    if facts.alive.is_err() {
        return facts;
    }
    facts.ready = status(&get(&plain, "/readyz").await);
    for path in NO_LOG_IN {
        facts.log_in.push(status(&get(&plain, path).await));
    }
    if matches!(endpoint, Endpoint::Tcp { .. }) {
        let wrong = with_key(endpoint, Some("not-the-key-and-long-enough-to-be-one".to_owned()));
        let (with, without) = (post(&right, &hello()).await, post(&wrong, &hello()).await);
        facts.challenged |= challenges(&with) || challenges(&without);
        facts.keys = Some((status(&with), status(&without)));
    }
    // As a tunnel looks for a challenge: an empty message, and a GET.
    for reply in [send_to(&right, right.post(), "").await, get(&right, MCP_PATH).await] {
        facts.challenged |= challenges(&reply);
    }
    (facts.version, facts.protocol) = protocol(&right).await;
    facts
}

fn with_key(endpoint: &Endpoint, key: Option<String>) -> Endpoint {
    match endpoint {
        Endpoint::Tcp { address, .. } => Endpoint::Tcp { address: *address, key },
        Endpoint::Unix { socket } => Endpoint::Unix { socket: socket.clone() },
    }
}

type Answer = Result<Reply, String>;

async fn send_to(endpoint: &Endpoint, request: http::request::Builder, body: &str) -> Answer {
    let request: Request<Full<Bytes>> = request
        .header(PROBE, "doctor")
        .body(Full::from(body.to_owned()))
        .map_err(|error| error.to_string())?;
    match tokio::time::timeout(PATIENCE, send(endpoint, request)).await {
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(_) => Err(format!("{}: no answer within {} s", endpoint.url(), PATIENCE.as_secs())),
    }
}

async fn get(endpoint: &Endpoint, path: &str) -> Answer {
    send_to(endpoint, endpoint.request(Method::GET, path), "").await
}

async fn post(endpoint: &Endpoint, message: &Value) -> Answer {
    send_to(endpoint, endpoint.post(), &message.to_string()).await
}

fn status(answer: &Answer) -> Option<u16> {
    answer.as_ref().ok().map(|reply| reply.status.as_u16())
}

fn challenges(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(|reply| reply.headers.contains_key(http::header::WWW_AUTHENTICATE))
}

fn hello() -> Value {
    let client = json!({"name": "gatehouse-doctor", "version": env!("CARGO_PKG_VERSION")});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}})
}

/// What a tunnel's client, and ChatGPT after it, ask first: the version that is told, and what is wrong.
async fn protocol(endpoint: &Endpoint) -> (Option<String>, Vec<String>) {
    let (mut version, mut wrong) = (None, Vec::new());
    match result(post(endpoint, &hello()).await) {
        Ok(result) if result["serverInfo"]["name"] == "gatehouse" => {
            version = result["serverInfo"]["version"].as_str().map(|told| told.chars().take(40).collect());
        }
        Ok(_) => wrong.push("initialize was answered by something else than Gatehouse".to_owned()),
        Err(why) => wrong.push(format!("initialize: {why}")),
    }
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    match result(post(endpoint, &list).await) {
        Ok(result) => {
            let number = result["tools"].as_array().map_or(0, Vec::len);
            if number != TOOLS {
                wrong.push(format!("tools/list has {number} tools, not {TOOLS}"));
            }
        }
        Err(why) => wrong.push(format!("tools/list: {why}")),
    }
    wrong.extend(discover(endpoint).await);
    (version, wrong)
}

/// Either it is answered, or refused as the protocol refuses a revision that is switched off.
async fn discover(endpoint: &Endpoint) -> Option<String> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "gatehouse-doctor", "version": "1"}});
    let ask =
        json!({"jsonrpc": "2.0", "id": "doctor", "method": "server/discover", "params": {"_meta": meta}});
    let request =
        endpoint.post().header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", "server/discover");
    let reply = match send_to(endpoint, request, &ask.to_string()).await {
        Ok(reply) => reply,
        Err(why) => return Some(format!("server/discover: {why}")),
    };
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let refused = body["error"]["code"] == -32022;
    (body["id"] != "doctor" || !(body["result"].is_object() || refused))
        .then(|| format!("server/discover: HTTP {} without a proper answer", reply.status.as_u16()))
}

fn result(answer: Answer) -> Result<Value, String> {
    let reply = answer?;
    if reply.status != StatusCode::OK {
        return Err(format!("HTTP {}", reply.status.as_u16()));
    }
    let body: Value = serde_json::from_slice(&reply.body).map_err(|_| "no JSON".to_owned())?;
    match &body["result"] {
        Value::Null => Err("an error was answered".to_owned()),
        result => Ok(result.clone()),
    }
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let alive = match &facts.alive {
        Err(why) => {
            return vec![Line::failed(
                "front",
                why.clone(),
                "Start the gateway. If it listens elsewhere, name the place with --listen.",
            )];
        }
        Ok(200) => Line::ok("front", facts.endpoint.clone()),
        Ok(status) => {
            let found = format!("{} answers /healthz with {status}: it is another program", facts.endpoint);
            Line::failed("front", found, "End that program, or set front.listen to another port.")
        }
    };
    let ready = match facts.ready {
        Some(200) => Line::ok("front_ready", "it reaches its executor"),
        _ => Line::failed(
            "front_ready",
            "it does not reach its executor",
            "Start both with the same runtime directory; the executor's line above says whether one is there.",
        ),
    };
    let mut lines = vec![alive, ready];
    lines.extend(facts.version.as_ref().map(|told| version(told, facts.ours)));
    lines.extend(facts.keys.map(|(right, wrong)| keys(right, wrong)));
    lines.extend([discovery(facts), spoken(facts)]);
    lines
}

fn version(told: &str, ours: &str) -> Line {
    const CHECK: &str = "front_version";
    if told == ours {
        return Line::ok(CHECK, told);
    }
    Line::warning(
        CHECK,
        format!("the front is {told}, this program {ours}"),
        "Executor, front and command belong together: install all binaries of one version, and start the gateway again.",
    )
}

fn keys(right: Option<u16>, wrong: Option<u16>) -> Line {
    const CHECK: &str = "front_key";
    match (right, wrong) {
        (_, Some(200)) => Line::failed(
            CHECK,
            "a wrong key is let in",
            "It is not Gatehouse's front that listens there: end that program.",
        ),
        (Some(401), _) => Line::failed(
            CHECK,
            "the key of the key file is refused",
            "The front was started with another key: start it again, and give the tunnel's client the key of the key file.",
        ),
        (Some(200), Some(401)) => Line::ok(CHECK, "the key is let in, a wrong one gets 401"),
        (right, wrong) => {
            let status = |status: Option<u16>| {
                status.map_or_else(|| "nothing".to_owned(), |status| status.to_string())
            };
            let found =
                format!("the key is answered with {}, a wrong one with {}", status(right), status(wrong));
            Line::failed(CHECK, found, "Look at the front's log.")
        }
    }
}

fn discovery(facts: &Facts) -> Line {
    const CHECK: &str = "front_discovery";
    let log_in: Vec<_> = facts.log_in.iter().filter(|status| **status != Some(404)).collect();
    if log_in.is_empty() && !facts.challenged {
        return Line::ok(CHECK, "a tunnel finds no log-in, as it should (404)");
    }
    Line::failed(
        CHECK,
        "a tunnel would look for a log-in: its /readyz then stays red",
        "Whatever stands before the front must let /.well-known/oauth-protected-resource through as 404.",
    )
}

fn spoken(facts: &Facts) -> Line {
    const CHECK: &str = "front_protocol";
    if facts.protocol.is_empty() {
        return Line::ok(CHECK, "initialize, tools/list (6 tools) and server/discover are answered");
    }
    Line::failed(CHECK, facts.protocol.join("; "), "Look at the lines above first, then at the front's log.")
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{self, Failed, Ok as Fine, Warning};
    use super::*;

    fn facts() -> Facts {
        Facts {
            endpoint: "e".into(),
            alive: Ok(200),
            ready: Some(200),
            keys: Some((Some(200), Some(401))),
            log_in: vec![Some(404), Some(404)],
            challenged: false,
            version: Some("1".into()),
            ours: "1",
            protocol: vec![],
        }
    }

    fn verdict(facts: &Facts, check: &str) -> Verdict {
        judge(facts).iter().find(|line| line.check == check).unwrap().verdict
    }

    #[test]
    fn a_front_in_order_has_nothing_but_good_lines() {
        assert!(judge(&facts()).iter().all(|line| line.verdict == Fine));
        assert_eq!(judge(&Facts { keys: None, ..facts() }).len(), 5, "a Unix socket wants no key");
    }

    #[test]
    fn each_fault_has_its_line() {
        assert_eq!(verdict(&Facts { alive: Err("refused".into()), ..facts() }, "front"), Failed);
        assert_eq!(verdict(&Facts { alive: Ok(404), ..facts() }, "front"), Failed);
        assert_eq!(verdict(&Facts { ready: Some(503), ..facts() }, "front_ready"), Failed);
        assert_eq!(verdict(&Facts { ours: "2", ..facts() }, "front_version"), Warning);
        assert!(judge(&Facts { version: None, ..facts() }).iter().all(|line| line.check != "front_version"));
        for keys in [(Some(401), Some(401)), (Some(200), Some(200)), (Some(500), Some(401)), (None, None)] {
            assert_eq!(verdict(&Facts { keys: Some(keys), ..facts() }, "front_key"), Failed, "{keys:?}");
        }
        assert_eq!(
            verdict(&Facts { log_in: vec![Some(401), Some(404)], ..facts() }, "front_discovery"),
            Failed
        );
        assert_eq!(verdict(&Facts { challenged: true, ..facts() }, "front_discovery"), Failed);
        assert_eq!(verdict(&Facts { protocol: vec!["x".into()], ..facts() }, "front_protocol"), Failed);
    }
}
