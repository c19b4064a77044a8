//! `gatehouse export`: one page that tells a whole session of the real Claude Code. Every suite exports its sessions at its end
//! and goes through the pages for secrets; here is what has to be in one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;

use gatehouse_tests::reported::{RAW_MARKUP, reported};
use gatehouse_tests::{Gateway, Setup, claude};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_everything_and_is_written_once_and_for_its_owner_only() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let done = reported(&mut gateway).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let name = file.to_str().unwrap();
    let written = gateway.cli(&["export", &done.session, "-o", name]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&file).unwrap();

    for part in [
        "Tidy up the &lt;b&gt;notes&lt;/b&gt;",
        "I read both first.",
        "Run 2",
        "<ins>+lantern = bright</ins>",
        "<del>-lantern = dim</del>",
        "not_found",
        "At the machine",
        "the chain holds",
        "All is tidy.",
        "chatgpt-main",
        &done.edit,
        &done.session,
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains(RAW_MARKUP), "a prompt is text, whatever is in it");

    let again = gateway.cli(&["export", &done.session, "-o", name]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("not overwritten"), "{}", text(&again.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");

    let nobody = format!("ns_{}", "0".repeat(32));
    assert_eq!(gateway.cli(&["export", &nobody]).status.code(), Some(1));
    gateway.finish().await;
}
