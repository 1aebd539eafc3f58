//! The dispatch of messages, syncs and deadlines.

use super::*;

impl<P: Planting<Bug>> Durable<P> {
    /// Performs the work that depends on what is durable.
    pub(super) fn after_sync<H: Host>(&mut self, host: &mut H) {
        self.free(host);
        self.pay_votes(host);
        self.advance(host);
        self.acknowledge(host);
    }

    pub(super) fn on_message<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        match message {
            Message::RequestVote { ballot, incarnation, last, end } => {
                self.on_request_vote((from, incarnation), ballot, (last, end), host);
            }
            Message::Vote { ballot, incarnation, candidate } => {
                self.on_vote((from, incarnation), ballot, candidate, host);
            }
            Message::Denied { ballot, promised, older } => {
                self.on_denied(from, ballot, promised, older, host);
            }
            Message::Promising { ballot, candidate } => self.on_promising(ballot, candidate),
            Message::Begin(begin) => self.on_begin(from, begin, host),
            Message::Ready { ballot, stream, verified, incarnation } => {
                self.on_ready(from, (ballot, stream), verified, incarnation, host);
            }
            Message::Behind { ballot, start } => self.on_behind(ballot, start, host),
            Message::Check { ballot, stream, written } => {
                self.on_check(from, (ballot, stream), written, host);
            }
            Message::Astray { ballot, stream } => self.on_astray(from, (ballot, stream), host),
        }
    }

    pub(super) fn on_nudge<H: Host>(&mut self, host: &mut H) {
        self.repeat_requests(host);
        self.mind_stalled_streams(host);
        self.repeat_probes(host);
        self.ask_for_state(host);
    }
}
