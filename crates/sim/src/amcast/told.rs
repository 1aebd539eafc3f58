//! The world's knowledge of a process: its messages, its deliveries, and its snapshots, each at its
//! place between the deliveries.

use super::history::{Happened, Held};
use super::process::Outbox;
use super::world::{MS, Parcel, What, World};
use proto::amcast::wire::Wire;
use proto::amcast::{About, Cut, GroupSet, Pid, Timestamp, To};
use std::fmt::Write;

impl<W: Wire> World<W> {
    /// Releases the results of a process's step to the world.
    pub(super) fn release(&mut self, process: usize, sent: Vec<(To, W)>, n_applied: usize) {
        let changes = self.lives.change;
        let of = &mut self.processes[process];
        // A seat is judged as one process: an earlier life's deliveries are not reported again, and
        // snapshots of that state are not seen.
        if changes {
            let (pid, n_told) = (of.pid, of.n_told);
            while let Some((_, at, _)) = of.cuts.pop_front_if(|(applied, ..)| *applied < n_told) {
                self.history.cuts_due.remove(&(pid, at));
            }
            if n_applied < n_told {
                return sent.into_iter().for_each(|(to, wire)| self.send(process, to, &wire));
            }
        }
        let (by, n_told) = (of.pid, of.n_told.min(n_applied));
        let told = of.applied[n_told..n_applied].to_vec();
        of.n_told = n_applied.max(of.n_told);
        for (at, (id, ts)) in (n_told..).zip(told) {
            self.tell_cuts(process, by, at);
            self.counts.delivered += 1;
            self.history.happened.push((self.now, Happened::Delivered { by, id, ts }));
            self.news.push_back(id);
        }
        self.tell_cuts(process, by, n_applied);
        for (to, wire) in sent {
            self.send(process, to, &wire);
        }
    }

    /// Reports the snapshots that came at this number of delivered messages.
    fn tell_cuts(&mut self, process: usize, by: Pid, n_applied: usize) {
        let cuts = &mut self.processes[process].cuts;
        while let Some((_, at, cut)) = cuts.pop_front_if(|(applied, ..)| *applied <= n_applied) {
            let is_exact = cut == Cut::Exact;
            self.counts.snapshots += u64::from(is_exact);
            self.history.happened.push((self.now, Happened::Cut { by, at, is_exact }));
        }
    }

    /// Asks all living processes for a snapshot at `at`.
    pub(super) fn cut_all(&mut self, at: Timestamp) {
        for process in 0..self.processes.len() {
            if self.processes[process].alive {
                self.push(self.now, What::Cut { process, at });
            }
        }
    }

    /// Notes the number of messages that each process which never failed remembers: `most` is
    /// right.
    pub(super) fn note_held(&mut self, most: impl Fn(Pid) -> usize) {
        for process in self.processes.iter().filter(|process| process.alive) {
            let by = process.pid;
            if !self.history.correct.contains(&by) {
                continue;
            }
            let held = process.machine.n_held().map(|n| Held { by, n, most: most(by) });
            self.history.held.extend(held);
        }
    }

    /// Notes the next event.
    pub(super) fn note_unrest(&mut self) {
        self.history.unrest = self.next_event();
    }

    /// Checks that only destinations of a message are involved in it.
    pub(super) fn check_genuine(&mut self, from: usize, to: usize, wire: &W) {
        let (from, to) = (self.processes[from].pid, self.processes[to].pid);
        let has_both = |dest: GroupSet| dest.contains(from.group) && dest.contains(to.group);
        let meant = &self.history.meant;
        let cuts = &self.history.cuts_due;
        let asked = from.group == to.group && cuts.iter().any(|(pid, _)| pid.group == from.group);
        let is_business = |about| match about {
            About::Message(id) => meant.get(&id).is_some_and(|meant| has_both(meant.dest)),
            // A process that is asked for a snapshot may have its own group raise its clocks.
            About::Clock => asked || meant.values().any(|meant| has_both(meant.dest)),
            About::Return => {
                from.group == to.group || meant.values().any(|meant| has_both(meant.dest))
            }
            About::Group => from.group == to.group,
        };
        if !(self.about)(wire).into_iter().all(is_business) && self.history.strayed.len() < 4 {
            self.history.strayed.push(format!("{from:?} tells {to:?}: {wire:?}"));
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce(&mut String) -> std::fmt::Result) {
        let now_ms = self.now as f64 / MS as f64;
        self.trace.add(|text| {
            write!(text, "{now_ms:>12.6} ms  ")?;
            what(text)
        });
    }

    pub(super) fn note_step(&mut self, process: usize, what: &What<W>, out: &Outbox<W>) {
        if !self.trace.is_wanted() {
            return;
        }
        let pid = self.processes[process].pid;
        let n = self.processes.len();
        let cause = match what {
            What::Arrive { link, parcel: Parcel::Wire(wire), .. } => {
                format!("{:?} says {wire:?}", self.processes[link / n].pid)
            }
            What::Arrive { parcel: Parcel::Start(message), .. } => {
                format!("START {:?}", message.id)
            }
            other => format!("{other:?}"),
        };
        let delivered = &out.deliveries.applied[out.deliveries.n_before..];
        self.note(|text| write!(text, "{pid:?} {cause} -> {:?} delivers {delivered:?}", out.sent));
    }
}
