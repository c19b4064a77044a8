//! A directory to play in, and the tools over it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::cancel::Cancel;
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};
use executor_svc::tools::{self, CheckedInput, ReceiptBudget, ToolContext, ToolName};
use gatehouse_proto::ids::ToolCallId;
use serde_json::{Value, json};

/// `top/root` is a session's root, `top/home` a home directory.
pub struct World {
    pub _kept: tempfile::TempDir,
    pub top: PathBuf,
    pub root: PathBuf,
    pub home: PathBuf,
    pub files: Arc<SessionFiles>,
    pub cancel: Cancel,
    pub deadline: Duration,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world whose policy is changed by `configure`.
    pub fn with(configure: impl FnOnce(&mut FilePolicyConfig)) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let top = kept.path().canonicalize().unwrap();
        let (root, home) = (top.join("root"), top.join("home"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&home).unwrap();
        let mut config = FilePolicyConfig { homes: vec![home.clone()], ..FilePolicyConfig::default() };
        configure(&mut config);
        let files = session(config, &root);
        Self {
            _kept: kept,
            top,
            root,
            home,
            files,
            cancel: Cancel::default(),
            deadline: Duration::from_secs(60),
        }
    }

    /// Writes a file below the top, with its directories.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.top.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn perform(&self, name: ToolName, input: &Value) -> Value {
        self.perform_within(name, input, ReceiptBudget::MAX)
    }

    /// Performs a call, and checks what holds of every receipt.
    pub fn perform_within(&self, name: ToolName, input: &Value, budget: ReceiptBudget) -> Value {
        let checked = tools::check(name, input).unwrap_or_else(|fault| panic!("{fault}: {input}"));
        assert_eq!(
            tools::check(name, &checked.to_value()).as_ref(),
            Ok(&checked),
            "the input comes back unchanged"
        );
        let (cancel, deadline) = (self.cancel.clone(), Instant::now() + self.deadline);
        let context = ToolContext { files: Arc::clone(&self.files), cancel, deadline };
        let id = ToolCallId::mint();
        let CheckedInput::Reading(reading) = &checked else { panic!("{name} does not only look") };
        let receipt = tools::perform(reading, &context, budget, &id);
        assert!(receipt.json.len() <= budget.bytes(), "{} bytes", receipt.json.len());
        let value: Value = serde_json::from_str(&receipt.json).unwrap();
        assert_eq!(value["tool_call_id"], id.as_str());
        assert_eq!(value["name"], name.as_str());
        assert_eq!(value["ok"], receipt.ok);
        assert_eq!(value["code"].as_str(), receipt.code.map(executor_code));
        assert_eq!(value.to_string(), receipt.json, "compact JSON");
        value
    }

    pub fn read(&self, path: impl AsRef<Path>) -> Value {
        self.perform(ToolName::Read, &json!({"file_path": path.as_ref()}))
    }

    /// The code with which reading is refused.
    pub fn refusal(&self, path: impl AsRef<Path>) -> String {
        let receipt = self.read(&path);
        assert_eq!(receipt["ok"], false, "{} was read: {receipt}", path.as_ref().display());
        assert!(receipt.get("content").is_none());
        receipt["code"].as_str().unwrap().to_owned()
    }

    pub fn find(&self, input: &Value) -> Value {
        self.perform(ToolName::FindFiles, input)
    }

    pub fn search(&self, input: &Value) -> Value {
        self.perform(ToolName::SearchText, input)
    }
}

fn executor_code(code: gatehouse_proto::codes::ActionCode) -> &'static str {
    code.as_str()
}

pub fn session(config: FilePolicyConfig, root: &Path) -> Arc<SessionFiles> {
    let policy = Arc::new(FilePolicy::new(config).unwrap());
    let root = canonical_root(root, Profile::ReadOnly, &policy).unwrap();
    Arc::new(SessionFiles::new(root, policy))
}

/// The paths of an answer, below the top.
pub fn paths(answer: &Value, top: &Path) -> Vec<String> {
    let items = answer["entries"].as_array().or_else(|| answer["matches"].as_array()).unwrap();
    let below = |item: &Value| {
        let path = Path::new(item["path"].as_str().unwrap());
        path.strip_prefix(top).unwrap().to_str().unwrap().to_owned()
    };
    items.iter().map(below).collect()
}
