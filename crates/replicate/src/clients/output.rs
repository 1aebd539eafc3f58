//! What the copy sends to the clients: at once, or when it was compared (C7).

use super::{Clients, OUTPUT_BYTES_MAX, Reading};
use crate::bugs::Bug;
use crate::feeder::Audience;
use crate::hash::Taken;
use crate::held::{Fate, HeldFigures, Part};
use crate::verdict::Judge;
use base::Instant;
use engine::Desk;
use engine::streams::Streams;
use proto::planted::Planting;

impl<B: Planting<Bug>> Clients<B> {
    /// Frees what was held, as far as the verdicts go (C7), and closes the clients whose answers
    /// never leave. Returns whether there was any.
    pub fn release(&mut self, judge: &Judge<B>, now: Instant) -> bool {
        let mut worked = false;
        self.held.look(now);
        while let Some((fate, parts)) = self.held.next(judge, now) {
            worked = true;
            for (number, Part { end, is_last }) in parts {
                let Some(client) = self.clients.get_mut(&number) else { continue };
                if client.output.is_refused() {
                    continue; // O3: it is closed when the desk has room for that
                }
                if fate == Fate::Refused {
                    self.to_abort.insert(number);
                    if !self.planted.has(Bug::RefusedStays) {
                        self.held.forget(client.output.refuse());
                    }
                    continue;
                }
                let all = self.planted.has(Bug::LaterBytesLeave);
                let n_more = client.output.free(if all { client.output.end() } else { end });
                self.held.forget(n_more);
                client.is_over |= is_last;
                self.dirty.insert(number);
            }
        }
        worked
    }

    /// Whether so much is held that no client is read.
    pub fn holds_much(&self) -> bool {
        self.held.is_full()
    }

    /// The figures of what is held.
    pub fn held(&self) -> HeldFigures {
        self.held.figures()
    }

    /// Whether what is held is to be compared, if no entry comes (O6 of `held`).
    pub(crate) fn wants_point(&self, now: Instant) -> bool {
        self.held.wants_point(now)
    }

    /// The time at which what is held longest is refused, or wants a point.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.held.deadline(now)
    }

    /// Sends output.
    pub fn flush<S: Streams>(&mut self, streams: &mut S, desk: &mut Desk) {
        for number in std::mem::take(&mut self.dirty) {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let written = streams.write(client.key, client.output.to_send());
            let Ok(n) = written else {
                self.leave(number, streams, desk);
                continue;
            };
            client.output.sent(n, OUTPUT_BYTES_MAX / 64);
            let drops_rest = self.planted.has(Bug::EndOvertakes);
            let has_left = drops_rest && client.output.to_send().is_empty();
            if client.is_over && (has_left || client.output.n_unsent() == 0) {
                self.leave(number, streams, desk);
                continue;
            } else if client.output.n_unsent() > OUTPUT_BYTES_MAX {
                self.to_abort.insert(number); // C2
                continue;
            }
            self.watch(number, streams);
        }
    }
}

impl<B: Planting<Bug>> Audience for Clients<B> {
    fn output(&mut self, number: u64, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if client.output.is_refused() {
            return; // O3
        }
        client.output.push(bytes);
        client.scanner.iter_mut().for_each(|scanner| scanner.hear(bytes));
        let end = client.output.end();
        if self.held.is_on() {
            self.held.push(number, bytes.len(), end); // C7
            if client.output.n_unsent() > OUTPUT_BYTES_MAX {
                self.to_abort.insert(number); // C2
            }
        } else {
            client.output.free(end);
            self.dirty.insert(number);
        }
    }

    fn pass_point(&mut self, taken: Taken, now: Instant) {
        if self.held.is_on() {
            self.held.pass_point(taken, now);
        }
    }

    fn has_read(&mut self, number: u64) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.reading = Reading::Nothing;
        }
    }

    /// As C3.
    fn cut_off(&mut self, number: u64) {
        if self.clients.contains_key(&number) {
            self.to_abort.insert(number);
        }
    }

    fn ended(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if self.held.is_on() && !self.planted.has(Bug::EndOvertakes) {
            self.held.end(number, client.output.end()); // C7
        } else {
            client.is_over = true;
            self.dirty.insert(number);
        }
    }
}
