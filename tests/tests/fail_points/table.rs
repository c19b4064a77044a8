//! Which instants there are, and what must hold after a crash at each.

use super::life::Seen;

/// One instant.
pub struct Row {
    /// Its name, and which visit to it is meant.
    pub at: &'static str,
    /// What must hold, in a sentence.
    pub holds: &'static str,
    /// The same as a check; what holds after every crash is checked in any case.
    pub check: fn(&Seen),
}

impl Row {
    /// The name without the visit.
    pub fn point(&self) -> &'static str {
        self.at.split(':').next().unwrap_or_default()
    }
}

const fn row(at: &'static str, holds: &'static str, check: fn(&Seen)) -> Row {
    Row { at, holds, check }
}

fn nothing_more(_: &Seen) {}

/// The actions in order: a read, a write, a command. Every session has all of them.
pub const ROWS: &[Row] = &[
    row("start.before_commit", "there is no session; the same start makes one", |seen| {
        assert!(!seen.replayed("start"));
    }),
    row("start.after_commit", "the session is there; the same start gives it", |seen| {
        assert!(seen.replayed("start"));
    }),
    row("launch.link_noted", "nothing was launched; the run is launched again", nothing_more),
    row("launch.spawned", "a shim without a token ends by itself; the run is launched again", nothing_more),
    row(
        "launch.process_noted",
        "a shim without a token ends by itself; the run is known to be gone, and continue goes on",
        nothing_more,
    ),
    row("launch.token_given", "the shim finds the next executor", |seen| assert_eq!(seen.continued, 1)),
    row("attach.before_commit", "the shim says it again", |seen| assert_eq!(seen.continued, 1)),
    row("attach.after_commit", "the shim says it again", |seen| assert_eq!(seen.continued, 1)),
    row("turn.before_commit", "there is no turn; the same request opens one", |seen| {
        assert_eq!(seen.continued, 1);
    }),
    row("turn.after_commit", "the same request joins the turn", |seen| assert_eq!(seen.continued, 1)),
    row("reply.before_commit", "the turn is still pending; the same reply is taken", |seen| {
        assert!(!seen.replayed("read"));
    }),
    row("reply.after_commit", "the reply is taken; the same one is a replay", |seen| {
        assert!(seen.replayed("read"));
    }),
    row("reply.after_commit:4", "a final answer that nobody was told of is told, and ends the run", |seen| {
        assert!(seen.replayed("answer"));
    }),
    row("action.begun", "a read is performed when it is asked for again", |seen| assert!(seen.ok("read"))),
    row("action.begun:2", "a write that was not prepared is made when it is asked for again", |seen| {
        assert!(seen.ok("write"));
    }),
    row("action.begun:3", "so is a command", |seen| assert!(seen.ok("command") && seen.commands == 1)),
    row(
        "prepared.before_commit",
        "a write that was not prepared is made when it is asked for again",
        |seen| assert!(seen.ok("write")),
    ),
    row("prepared.after_commit", "a write that was prepared and not made is told as not made", |seen| {
        assert_eq!(seen.code("write"), Some("cancelled"));
    }),
    row(
        "prepared.before_commit:2",
        "a command that was not prepared is run when it is asked for again",
        |seen| {
            assert!(seen.ok("command") && seen.commands == 1);
        },
    ),
    row("prepared.after_commit:2", "a command that was prepared is never begun again", |seen| {
        assert_eq!((seen.code("command"), seen.commands), (Some("cancelled"), 0));
    }),
    row("action.performed", "a read without a receipt is performed again", |seen| assert!(seen.ok("read"))),
    row("action.performed:2", "a write that was made gets its receipt, and is not made again", |seen| {
        assert!(seen.ok("write"));
    }),
    row("action.performed:3", "a command that was run is told as cut off, and is not run again", |seen| {
        assert_eq!((seen.code("command"), seen.commands), (Some("cancelled"), 1));
    }),
    row("receipt.before_commit:2", "a write that was made gets its receipt, and is not made again", |seen| {
        assert!(seen.ok("write"));
    }),
    row("receipt.after_commit:2", "the receipt stays", |seen| assert!(seen.ok("write"))),
    row("receipt.after_commit:3", "the receipt stays, and the command is not run again", |seen| {
        assert!(seen.ok("command") && seen.commands == 1);
    }),
    row(
        "lease.before_commit",
        "the old lease is the current one until the same recovery is asked for again",
        |seen| {
            assert!(!seen.replayed("recover"));
        },
    ),
    row("lease.after_commit", "the same recovery gives the lease that it minted", |seen| {
        assert!(seen.replayed("recover"));
    }),
    row("end.before_commit", "the shim says again that the run is over", nothing_more),
    row("end.after_commit", "the run is over, with its answer", nothing_more),
    row("continue.before_commit", "there is no further run; the same continue makes one", |seen| {
        assert!(!seen.replayed("continue"));
    }),
    row(
        "continue.after_commit",
        "the run is there, and is launched; the same continue is a replay",
        |seen| {
            assert!(seen.replayed("continue"));
        },
    ),
    row("stop.before_commit", "nothing was stopped; the same stop is taken", |seen| {
        assert!(!seen.replayed("stop"));
    }),
    row("stop.after_commit", "the next executor ends the process", |seen| assert!(seen.replayed("stop"))),
    row("end.asked", "the next executor sees the process out", |seen| assert!(seen.replayed("stop"))),
    row("end.seen:2", "the next executor finds the process gone, and says stopped", |seen| {
        assert!(seen.replayed("stop"));
    }),
    row("stopped.before_commit", "the next executor says stopped", |seen| assert!(seen.replayed("stop"))),
    row("stopped.after_commit", "the session is stopped, and the same stop says so", |seen| {
        assert!(seen.replayed("stop"));
    }),
];
