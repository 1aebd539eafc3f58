//! INFO, which reports the writes before it on its connection.
//!
//! A write is answered when it is decided. A follower may learn that before it has executed the
//! write. So INFO waits for the execution, at most [`WAIT_MAX`]: a member that hears no other
//! member still reports its status.

use super::RespClients;
use crate::connection::RequestId;
use crate::door::outside::{Facts, Figures, Outside};
use crate::door::state::{Holding, Holds};
use base::{Instant, Prefix};
use core::time::Duration;
use engine::Desk;

/// The longest that INFO waits.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// An INFO without an answer. A connection has at most one.
#[derive(Debug)]
pub(super) struct Inquiry {
    key: u64,
    id: RequestId,
    sections: Vec<String>,
    /// The prefix that covers the writes of its connection.
    after: Prefix,
    until: Instant,
}

impl<O: Outside> RespClients<O> {
    /// Answers INFO now, or when the writes before it are executed here.
    pub(super) fn inform(
        &mut self,
        key: u64,
        id: RequestId,
        sections: Vec<String>,
        after: Prefix,
        state: &impl Holds,
        desk: &Desk,
    ) {
        let until = desk.now().plus(WAIT_MAX);
        let inquiry = Inquiry { key, id, sections, after, until };
        if inquiry.is_due(desk) {
            self.answer_info(&inquiry, state, desk);
        } else {
            self.inquiries.push(inquiry);
        }
    }

    /// Answers the INFO requests that have waited.
    pub(super) fn inform_late(&mut self, state: &impl Holds, desk: &Desk) {
        let due: Vec<Inquiry> =
            self.inquiries.extract_if(.., |inquiry| inquiry.is_due(desk)).collect();
        for inquiry in due {
            let key = inquiry.key;
            self.answer_info(&inquiry, state, desk);
            self.mark_dirty(key);
            self.mark_runnable(key);
        }
    }

    fn answer_info(&mut self, inquiry: &Inquiry, state: &impl Holds, desk: &Desk) {
        let Holding { keys, memory_bytes, databases, changes } = state.holding();
        let figures = Figures { keys, memory_bytes, ..self.figures() };
        let facts = Facts {
            view: *desk.view(),
            figures,
            databases,
            changes,
            counts: &self.shared.counts,
            more: state.describe(),
        };
        let sections: Vec<&str> = inquiry.sections.iter().map(String::as_str).collect();
        let text = self.outside.info(&facts, &sections);
        if let Some(client) = self.client(inquiry.key) {
            client.connection.answer_text(inquiry.id, &text);
        }
    }
}

impl Inquiry {
    fn is_due(&self, desk: &Desk) -> bool {
        desk.view().applied >= self.after || desk.now() >= self.until
    }
}
