//! What the system says that a process holds.

use std::ops::Add;

/// In KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pages in memory.
    pub resident: u64,
    /// The same, those that several processes have shared out among them. Zero where we may not ask.
    pub proportional: u64,
    /// Pages that no other process has.
    pub own: u64,
}

impl Memory {
    /// Of this process; zeros if it is gone.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let line = rollup.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
        };
        Self {
            resident: field("Rss:"),
            proportional: field("Pss:"),
            own: field("Private_Clean:") + field("Private_Dirty:"),
        }
    }

    /// In MiB.
    #[must_use]
    pub fn mebibytes(self) -> [f64; 3] {
        [self.resident, self.proportional, self.own].map(|kib| kib as f64 / 1024.0)
    }
}

impl Add for Memory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            resident: self.resident + other.resident,
            proportional: self.proportional + other.proportional,
            own: self.own + other.own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_holds_no_less_than_what_is_its_own() {
        let own = Memory::of(std::process::id());
        assert!(own.resident >= own.proportional && own.proportional >= own.own && own.own > 0, "{own:?}");
        assert_eq!(Memory::of(u32::MAX), Memory::default());
    }
}
