//! Ambushes that spring where verbs are posted and take effect: in all worlds of one network.
//!
//! - A4 *Belated*: exactly one message, READ or WRITE is late by about a second, together with
//!   everything behind it on its link.
//! - A9 *Last words*: a process ends as soon as something that it said, or wrote into another's
//!   memory, has arrived, or what its own memory answered. So what others conclude from it rests on
//!   one that is gone, or that comes back without its memory.

use crate::coverage::Mark;
use crate::kinds::Kind;
use crate::link::{Action, Result as Fate};
use crate::plan::MS;
use crate::queue::Happening;
use crate::world::net::Net;
use base::Rng;

/// What is laid and not yet sprung.
#[derive(Debug, Default)]
pub(crate) struct Snares {
    /// The kind and the delay of the next verb that is late (A4).
    belated: Option<Belated>,
    last_words: Option<LastWords>,
}

/// One verb that is late (A4).
#[derive(Clone, Copy, Debug)]
struct Belated {
    said: Said,
    by_ns: u64,
}

/// A process that is to end (A9).
#[derive(Clone, Copy, Debug)]
struct LastWords {
    node: usize,
    said: Said,
    /// The number of such words before the last ones.
    n_left: u64,
    /// Whether the next election, or end of a view, is waited for.
    waits: bool,
}

/// A kind of what one node says to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Message,
    Read,
    Write,
    Atomic,
}

impl Said {
    fn draw(rng: &mut Rng) -> Said {
        [Said::Message, Said::Read, Said::Write, Said::Atomic][rng.below(4) as usize]
    }

    fn of(action: Action) -> Said {
        match action {
            Action::Message(_) => Said::Message,
            Action::Read => Said::Read,
            Action::Write | Action::Parcel => Said::Write,
            Action::Cas { .. } | Action::FetchAdd(_) => Said::Atomic,
        }
    }

    /// What a memory answers by this, if it answers.
    fn of_answer(fate: Fate) -> Option<Said> {
        match fate {
            Fate::Read(_) => Some(Said::Read),
            Fate::Written => Some(Said::Write),
            Fate::Before(_) => Some(Said::Atomic),
            Fate::Refused | Fate::Unknown => None,
        }
    }
}

impl Net {
    /// Lays an ambush of this kind, for `node` where it concerns one.
    pub(crate) fn lay_snare(&mut self, kind: Kind, node: usize, rng: &mut Rng) {
        match kind {
            Kind::Belated => {
                let by_ns = rng.range(200, 1200) * MS;
                self.snares.belated = Some(Belated { said: Said::draw(rng), by_ns });
            }
            Kind::LastWords => {
                let magnitude = rng.below(6);
                let (said, n_left) = (Said::draw(rng), rng.below(1 << magnitude));
                let waits = rng.chance(1, 2);
                self.snares.last_words = Some(LastWords { node, said, n_left, waits });
            }
            _ => {}
        }
    }

    /// A4: the time by which this verb is later than usual.
    pub(crate) fn is_late_by(&mut self, action: Action) -> u64 {
        let said = Said::of(action);
        let Some(late) = self.snares.belated.take_if(|late| late.said == said) else { return 0 };
        self.coverage.hit(Mark::OneLate);
        late.by_ns
    }

    /// A9: a member wants to lead, or a view ends.
    pub(crate) fn see_candidate(&mut self) {
        if let Some(last) = &mut self.snares.last_words {
            last.waits = false;
        }
    }

    /// A9: another node has got a message of `node`, or its memory what `node` writes there.
    pub(crate) fn has_said(&mut self, node: usize, action: Action) {
        self.spring_last_words(node, Said::of(action));
    }

    /// A9: another node has got what the memory of `node` answers.
    pub(crate) fn has_answered(&mut self, node: usize, fate: Fate) {
        if let Some(said) = Said::of_answer(fate) {
            self.spring_last_words(node, said);
        }
    }

    fn spring_last_words(&mut self, node: usize, said: Said) {
        let Some(last) = &mut self.snares.last_words else { return };
        if last.node != node || last.said != said || last.waits {
            return;
        }
        if last.n_left > 0 {
            last.n_left -= 1;
            return;
        }
        self.snares.last_words = None;
        self.coverage.hit(Mark::LastWords);
        let now = self.now();
        self.queue.push(now, Happening::Spring(node as u16));
    }
}
