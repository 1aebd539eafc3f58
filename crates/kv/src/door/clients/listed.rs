//! Commands of one client about the others: CLIENT LIST, CLIENT KILL.

use super::{RespClients, mark};
use crate::connection::{self, RequestId};
use crate::door::outside::Outside;
use engine::Desk;

impl<O: Outside> RespClients<O> {
    pub(super) fn answer_clients(
        &mut self,
        key: u64,
        id: RequestId,
        filter: &connection::ClientFilter,
        desk: &Desk,
    ) {
        let listed = self.clients.iter().map(|(_, client)| &client.connection);
        let lines = listed.filter(|connection| filter.accepts(connection));
        let text: String = lines.map(|connection| connection.describe(desk.now()) + "\n").collect();
        if let Some(client) = self.client(key) {
            client.connection.answer_text(id, &text);
        }
    }

    /// Ends the clients that the filter accepts; they are closed when replies are sent.
    pub(super) fn kill(&mut self, key: u64, id: RequestId, filter: &connection::ClientFilter) {
        let mut n = 0;
        for (_, client) in &mut self.clients {
            if client.key != key && filter.accepts(&client.connection) {
                client.connection.kill();
                mark(&mut client.is_dirty, client.key, &mut self.dirty);
                n += 1;
            }
        }
        if let Some(client) = self.client(key) {
            client.connection.answer_kill(id, filter, n);
        }
    }
}
