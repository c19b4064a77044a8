//! The command line and the environment, as far as the shim gives them.

use std::path::PathBuf;

use serde_json::Value;

/// What a run is started with.
#[derive(Debug, Default)]
pub struct Arguments {
    /// `--session-id` or `--resume`.
    pub session_id: String,
    /// `--allowedTools`.
    pub tools: Vec<String>,
    /// `--model`.
    pub model: String,
    /// `--permission-mode`.
    pub permission_mode: String,
    /// Where model turns go: the port on loopback.
    pub model_port: u16,
    /// What they carry.
    pub api_key: String,
    /// Where tool calls go.
    pub tools_port: u16,
    /// What they carry.
    pub authorization: String,
    /// Where the transcript lies.
    pub transcript: PathBuf,
}

impl Arguments {
    /// Reads them.
    pub fn of(words: &[String]) -> Result<Self, String> {
        let mut own = Self::default();
        let mut words = words.iter().peekable();
        let mut config = String::new();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().unwrap_or_default();
            match word.as_str() {
                "--session-id" | "--resume" => own.session_id = value(),
                "--model" => own.model = value(),
                "--permission-mode" => own.permission_mode = value(),
                "--mcp-config" => config = value(),
                "--allowedTools" => {
                    while let Some(tool) = words.next_if(|word| !word.starts_with("--")) {
                        own.tools.push(tool.clone());
                    }
                }
                _ => {}
            }
        }
        own.server(&config)?;
        own.environment()?;
        Ok(own)
    }

    fn server(&mut self, config: &str) -> Result<(), String> {
        let text = std::fs::read_to_string(config).map_err(|error| format!("{config}: {error}"))?;
        let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let server = &json["mcpServers"]["gatehouse"];
        self.tools_port = port(server["url"].as_str().unwrap_or_default())?;
        server["headers"]["Authorization"].as_str().unwrap_or_default().clone_into(&mut self.authorization);
        Ok(())
    }

    fn environment(&mut self) -> Result<(), String> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        self.model_port = port(&variable("ANTHROPIC_BASE_URL")?)?;
        self.api_key = variable("ANTHROPIC_API_KEY")?;
        let folder = PathBuf::from(variable("CLAUDE_CONFIG_DIR")?).join("projects/stand-in");
        self.transcript = folder.join(format!("{}.jsonl", self.session_id));
        Ok(())
    }
}

/// `http://127.0.0.1:PORT/…`
fn port(url: &str) -> Result<u16, String> {
    let digits: String = url
        .rsplit_once(':')
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect())
        .unwrap_or_default();
    digits.parse().map_err(|_| format!("no port in {url:?}"))
}
