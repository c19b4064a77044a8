//! What people use commands for: the tools of real projects, in checkouts that cannot be written. Those that a fresh
//! machine does not have are in `foreign_projects.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use gatehouse_tests::binaries::repository;
use gatehouse_tests::commands::{copied, prepared, session_in, small_repository, works};
use gatehouse_tests::places::Project;
use serde_json::Value;

/// The sources of a crate that this very build has downloaded.
fn crate_sources(name: &str) -> PathBuf {
    let told = Command::new("rustc").arg("-vV").output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // What only other systems need has never been downloaded.
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == name).unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_builds_and_tests_a_published_crate_and_one_that_depends_on_it() {
    let project = Project::empty();
    copied(&crate_sources("strsim"), &project.path().join("strsim"));
    project.write("Cargo.toml", "[workspace]\nmembers = [\"strsim\", \"ours\"]\nresolver = \"2\"\n");
    project.write("ours/Cargo.toml", "[package]\nname = \"ours\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\nhex = \"0.4\"\n");
    project.write(
        "ours/src/lib.rs",
        "#[test]\nfn the_dependency_works() { assert_eq!(hex::encode([255]), \"ff\"); }\n",
    );
    // A checkout comes with its lock file, and with its dependencies downloaded.
    prepared(&project.path(), env!("CARGO"), &["generate-lockfile", "--offline"]);
    let Some((gateway, mut brain)) = session_in(&project, "").await else { return };
    let said = works(&mut brain, &["cargo", "test", "--offline", "--workspace"]).await;
    assert!(said.contains("the_dependency_works ... ok") && said.contains("test jaro_"), "{said}");
    assert!(!project.path().join("target").exists());
    let again = works(&mut brain, &["cargo", "test", "--offline", "-p", "ours", "--lib"]).await;
    assert!(!again.contains("Compiling"), "what was built stays in the scratch: {again}");
    brain.finish("It works.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_runs_the_tests_of_a_package_with_a_dependency() {
    let project = Project::empty();
    project.write(
        "package.json",
        r#"{"name": "ours", "version": "1.0.0", "scripts": {"pretest": "node -e \"console.log('pre')\"", "test": "node --test"}, "dependencies": {"dep": "file:dep"}}"#,
    );
    project.write("dep/package.json", r#"{"name": "dep", "version": "1.0.0", "main": "index.js"}"#);
    project.write("dep/index.js", "module.exports = (a, b) => a + b;\n");
    project.write(
        "test/sum.test.js",
        "const { test } = require('node:test'); const assert = require('node:assert'); const { execFileSync } = require('node:child_process');\n\
         test('sum', () => assert.strictEqual(require('dep')(1, 2), 3));\n\
         test('a child', () => assert.strictEqual(execFileSync(process.execPath, ['-p', '40+2']).toString(), '42\\n'));\n\
         test('a worker', async () => { const { Worker } = require('node:worker_threads'); const w = new Worker('require(\"node:worker_threads\").parentPort.postMessage(7)', { eval: true }); assert.strictEqual(await new Promise(r => w.on('message', r)), 7); });\n",
    );
    let (cache, path) = (project.path().join("cache"), project.path());
    prepared(
        &path,
        "npm",
        &["install", "--offline", "--no-audit", "--no-fund", "--cache", cache.to_str().unwrap()],
    );
    let Some((gateway, mut brain)) = session_in(&project, "").await else { return };
    let said = works(&mut brain, &["npm", "test"]).await;
    assert!(said.contains("pre\n") && said.contains("pass 3"), "{said}");
    brain.finish("It works.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn git_answers_questions_about_a_repository() {
    let project = small_repository();
    let path = project.path();
    project.write("README.md", "# Lantern\n\nChanged.\n");
    project.write("new.txt", "x");
    // What a hostile repository would have git start.
    let trap = project.write(".git/trap.sh", format!("#!/bin/sh\ntouch {}/trapped\n", path.display()));
    prepared(&path, "chmod", &["+x", trap.to_str().unwrap()]);
    prepared(&path, "git", &["config", "core.fsmonitor", trap.to_str().unwrap()]);
    let index = std::fs::read(path.join(".git/index")).unwrap();
    let Some((gateway, mut brain)) = session_in(&project, "").await else { return };
    let status = works(&mut brain, &["git", "status", "--porcelain"]).await;
    assert!(status.starts_with(" M README.md\n?? new.txt\n"), "{status}");
    assert!(
        status.contains("cannot touch") && status.contains("Read-only file system"),
        "it was started: {status}"
    );
    assert!(works(&mut brain, &["git", "diff"]).await.contains("+Changed."));
    assert!(works(&mut brain, &["git", "log", "--stat"]).await.contains("src/main.txt | 3 +++"));
    assert!(works(&mut brain, &["git", "blame", "src/main.txt"]).await.contains("quicksilver"));
    assert_eq!(std::fs::read(path.join(".git/index")).unwrap(), index, "not even the index was refreshed");
    assert!(!path.join("trapped").exists(), "what the repository starts is confined as well");
    brain.finish("It works.").await.unwrap();
    gateway.finish().await;
}
