//! What honest programs do works.

use gatehouse_sandbox::launch::{Exit, Policy, SCRATCH, Scratch};

use crate::host::Host;
use crate::probe::{Cause, can_run, command, inside, request, run};

/// A shell script as a command, its output on success.
async fn works(host: &Host, script: &str) -> String {
    let mut confined = command(host);
    match &mut confined.scratch {
        Scratch::Memory { bytes } | Scratch::Directory { bytes, .. } => *bytes = 256 << 20,
        Scratch::None => {}
    }
    let mut request = request(Policy::Command, &["/bin/sh", "-ec", script]);
    request.cwd = host.path("ws").into();
    request.env.insert("TMPDIR".into(), SCRATCH.into());
    let run = run(&request, &confined).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{script}: {run:?}");
    run.stdout
}

#[tokio::test]
async fn shells_pipes_and_temporary_files() {
    let host = Host::new();
    assert_eq!(works(&host, "printf 'b\\na\\nb\\n' | sort | uniq | tr '\\n' ' '").await, "a b ");
    assert_eq!(works(&host, "f=$(mktemp); echo x > $f; cat $f; cd $HOME; touch here; ls").await, "x\nhere\n");
    assert_eq!(
        works(&host, "cat file; test -r /usr/bin/env; ls / >/dev/null; getconf _NPROCESSORS_ONLN >/dev/null")
            .await,
        "public"
    );
    assert_eq!(works(&host, "f=$TMPDIR/f; mkfifo $f; (echo y > $f &) ; cat $f").await, "y\n");
}

#[tokio::test]
async fn terminals_threads_and_pairs() {
    let host = Host::new();
    let confined = command(&host);
    assert_eq!(inside(&confined, &["terminal"]).await, Cause::Ok("hello".into()));
    assert_eq!(inside(&confined, &["threads", "200"]).await, Cause::Ok("200".into()));
    assert_eq!(inside(&confined, &["pair-ping"]).await, Cause::Ok("ping".into()));
}

#[tokio::test]
async fn git_of_ones_own() {
    let host = Host::new();
    let script = "cd $TMPDIR; git init -q r; cd r; echo x > f; git add f; \
        git -c user.name=t -c user.email=t@e commit -q -m first; git log --format=%s";
    assert_eq!(works(&host, script).await, "first\n");
}

#[tokio::test]
async fn python_with_several_processes() {
    if !can_run("python3", "/usr/bin/python3".as_ref()) {
        return;
    }
    let host = Host::new();
    let script = "cat > $TMPDIR/t.py <<'X'\nimport multiprocessing as m, subprocess\n\
        def f(x): return x * x\n\
        if __name__ == '__main__':\n    with m.Pool(4) as p: print(sum(p.map(f, range(10))))\n    \
        print(subprocess.run(['echo', 'z'], capture_output=True, text=True).stdout.strip())\nX\npython3 $TMPDIR/t.py";
    assert_eq!(works(&host, script).await, "285\nz\n");
}

#[tokio::test]
async fn node_with_a_child() {
    if !can_run("node", "/usr/bin/node".as_ref()) {
        return;
    }
    let host = Host::new();
    let script = "node -e \"const c=require('child_process').spawn('cat',{stdio:['pipe','pipe','inherit']});\
        c.stdout.on('data',d=>process.stdout.write(d));c.stdin.end('through')\"";
    assert_eq!(works(&host, script).await, "through");
}

#[tokio::test]
async fn a_compiler() {
    if !can_run("cc", "/usr/bin/cc".as_ref()) {
        return;
    }
    let host = Host::new();
    let script = "printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > $TMPDIR/a.c; cc -o $TMPDIR/a $TMPDIR/a.c; $TMPDIR/a";
    assert_eq!(works(&host, script).await, "built\n");
}

#[tokio::test]
async fn cargo_tests_a_read_only_checkout() {
    let host = Host::new();
    let sysroot = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot =
        sysroot.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let bin = std::path::Path::new(&sysroot).join("bin");
    if sysroot.is_empty() || !can_run("cargo", &bin.join("cargo")) {
        return;
    }
    std::fs::create_dir(host.path("ws/src")).unwrap();
    let manifest = "[package]\nname = \"t\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    std::fs::write(host.path("ws/Cargo.toml"), manifest).unwrap();
    std::fs::write(host.path("ws/src/lib.rs"), "#[test]\nfn it_works() { println!(\"ran\"); }\n").unwrap();
    // A checkout comes with its lock file.
    let locked = std::process::Command::new(bin.join("cargo"))
        .args(["generate-lockfile", "--offline"])
        .current_dir(host.path("ws"))
        .env("CARGO_HOME", host.path("state"))
        .status();
    assert!(locked.unwrap().success());
    let script = format!(
        "export PATH={}:$PATH CARGO_HOME=$TMPDIR/cargo CARGO_TARGET_DIR=$TMPDIR/target; cargo test -q --offline -- --nocapture",
        bin.display()
    );
    assert!(works(&host, &script).await.contains("ran"));
}
