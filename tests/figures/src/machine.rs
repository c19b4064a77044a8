//! What the figures were taken on.

use std::fs;

/// One line: processors, memory, kernel.
#[must_use]
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let model = field(&read("/proc/cpuinfo"), "model name");
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| format!(", {} GiB", kib.div_ceil(1 << 20)));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{processors} processors{}{}, {} {}",
        model.map(|model| format!(" ({model})")).unwrap_or_default(),
        memory.unwrap_or_default(),
        std::env::consts::OS,
        kernel.trim()
    )
}

/// How much the machine had to do in the last minute, where that is told.
pub(crate) fn load() -> Option<String> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next().map(str::to_owned)
}
