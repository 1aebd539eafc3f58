//! Links that break and come back: I2, I4 and I5 of the network (`net`).

use crate::coverage::Mark;
use crate::link::{Action, Done, Result as Fate};
use crate::trace::Topic;
use crate::world::net::Net;
use base::{Event, Rank, SeatSet};

impl Net {
    pub(crate) fn hold(&mut self, wire: usize) {
        self.wires[wire].n_holds += 1;
    }

    pub(crate) fn release(&mut self, wire: usize) {
        let (from, to) = self.ends(wire);
        self.wires[wire].n_holds -= 1;
        if self.wires[wire].n_holds == 0 {
            self.kick(wire);
            self.kick(self.link_index(to, from));
        }
    }

    /// Breaks a link for its poster: the outcome of everything outstanding is unknown from now on.
    pub(crate) fn break_link(&mut self, index: usize) {
        let (from, to) = self.ends(index);
        let back = self.link_index(to, from);
        self.links[index].returning = false;
        self.links[index].early.clear();
        self.links[back].early.clear();
        if !self.links[index].up {
            return;
        }
        let strict = !self.weather.late_effects;
        if self.processes[from].alive {
            // Verbs that already took effect are as unknown as the rest, since nothing reported
            // them.
            let done = std::mem::take(&mut self.links[index].done);
            for lost in done {
                self.hand_over(index, Done { result: Fate::Unknown, ..lost });
            }
            let n_verbs = self.links[index].verbs.len();
            for position in 0..n_verbs {
                if let Some(token) = self.links[index].verbs[position].token {
                    self.hand_over(
                        index,
                        Done { token, result: Fate::Unknown, ready_at: 0, witness: 0 },
                    );
                }
            }
            self.processes[from].inbox.push(Event::LinkDown(Rank::at(to)));
            self.links[index].unheard = true;
            self.arm_run(from, self.now());
        }
        self.trace.record(self.queue.now(), from, Topic::LinkDown, to as u64, 0);
        self.coverage.hit(Mark::LinkBroke);
        let n_left = self.links[index].verbs.len() as u64;
        let survivors = if self.links[index].dead_end { 0 } else { self.rng.below(n_left + 1) };
        self.parcels.lose(from, to);
        let link = &mut self.links[index];
        link.orphan(survivors as usize);
        link.up = false;
        if strict {
            // T4 read strictly: after the report no verb takes effect.
            self.links[index].orphan(0);
        }
    }

    /// Whether a parcel is on its way over a link.
    pub(crate) fn brings_parcel(&self, index: usize) -> bool {
        self.links[index].verbs.iter().any(|verb| matches!(verb.action, Action::Parcel))
    }

    /// The links whose break is among the events that the loop of `node` takes.
    pub(crate) fn tells_of_breaks(&self, node: usize) -> SeatSet {
        let is_unheard = |to: &Rank| self.links[self.link_index(node, to.index())].unheard;
        Rank::all(self.members).filter(is_unheard).collect()
    }

    /// Notes that the loop of `node` has handled them: the links that are back meanwhile are up
    /// (I4).
    pub(crate) fn breaks_are_heard(&mut self, node: usize, heard: SeatSet) {
        for to in heard.iter() {
            let index = self.link_index(node, to.index());
            let link = &mut self.links[index];
            link.unheard = false;
            if std::mem::take(&mut link.returning) {
                self.coverage.hit(Mark::BackBeforeHeard);
                self.connect(index);
            }
        }
    }

    /// Connects the link, from now on, or as soon as its poster has handled its break; verbs from
    /// before stay lost (I2).
    pub(crate) fn connect(&mut self, index: usize) {
        let (from, to) = self.ends(index);
        let link = &mut self.links[index];
        if link.unheard {
            assert!(!link.up, "I4: a link that broke is down until that is heard");
            link.returning = true;
            return;
        }
        // Verbs that were posted while the link was down are reported before the link is up.
        let unknown = std::mem::take(&mut link.done);
        self.parcels.lose(from, to);
        link.clear();
        link.up = true;
        link.last_arrival = 0;
        link.last_done = 0;
        self.introduced.connect(index);
        for done in unknown {
            self.hand_over(index, done);
        }
        self.trace.record(self.queue.now(), from, Topic::LinkUp, to as u64, 0);
        if from != to {
            self.processes[from].inbox.push(Event::LinkUp(Rank::at(to)));
            let back = self.link_index(to, from);
            for message in std::mem::take(&mut self.links[back].early) {
                let fill = |bytes: &mut [u8]| bytes.copy_from_slice(&message);
                self.processes[from].inbox.push_message(Rank::at(to), message.len(), fill);
            }
            self.arm_run(from, self.now());
        }
    }
}
