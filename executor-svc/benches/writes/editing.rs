//! Whole edits through the executor's engine: what the services of the executor do, without the sockets before them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use executor_svc::action::{Actions, Invocation};
use executor_svc::clock::SystemClock;
use executor_svc::commands::Commands;
use executor_svc::config::{Overrides, Settings};
use executor_svc::content::ContentStore;
use executor_svc::engine::{Engine, Once, Order, Parts, RecoverySecret};
use executor_svc::files::replace::{ReplaceOptions, Replacer};
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile};
use executor_svc::ledger;
use executor_svc::session::{
    Answer, CallRequest, Command, NewSession, RootBinding, SubagentPolicy, TurnAsk, TurnKey, TurnStanding,
};
use gatehouse_proto::digest::{canonical_json, digest};
use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, ToolCallId, TurnId};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// An executor.
pub struct House {
    engine: Engine,
    actions: Actions,
    _orders: UnboundedReceiver<Order>,
}

impl House {
    pub fn open(top: &Path) -> Self {
        let state = top.join("state");
        std::fs::create_dir_all(&state).unwrap();
        let config = top.join("config.toml");
        std::fs::write(&config, "[limits]\nlive_sessions = 100\n").unwrap();
        let settings = Settings::load(&Overrides {
            config: Some(config),
            state_dir: Some(state.clone()),
            runtime_dir: Some(top.join("run")),
            environment: [("HOME".into(), top.join("home").into())].into(),
        })
        .unwrap();
        let own_dirs = vec![settings.state_dir.clone(), settings.runtime_dir.clone()];
        let policy = FilePolicy::new(FilePolicyConfig { own_dirs, ..FilePolicyConfig::default() }).unwrap();
        let (orders, _orders) = unbounded_channel();
        let parts = Parts {
            ledger: ledger::open(&state).unwrap(),
            secret: RecoverySecret::load(&state).unwrap(),
            policy: Arc::new(policy),
            settings,
            orders,
        };
        let engine = Engine::new(parts, Arc::new(SystemClock::start()));
        let commands =
            Commands::new(engine.settings().commands.clone(), engine.policy().clone(), None).unwrap();
        let content =
            ContentStore::open(&state.join("content"), 1 << 40).unwrap().with_ledger(engine.ledger_readers());
        let actions =
            Actions::new(engine.clone(), commands, Replacer::new(ReplaceOptions::default()), content);
        Self { engine, actions, _orders }
    }

    /// A session that writes in the folder of this file.
    pub async fn session(&self, file: &Path) -> Editing {
        let folder = file.parent().unwrap().to_owned();
        let found = folder.metadata().unwrap();
        let (id, lease, run) = (SessionId::mint(), LeaseId::mint(), RunId::mint());
        let new = NewSession {
            id: id.clone(),
            label: None,
            profile: Profile::DirectWrite,
            subagents: SubagentPolicy::None,
            root: RootBinding { path: folder.clone(), device: found.dev(), inode: found.ino() },
            isolation: None,
            source_directory: folder,
            claude_session_id: "bench".to_owned(),
            lease_id: lease.clone(),
            lease_ttl: Duration::from_secs(3600),
            recovery_hash: String::new(),
            run_id: run.clone(),
            prompt: "Edit.".to_owned(),
            skills: Vec::new(),
        };
        let once = once("start", id.as_str(), "new", Some(lease.clone()));
        self.engine.create(new, once).await.unwrap();
        let (engine, actions, file) = (self.engine.clone(), self.actions.clone(), file.to_owned());
        Editing { engine, actions, id, lease, run, file, turn: None, call: None, edits: 0 }
    }
}

fn once(scope: &str, key: &str, content: &str, mints: Option<LeaseId>) -> Once {
    let key = RequestKey::try_from(key.to_owned()).unwrap();
    Once { scope: scope.to_owned(), key, content_hash: content.to_owned(), mints }
}

/// A session that edits its file again and again.
pub struct Editing {
    engine: Engine,
    actions: Actions,
    id: SessionId,
    lease: LeaseId,
    run: RunId,
    file: PathBuf,
    turn: Option<TurnId>,
    call: Option<ToolCallId>,
    edits: usize,
}

impl Editing {
    /// What Claude Code asks: the first time with the prompt, then with the result of the call.
    pub async fn open_turn(&mut self) {
        let key = match self.call.take() {
            None => TurnKey::First,
            Some(call) => TurnKey::Results(BTreeSet::from([call])),
        };
        let (run_id, turn_id) = (self.run.clone(), TurnId::mint());
        let marker = (key == TurnKey::First).then_some(1);
        let opened = self.engine.submit(&self.id, None, move |_, _| {
            Ok(Command::OpenTurn(TurnAsk {
                run_id,
                epoch: 1,
                turn_id,
                key: Ok(key),
                marker,
                known: None,
                seen: Vec::new(),
                request_hash: String::new(),
                performing: Vec::new(),
            }))
        });
        let Answer::Turn(turn) = opened.await.unwrap().answer else { panic!("a turn") };
        self.turn = Some(turn);
    }

    /// A reply with one Edit, and Claude Code's call of it.
    pub async fn edit(&mut self) {
        // Read beforehand, as whoever edits a file has.
        let old = std::fs::read_to_string(&self.file).unwrap();
        let (old, _) = old.split_once('\n').unwrap();
        let new = super::content();
        let (new, _) = new.split_once('\n').unwrap();
        let input =
            json!({ "file_path": self.file, "old_string": old, "new_string": new, "replace_all": false });
        let (call, input_sha256) = (ToolCallId::mint(), digest(&input));
        let request = CallRequest {
            id: call.clone(),
            name: "Edit".to_owned(),
            client_id: None,
            input: canonical_json(&input),
            input_sha256: input_sha256.clone(),
        };
        self.edits += 1;
        let once = once(&format!("reply {}", self.id), &format!("r{}", self.edits), "edit", None);
        let (lease, turn_id, reply_id) = (self.lease.clone(), self.turn.take().unwrap(), once.key.clone());
        let authorised = self.engine.submit(&self.id, Some(once), move |_, claim| {
            Ok(Command::Reply {
                lease,
                claim,
                reply_id,
                turn_id,
                turn: Some(TurnStanding::Pending),
                text: String::new(),
                calls: Ok(vec![request]),
            })
        });
        authorised.await.unwrap();
        let invocation = Invocation {
            session: self.id.clone(),
            run: self.run.clone(),
            epoch: 1,
            id: call.clone(),
            name: "Edit".to_owned(),
            input_sha256,
        };
        let result = self.actions.invoke(invocation).await.unwrap();
        assert!(result.ok, "{}", result.text);
        self.call = Some(call);
    }
}
