//! The tables that there are.

/// Where a table stands in the document; also the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// From a start to the first pending turn.
    FirstTurn,
    /// From a model request to ChatGPT, and back.
    Turns,
    /// The same beside the bare way.
    TurnsWay,
    /// One small Read or Write, beside other servers.
    Calls,
    /// What idle processes hold.
    Memory,
    /// Sizes and cold starts of the binaries.
    Binaries,
    /// Waiting sessions: what they use.
    ManyIdle,
    /// Waiting sessions: how soon one wakes.
    ManyWakes,
    /// Searching with a warm cache.
    SearchWarm,
    /// Searching with a cold one.
    SearchCold,
    /// Starting a program in the sandbox.
    Launch,
    /// A ledger of a million entries.
    LargeLedger,
    /// Changing a file, alone.
    WritesAlone,
    /// Changing files, side by side.
    WritesTogether,
    /// Changing a file, alone, where each fsync takes longer.
    SlowWritesAlone,
    /// The same, side by side.
    SlowWritesTogether,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::FirstTurn,
        Self::Turns,
        Self::TurnsWay,
        Self::Calls,
        Self::Memory,
        Self::Binaries,
        Self::ManyIdle,
        Self::ManyWakes,
        Self::SearchWarm,
        Self::SearchCold,
        Self::Launch,
        Self::LargeLedger,
        Self::WritesAlone,
        Self::WritesTogether,
        Self::SlowWritesAlone,
        Self::SlowWritesTogether,
    ];

    /// The name in markers and of files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstTurn => "first-turn",
            Self::Turns => "turns",
            Self::TurnsWay => "turns-way",
            Self::Calls => "calls",
            Self::Memory => "memory",
            Self::Binaries => "binaries",
            Self::ManyIdle => "many-idle",
            Self::ManyWakes => "many-wakes",
            Self::SearchWarm => "search-warm",
            Self::SearchCold => "search-cold",
            Self::Launch => "launch",
            Self::LargeLedger => "large-ledger",
            Self::WritesAlone => "writes-alone",
            Self::WritesTogether => "writes-together",
            Self::SlowWritesAlone => "slow-writes-alone",
            Self::SlowWritesTogether => "slow-writes-together",
        }
    }

    /// The place of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.as_str() == name)
    }
}
