//! Everything that the operator service and the command line can tell, put on record for the scan.

use gatehouse::operator::Operator;
use gatehouse_proto::v1::{
    Event, GetSessionRequest, HealthRequest, ListActionsRequest, ListSessionsRequest, WatchEventsRequest,
};

use super::Gateway;
use crate::record::Way;
use crate::waiting::PATIENCE;

impl Gateway {
    /// The whole journal as the operator may follow it.
    ///
    /// # Panics
    /// When the executor does not tell it.
    pub async fn journal(&self) -> Vec<Event> {
        self.events(&mut self.operator()).await
    }

    async fn events(&self, operator: &mut Operator) -> Vec<Event> {
        let last =
            operator.health(HealthRequest {}).await.expect("the executor answers").into_inner().journal_seq;
        let request = WatchEventsRequest { from_seq: Some(0), native_session_id: None };
        let mut events = operator.watch_events(request).await.expect("events are told").into_inner();
        let mut seen: Vec<Event> = Vec::new();
        while seen.last().map_or(0, |event| event.seq) < last {
            let event =
                tokio::time::timeout(PATIENCE, events.message()).await.expect("no event for a minute");
            seen.push(event.expect("the stream holds").expect("it has no end"));
        }
        seen
    }

    /// Asks the operator service for everything it can tell, so that the scan sees it.
    pub(super) async fn record_operator(&self) {
        let mut operator = self.operator();
        for event in self.events(&mut operator).await {
            self.record.add(Way::Operator, format!("{} {}", event.kind, event.native_session_id));
            self.record.add(Way::Operator, event.body_json);
        }
        let request = ListSessionsRequest { live_only: false, limit: 0, after: None };
        let sessions = operator.list_sessions(request).await.expect("sessions are listed").into_inner();
        self.record.add(Way::Operator, format!("{sessions:?}"));
        for session in sessions.sessions {
            let id = session.native_session_id;
            let one = operator.get_session(GetSessionRequest { native_session_id: id.clone() }).await;
            self.record.add(Way::Operator, format!("{:?}", one.expect("the session is shown").into_inner()));
            let actions = operator
                .list_actions(ListActionsRequest {
                    native_session_id: id.clone(),
                    ..ListActionsRequest::default()
                })
                .await;
            self.record
                .add(Way::Operator, format!("{:?}", actions.expect("actions are listed").into_inner()));
            self.cli(&["show", &id]);
            self.cli(&["show", &id, "--json"]);
            let report = self.cli(&["export", &id]);
            assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
        }
        self.cli(&["sessions", "--all"]);
        self.cli(&["sessions", "--all", "--json"]);
    }
}
