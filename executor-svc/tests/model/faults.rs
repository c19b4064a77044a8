//! Ways to be wrong, each of which the checker has to find.

/// What is wrong with a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Whoever asks has the current lease.
    ChecksNoLease,
    /// Every id of a caller's is new.
    ForgetsIds,
    /// A turn takes further replies.
    AnswersTwice,
    /// After a crash, what was prepared is done once more.
    PerformsAgain,
    /// The effect comes before the intent is durable.
    PerformsFirst,
    /// After a crash, what was prepared counts as not done, without a look.
    GuessesAfterACrash,
    /// The process of a run that is closed is not ended.
    ForgetsTheProcess,
    /// A new executor does not go on with the ends that the old one had begun.
    ForgetsOrders,
    /// A former launch passes for the present one.
    TakesOldLaunches,
    /// A run is closed, and its pending turn is not.
    LeavesTurnsOpen,
    /// The second receipt of an action replaces the first.
    SettlesAgain,
    /// What the session may do beside a subagent is not looked at.
    ForgetsTheLock,
    /// A subagent is started although one is active.
    StartsAnother,
    /// Of a reply's calls only the first is looked at.
    LooksAtOneCall,
    /// A subagent counts as over before its process is seen to be gone.
    ForgetsItsProcess,
    /// A launch is carried out although its run is over.
    LaunchesTheDead,
    /// A new executor does nothing for the subagent that it finds.
    ForgetsTheSubagent,
    /// The sub-session hears of an answer before it is committed.
    ReleasesFirst,
    /// The provider is asked, and that is not counted.
    AsksUncounted,
}
