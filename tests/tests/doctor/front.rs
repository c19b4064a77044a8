//! The front, with another program in its place that answers what the test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;

use gatehouse_tests::up::Up;

use crate::{Findings, Patient};

const KEY: &str = "the-right-key-of-this-test-0123456789";

/// A request as far as it matters.
struct Ask {
    path: String,
    key: String,
    body: String,
}

/// Status, further header lines, body.
type Answer = (u16, &'static str, String);

fn read(stream: &TcpStream) -> Option<Ask> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "x-gatehouse-key" => value.clone_into(&mut key),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Ask { path, key, body: String::from_utf8_lossy(&body).into_owned() })
}

/// What a front in order answers.
fn proper(ask: &Ask) -> Answer {
    let right = ask.key == KEY;
    let result = |result: &str| {
        let id =
            if ask.body.contains("\"doctor\"") && ask.body.contains("discover") { "\"doctor\"" } else { "1" };
        (200, "", format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
    };
    match ask.path.as_str() {
        "/healthz" | "/readyz" => (200, "", "ok".to_owned()),
        "/mcp" if !right => (401, "", "{}".to_owned()),
        "/mcp" if ask.body.contains("server/discover") => result("{}"),
        "/mcp" if ask.body.contains("tools/list") => result("{\"tools\":[1,2,3,4,5,6]}"),
        "/mcp" if ask.body.contains("initialize") => result(&format!(
            "{{\"serverInfo\":{{\"name\":\"gatehouse\",\"version\":\"{}\"}}}}",
            env!("CARGO_PKG_VERSION")
        )),
        "/mcp" => (400, "", "{}".to_owned()),
        _ => (404, "", String::new()),
    }
}

/// What the doctor finds with a front that answers so.
fn examined(answer: impl Fn(&Ask) -> Answer + Send + 'static) -> Findings {
    let patient = Patient::new();
    let directory = patient.at("s");
    std::fs::create_dir(&directory).unwrap();
    let mut key = std::fs::File::options();
    let mut key =
        key.write(true).create(true).truncate(true).mode(0o600).open(directory.join("front.key")).unwrap();
    key.write_all(KEY.as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Some(ask) = read(&stream) else { continue };
            let (status, headers, body) = answer(&ask);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    patient.doctor(&["--listen", &address])
}

#[test]
fn one_that_answers_as_it_should_passes() {
    let found = examined(proper);
    for check in ["front", "front_ready", "front_version", "front_key", "front_discovery", "front_protocol"] {
        found.expect(check, "ok", "");
    }
}

#[test]
fn each_fault_of_a_front_has_its_line() {
    let but = |path: &'static str, status: u16| {
        move |ask: &Ask| if ask.path == path { (status, "", String::new()) } else { proper(ask) }
    };
    examined(but("/healthz", 404)).expect("front", "failed", "another program");
    examined(but("/readyz", 503)).expect("front_ready", "failed", "does not reach its executor");
    examined(but("/.well-known/oauth-protected-resource", 401)).expect("front_discovery", "failed", "log-in");
    examined(but("/mcp", 401)).expect("front_key", "failed", "the key of the key file is refused");
    examined(but("/mcp", 500)).expect("front_key", "failed", "answered with 500");
    let anybody =
        |ask: &Ask| proper(&Ask { key: KEY.to_owned(), path: ask.path.clone(), body: ask.body.clone() });
    examined(anybody).expect("front_key", "failed", "a wrong key is let in");
    let challenge = |ask: &Ask| match proper(ask) {
        (400, _, body) => (401, "WWW-Authenticate: Bearer\r\n", body),
        other => other,
    };
    examined(challenge).expect("front_discovery", "failed", "/readyz then stays red");
}

#[test]
fn a_front_of_another_version_is_a_warning() {
    let other = crate::versions::other();
    let answer = move |ask: &Ask| {
        let (status, headers, body) = proper(ask);
        (status, headers, body.replace(env!("CARGO_PKG_VERSION"), &crate::versions::other()))
    };
    let found = examined(answer);
    found.expect("front_version", "warning", &format!("the front is {other}, this program"));
    found.expect("front_version", "warning", "install all binaries of one version");
    found.expect("front_protocol", "ok", "");
}

#[test]
fn answers_that_a_client_could_not_use_are_told_one_by_one() {
    let odd = |ask: &Ask| match proper(ask) {
        (200, headers, body) if ask.path == "/mcp" => (
            200,
            headers,
            body.replace("[1,2,3,4,5,6]", "[1]").replace("gatehouse", "other").replace("doctor", "x"),
        ),
        other => other,
    };
    let found = examined(odd);
    for words in ["something else than Gatehouse", "has 1 tools, not 6", "server/discover: HTTP 200"] {
        found.expect("front_protocol", "failed", words);
    }
}

#[test]
fn where_nobody_listens_there_is_no_front() {
    let patient = Patient::new();
    patient.doctor(&["--listen", "127.0.0.1:1"]).expect("front", "failed", "127.0.0.1:1");
}

#[test]
fn a_unix_socket_wants_no_key() {
    let patient = Patient::new();
    let socket = format!("unix:{}", patient.at("m.sock").display());
    let mut up = Up::start_listening(&patient.place, None, &socket);
    let found = patient.doctor(&[]);
    found.expect("front", "ok", "m.sock");
    found.expect("front_protocol", "ok", "");
    assert_eq!(found.verdict("front_key"), "-");
    up.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));
}
