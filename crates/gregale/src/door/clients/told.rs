//! INFO: it tells of the writes before it on its connection.
//!
//! A write is answered when it is decided, which a follower may hear before it has executed the
//! write. So INFO waits for that, at most [`WAIT_MAX`]: a member that hears of no one tells how it
//! stands all the same.

use super::super::info::{self, Facts};
use super::Clients;
use crate::control::ServiceFigures;
use base::{Instant, Prefix};
use kv::connection::RequestId;
use kv::door::{Holding, Holds};
use runtime::Desk;
use std::time::Duration;

/// The longest that INFO waits.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// One INFO without an answer. A connection has at most one.
pub(super) struct Inquiry {
    key: u64,
    id: RequestId,
    sections: Vec<String>,
    /// Covers the writes of its connection.
    after: Prefix,
    until: Instant,
}

impl Clients {
    /// Answers INFO, now or when the writes before it are executed here.
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

    /// Answers those that have waited.
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
        let figures = ServiceFigures { keys, memory_bytes, ..self.figures() };
        let facts = Facts {
            config: &self.config,
            view: desk.view(),
            disk: self.disk.as_ref(),
            figures,
            databases,
            more: state.describe(),
            uptime_s: self.started.elapsed().as_secs(),
            counts: &self.shared.counts,
            changes,
        };
        let sections: Vec<&str> = inquiry.sections.iter().map(String::as_str).collect();
        let text = info::text(&facts, &sections);
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
