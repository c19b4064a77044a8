//! Everything that the operator service and the command line can tell, put on record for the scan.

use gatehouse::operator::Operator;
use gatehouse_proto::v1::{
    GetSessionRequest, HealthRequest, ListActionsRequest, ListSessionsRequest, WatchEventsRequest,
};

use super::Gateway;
use crate::record::Way;
use crate::waiting::PATIENCE;

impl Gateway {
    /// Reads the whole journal as the operator may follow it.
    async fn record_events(&self, operator: &mut Operator) {
        let last =
            operator.health(HealthRequest {}).await.expect("the executor answers").into_inner().journal_seq;
        let request = WatchEventsRequest { from_seq: Some(0), native_session_id: None };
        let mut events = operator.watch_events(request).await.expect("events are told").into_inner();
        let mut seen = 0;
        while seen < last {
            let event =
                tokio::time::timeout(PATIENCE, events.message()).await.expect("no event for a minute");
            let event = event.expect("the stream holds").expect("it has no end");
            seen = event.seq;
            self.record.add(Way::Operator, format!("{} {}", event.kind, event.native_session_id));
            self.record.add(Way::Operator, event.body_json);
        }
    }

    /// Asks the operator service for everything it can tell, so that the scan sees it.
    pub(super) async fn record_operator(&self) {
        let mut operator = self.operator();
        self.record_events(&mut operator).await;
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
        }
        self.cli(&["sessions", "--all"]);
        self.cli(&["sessions", "--all", "--json"]);
    }
}
