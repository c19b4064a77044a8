//! What the main session does with subagents: starts one, looks at it, ends it.
//!
//! None of it is ever prepared. A start is durable together with its receipt, in one commit; looking and stopping may be
//! done again as often as the shim asks.

use std::time::Duration;

use gatehouse_proto::ids::{RunId, SessionId, SubagentId};

use super::{Actions, Open, blocking};
use crate::config::DeepseekSettings;
use crate::credential::Credential;
use crate::engine::{Fault, Flight};
use crate::ledger::subagents::{self, SubagentRow};
use crate::session::{Command, Receipt, Refusal, Session, SubagentLimits, SubagentStart};
use crate::tools::SubagentInput;
use crate::tools::subagent::{LISTED_DEEDS, StartInput, SubagentReceipts};

/// How long a stop waits until the subagent is seen to be gone.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

impl Actions {
    pub(super) async fn subagent(
        &self,
        open: Open,
        input: SubagentInput,
        flight: &Flight,
    ) -> Result<(), Fault> {
        let receipts = SubagentReceipts { id: &open.id, budget: open.budget(), input: &input };
        let receipt = match &input {
            SubagentInput::Start(start) => match self.start_subagent(&open, start, receipts).await? {
                Some(refused) => refused,
                None => return Ok(()),
            },
            SubagentInput::Get(get) => {
                let wait = Duration::from_secs(get.wait_seconds.unwrap_or(0));
                let wait = wait.min(self.engine.settings().limits.max_wait);
                if !self.see_it_out(&open.session.id, &get.subsession_id, wait, flight).await? {
                    // The receipt that says so was written by whoever cancelled it.
                    return Ok(());
                }
                self.looked(&open.session.id, &get.subsession_id, receipts).await?
            }
            SubagentInput::Stop(stop) => {
                if let Ok(id) = stop.subsession_id.parse::<SubagentId>() {
                    let why = "it was stopped by deepseek_subagent_stop".to_owned();
                    let ask = move |_: &_, _| Ok(Command::StopSubagent { id, why });
                    self.engine.submit(&open.session.id, None, ask).await?;
                }
                if !self.see_it_out(&open.session.id, &stop.subsession_id, STOP_PATIENCE, flight).await? {
                    return Ok(());
                }
                let row = self.row(&open.session.id, &stop.subsession_id).await?;
                row.map_or_else(|| receipts.unknown(), |row| receipts.stopped(&row))
            }
        };
        self.settle(&open.session.id, open.id.clone(), receipt).await
    }

    /// Makes the subagent durable, with the action's receipt. Gives a receipt if it cannot be begun.
    async fn start_subagent(
        &self,
        open: &Open,
        input: &StartInput,
        receipts: SubagentReceipts<'_>,
    ) -> Result<Option<Receipt>, Fault> {
        let Some(settings) = &self.engine.settings().deepseek else {
            return Ok(Some(receipts.switched_off("the DeepSeek subagent is switched off")));
        };
        let path = settings.credential_file.clone();
        let readable = blocking(move || Credential::read(&path).map(drop)).await?;
        if let Err(error) = readable {
            return Ok(Some(receipts.switched_off(&error.to_string())));
        }
        let id = SubagentId::mint();
        let route = &settings.model(input.grade.route()).name;
        let start = SubagentStart {
            receipt: receipts.started(id.as_str(), route),
            id,
            action: open.id.clone(),
            run_id: RunId::mint(),
            claude_session_id: uuid::Uuid::new_v4().to_string(),
            grade: input.grade,
            prompt: input.prompt.clone(),
            deadline: self.engine.now().after(settings.time),
            limits: limits(settings),
        };
        let start = Box::new(start);
        match self.engine.submit(&open.session.id, None, move |_, _| Ok(Command::StartSubagent(start))).await
        {
            // A stop or an expiry came first and left a receipt that says so.
            Ok(_) | Err(Fault::Refused(Refusal::NotAuthorised)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Waits until the subagent is not active any more, or for as long as that; `false` if the action itself was ended
    /// meanwhile.
    async fn see_it_out(
        &self,
        session: &SessionId,
        id: &str,
        wait: Duration,
        flight: &Flight,
    ) -> Result<bool, Fault> {
        let over = |s: &Session| s.subagent.as_ref().is_none_or(|subagent| subagent.id.as_str() != id);
        let cancel = flight.cancel();
        tokio::select! {
            seen = self.engine.wait_until(session, wait, over) => seen.map(|_| true),
            () = cancel.cancelled() => Ok(false),
        }
    }

    async fn row(&self, session: &SessionId, id: &str) -> Result<Option<SubagentRow>, Fault> {
        let (session, id) = (session.clone(), id.to_owned());
        Ok(self.engine.read(move |connection| subagents::load(connection, &session, &id)).await?)
    }

    async fn looked(
        &self,
        session: &SessionId,
        id: &str,
        receipts: SubagentReceipts<'_>,
    ) -> Result<Receipt, Fault> {
        let (wanted, of) = (id.to_owned(), session.clone());
        let found = self.engine.read(move |connection| {
            let row = subagents::load(connection, &of, &wanted)?;
            Ok((row, subagents::deeds(connection, &wanted, LISTED_DEEDS)?))
        });
        let (row, deeds) = found.await?;
        Ok(row
            .map_or_else(|| receipts.unknown(), |row| receipts.looked(&row, &self.route(&row.grade), &deeds)))
    }

    /// The model name that a grade is asked for under.
    fn route(&self, grade: &str) -> String {
        let grade = crate::session::Grade::ALL.into_iter().find(|one| one.as_str() == grade);
        match (grade, &self.engine.settings().deepseek) {
            (Some(grade), Some(settings)) => settings.model(grade.route()).name.clone(),
            _ => String::new(),
        }
    }
}

const fn limits(settings: &DeepseekSettings) -> SubagentLimits {
    SubagentLimits { turns: settings.turns, output_tokens: settings.output_tokens }
}
