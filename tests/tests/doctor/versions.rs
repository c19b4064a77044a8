//! Parts of different versions: a real executor whose answers are changed on the way, and a front that says it is another.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use gatehouse_tests::up::Up;

use crate::Patient;

const OURS: &str = env!("CARGO_PKG_VERSION");

/// Another version that takes as many bytes.
pub(crate) fn other() -> String {
    OURS.chars()
        .map(|c| {
            if c == '9' {
                '8'
            } else if c.is_ascii_digit() {
                '9'
            } else {
                c
            }
        })
        .collect()
}

/// The version as the first field of a message: what comes from the executor, with the other version in its place.
fn changed(mut part: Vec<u8>) -> Vec<u8> {
    let field = |version: &str| [&[0x0a, u8::try_from(version.len()).unwrap()], version.as_bytes()].concat();
    let (from, to) = (field(OURS), field(&other()));
    for at in 0..part.len().saturating_sub(from.len() - 1) {
        if part[at..].starts_with(&from) {
            part[at..at + to.len()].copy_from_slice(&to);
        }
    }
    part
}

fn pass(mut from: UnixStream, mut to: UnixStream, change: fn(Vec<u8>) -> Vec<u8>) {
    let mut part = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut part) {
        if to.write_all(&change(part[..count].to_vec())).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn an_executor_of_another_version_is_a_warning() {
    let patient = Patient::new();
    let _up = Up::start(&patient.place, None);
    patient.doctor(&[]).expect("executor_version", "ok", OURS);
    let (socket, real) = (patient.at("r/operator/operator.sock"), patient.at("r/operator/real.sock"));
    std::fs::rename(&socket, &real).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(executor)) = (client, UnixStream::connect(&real)) else { return };
            let (asks, answers) = (client.try_clone().unwrap(), executor.try_clone().unwrap());
            thread::spawn(move || pass(asks, executor, |part| part));
            thread::spawn(move || pass(answers, client, changed));
        }
    });
    let found = patient.doctor(&[]);
    found.expect("executor_version", "warning", &format!("the executor is {}, this program {OURS}", other()));
    found.expect("executor_version", "warning", "the program that belongs to it");
    // The front of the same installation is what it was: the difference shows between the two lines.
    found.expect("front_version", "ok", OURS);
    assert_eq!(found.verdict("ledger"), "ok", "it is the real one otherwise");
}
