//! The silence at the end of half of the runs, when all is well and no client asks for anything any
//! longer: what waits for a command of a client stays undone, and is seen.
//!
//! - *Members change*, where there is an operator: one last time.
//! - *Links break*, and come back, while the last command is executed. So a member may not have
//!   been told of the last decisions; it has to learn of them all the same.
//! - *A member dies*, and its next process finds the others at rest.
//! - I1 Where members change, all that run belong to the core then, and every voter runs, with its
//!   state: whatever the operator begins, the members that are left can serve.

use crate::Provider;
use crate::coverage::Mark;
use crate::plan::{MS, Weather};
use crate::queue::{Fault, Happening};
use crate::world::net::Net;
use crate::world::{Phase, World};
use base::{Rank, Rng};

/// The time that the last change may take, and members to learn of the last decisions.
const SILENCE_NS: u64 = 3_000 * MS;

/// The silence at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The run has none.
    #[default]
    Never,
    /// It comes when the clients have all their answers.
    Due,
    /// Clients ask for nothing until then.
    Until { ns: u64, has_begun: bool },
}

impl Silence {
    pub(crate) fn draw(seed: u64) -> Silence {
        let is_due = Rng::new(seed ^ 0x7369_6c65_6e63).chance(1, 2);
        if is_due { Silence::Due } else { Silence::Never }
    }

    /// Whether no client asks for anything any longer.
    pub(crate) const fn has_come(self) -> bool {
        matches!(self, Silence::Until { .. })
    }

    /// Whether the last change of members is to be begun.
    pub(crate) const fn owes_change(self) -> bool {
        matches!(self, Silence::Until { has_begun: false, .. })
    }

    /// Notes that it is.
    pub(crate) fn has_changed(&mut self) {
        if let Silence::Until { has_begun, .. } = self {
            *has_begun = true;
        }
    }

    /// The time to its end, if it has come and has one.
    pub(crate) fn left_ns(self, now: u64) -> Option<u64> {
        Some(self.lasts_until(now)? - now)
    }

    /// Its end, if that is still to come.
    pub(crate) fn lasts_until(self, now: u64) -> Option<u64> {
        let Silence::Until { ns, .. } = self else { return None };
        (ns > now).then_some(ns)
    }
}

/// Breaks some connections among these members, about while a command is executed.
pub(crate) fn break_links_soon(net: &mut Net, rng: &mut Rng, among: &[usize], weather: &Weather) {
    if weather.provider != Provider::Tcp {
        return;
    }
    let while_ns = 6 * (weather.latency_ns + weather.jitter_ns);
    for from in among {
        for to in among.iter().filter(|to| from < *to) {
            if rng.chance(1, 2) {
                net.coverage.hit(Mark::LostInSilence);
                let at = net.now() + rng.below(while_ns);
                net.queue.push(at, Happening::Reset((from * net.members + to) as u32));
            }
        }
    }
}

impl World {
    /// Whether no client asks for anything any longer.
    pub(crate) const fn is_silent(&self) -> bool {
        self.core.silence.has_come()
    }

    /// Begins the silence, if the run has one.
    pub(crate) fn begin_silence(&mut self) -> bool {
        let changes = self.subject.has_operator;
        // (In runs of a day a while is long.)
        let can_be = self.plan.pace == 1 && (!changes || self.is_whole());
        if self.core.silence != Silence::Due || !can_be {
            return false;
        }
        let ns = self.net.now() + SILENCE_NS;
        self.core.silence = Silence::Until { ns, has_begun: false };
        if changes {
            let taken = (0..self.plan.members).filter(|node| self.is_taken(*node));
            self.core.members = taken.map(Rank::at).collect();
            self.repair_core();
        } else {
            let last = self.rng.below(self.clients.len() as u64) as usize;
            if !self.clients[last].waits() {
                self.think(last);
            }
            let core: Vec<usize> = self.core.members.iter().map(Rank::index).collect();
            break_links_soon(&mut self.net, &mut self.rng, &core, &self.plan.weather);
            self.strike_in_silence(&core);
            self.net.queue.push(ns, Happening::Phase);
        }
        true
    }

    /// In half of the runs a member of the core dies and comes back, whether it leads or not.
    fn strike_in_silence(&mut self, core: &[usize]) {
        let any = core[self.rng.below(core.len() as u64) as usize];
        if self.rng.chance(1, 2) && self.may_die(any) {
            self.net.coverage.hit(Mark::DiedInSilence);
            self.crash(any);
            let back = self.net.now() + 1 + self.rng.below(100 * MS);
            self.net.queue.push(back, Happening::Mend(Fault::Crash(any as u16)));
        }
    }

    /// Whether each seat that is taken can run, with the state that its member had (I1).
    fn is_whole(&self) -> bool {
        let mut taken = (0..self.plan.members).filter(|node| self.is_taken(*node));
        taken.all(|node| {
            !self.disks[node].is_rotten() && (!self.memories_change() || self.holds_state(node))
        })
    }

    /// Whether the last change is to be begun.
    pub(crate) const fn owes_last_change(&self) -> bool {
        self.core.silence.owes_change()
    }

    /// Notes that the operator has a goal for `seat`, which is in the core.
    pub(crate) fn note_last_change(&mut self, seat: usize) {
        if self.is_silent() {
            self.core.silence.has_changed();
            self.core.members.insert(Rank::at(seat));
            self.repair_core();
        }
    }

    /// Ends a silent run whose last change is made.
    pub(crate) fn end_silence(&mut self) {
        let is_made = matches!(self.core.silence, Silence::Until { has_begun: true, .. });
        let is_over = is_made && self.unachieved().is_none() && self.unheld().is_none();
        if self.phase == Phase::Liveness && is_over {
            self.phase = Phase::Over;
        }
    }

    /// The member of the core that has not executed what another one knows to be decided, at the
    /// end of a silence.
    pub(crate) fn unlearned(&self) -> Option<String> {
        if !self.is_silent() || self.subject.has_operator {
            return None;
        }
        let told = |rank: Rank| Some((rank, self.machines[rank.index()].as_ref()?.status()));
        let all: Vec<_> = self.core.members.iter().filter_map(told).collect();
        let (knows, most) = all.iter().max_by_key(|(_, status)| status.committed)?;
        let (lags, least) = all.iter().min_by_key(|(_, status)| status.applied)?;
        (least.applied < most.committed).then(|| {
            format!(
                "{lags} has executed {} in silence, and {knows} knows that {} is decided",
                least.applied, most.committed
            )
        })
    }
}
