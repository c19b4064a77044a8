//! What a launch costs: plain, in our sandbox, in bubblewrap's. Medians of 50, taken in turns.
//!
//! `cargo bench -p gatehouse-sandbox` (bubblewrap is measured where it is installed). `GATEHOUSE_BENCH_LAUNCHER` names
//! another build of the launcher, such as a static one.
#![allow(clippy::unwrap_used, reason = "a measurement")]

#[cfg(target_os = "linux")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(linux::measure());
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::Write;
    use std::path::Path;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use gatehouse_sandbox::launch::{
        Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Scratch, Streams,
    };

    const ROUNDS: usize = 50;
    /// What both sandboxes hide.
    const HIDDEN: &str = "/var/log";

    fn median(mut times: Vec<Duration>) -> Duration {
        times.sort();
        times[times.len() / 2]
    }

    fn milliseconds(time: Duration) -> f64 {
        time.as_secs_f64() * 1000.0
    }

    fn request() -> LaunchRequest {
        LaunchRequest {
            argv: vec!["/bin/true".into()],
            cwd: "/".into(),
            env: std::collections::BTreeMap::new(),
            group: ProcessGroup::OwnSession,
            limits: Limits::default(),
            policy: Policy::Command,
        }
    }

    fn nowhere() -> Streams {
        Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() }
    }

    async fn plain() -> Duration {
        let started = Instant::now();
        let status = tokio::process::Command::new("/bin/true").stdin(Stdio::null()).status().await.unwrap();
        assert!(status.success());
        started.elapsed()
    }

    async fn unconfined(launcher: &Launcher) -> Duration {
        let started = Instant::now();
        let mut launched = launcher.start(&request(), nowhere()).await.unwrap();
        assert!(launched.child.wait().await.unwrap().success());
        started.elapsed()
    }

    async fn ours(launcher: &Launcher) -> Duration {
        let confinement = Confinement {
            hidden: vec![HIDDEN.into()],
            scratch: Scratch::Memory { bytes: 64 << 20 },
            ..Confinement::default()
        };
        let started = Instant::now();
        let mut confined = launcher.start_confined(&request(), &confinement, nowhere()).await.unwrap();
        confined.hold.ended().await.unwrap();
        assert!(confined.child.wait().await.unwrap().success());
        started.elapsed()
    }

    async fn bubblewrap() -> Duration {
        let words = format!(
            "--ro-bind / / --unshare-all --dev /dev --proc /proc --tmpfs {HIDDEN} --tmpfs /tmp --new-session \
             --die-with-parent --cap-drop ALL -- /bin/true"
        );
        let started = Instant::now();
        let mut command = tokio::process::Command::new("/usr/bin/bwrap");
        let status = command.args(words.split_whitespace()).stdin(Stdio::null()).status().await.unwrap();
        assert!(status.success());
        started.elapsed()
    }

    pub async fn measure() {
        let own = || env!("CARGO_BIN_EXE_sandbox-launch").into();
        let launcher = Launcher::at(std::env::var_os("GATEHOUSE_BENCH_LAUNCHER").unwrap_or_else(own));
        let has_bubblewrap = Path::new("/usr/bin/bwrap").exists();
        let mut times: [Vec<Duration>; 4] = Default::default();
        for _ in 0..ROUNDS {
            times[0].push(plain().await);
            times[1].push(unconfined(&launcher).await);
            times[2].push(ours(&launcher).await);
            if has_bubblewrap {
                times[3].push(bubblewrap().await);
            }
        }
        let mut out = std::io::stdout().lock();
        let names = ["plain fork and exec", "launched, not confined", "in our sandbox", "in bubblewrap"];
        let medians = times.map(|times| if times.is_empty() { Duration::ZERO } else { median(times) });
        for (name, time) in names.iter().zip(medians) {
            writeln!(out, "{name:<24} {:6.2} ms", milliseconds(time)).unwrap();
        }
        if has_bubblewrap {
            let ratio = milliseconds(medians[2]) / milliseconds(medians[3]);
            writeln!(out, "ours to bubblewrap       {ratio:6.2}").unwrap();
        }
    }
}
