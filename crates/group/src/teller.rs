//! The application of a process (`engine::group`): it turns what it is told into events, for the
//! board.

use crate::event::{Delivered, Ended, Event, Member, StateWanted, View};
use crate::layout;
use crate::options::Options;
use base::{Instant, Rank};
use engine::group::{Application, Installed};
use proto::vsync::{self, Delivery, Knock, Position, ShardId};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest wait for the time from which on answers may be given, which may be unknown.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// See the module's text.
pub(crate) struct Teller {
    pub(crate) me: Knock,
    keeps_state: bool,
    patience: Duration,
    /// The view that began last.
    pub(crate) view: Option<View>,
    /// Events that are not on the board yet.
    pub(crate) events: VecDeque<Event>,
    /// The names of the subgroups.
    names: Vec<String>,
    /// By subgroup, this process's place in it.
    pub(crate) places: Vec<Place>,
    /// The members of the view, if they are fewer than the group wants.
    pub(crate) inadequate: Option<usize>,
    /// Whether the board has room for no more events.
    pub(crate) is_full: bool,
    /// Whether the process leaves since its application takes nothing.
    pub(crate) is_sluggish: bool,
    pub(crate) ended: Option<Ended>,
}

impl Teller {
    pub(crate) fn new(me: Knock, options: &Options) -> Teller {
        let names = layout::names(&options.layout);
        Teller {
            me,
            keeps_state: options.keeps_state,
            patience: options.patience,
            view: None,
            events: VecDeque::new(),
            places: vec![Place::default(); names.len()],
            names,
            inadequate: None,
            is_full: false,
            is_sluggish: false,
            ended: None,
        }
    }

    /// Tells what this process holds of a subgroup and has not delivered.
    pub(crate) fn show_ahead(&mut self, token: u64, subgroup: u16, ahead: Vec<Delivery>) {
        let mut n_own = self.places.get(usize::from(subgroup)).map_or(0, |place| place.n_own);
        let told = ahead.into_iter().map(|one| delivered(one, &self.me, &mut n_own));
        self.events.push_back(Event::Ahead { token, messages: told.collect() });
    }
}

/// A process's place in a subgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its shard.
    pub(crate) shard: Option<u16>,
    /// The number of the view since which that is its shard.
    pub(crate) since: u64,
    /// The time from which on this process may answer there, on the clock of its host.
    pub(crate) answers_from: Instant,
    /// Whether the subgroup lacks members.
    pub(crate) is_inadequate: bool,
    /// Whether this process multicasts there.
    pub(crate) is_sender: bool,
    /// The number of own messages that were delivered, or not sent.
    pub(crate) n_own: u64,
    /// Those of them that were not sent, in order.
    pub(crate) unsent: Vec<RangeInclusive<u64>>,
}

impl Place {
    /// Takes it that the process is in this shard in a view.
    fn enter(&mut self, shard: Option<u16>, view: u64) {
        if shard != self.shard {
            (self.shard, self.since) = (shard, view);
        }
    }

    /// Whether this process is in a shard, and has been in no other one since `view`.
    pub(crate) const fn is_in_since(&self, view: u64) -> bool {
        self.shard.is_some() && self.since <= view
    }

    /// The time from `now` on for which this process must not answer there yet.
    pub(crate) fn answers_in(&self, now: Instant) -> Option<Duration> {
        (now < self.answers_from).then(|| self.answers_from.since(now).min(LOOK_EVERY))
    }
}

impl Application for Teller {
    fn install(&mut self, installed: Installed) {
        let view = View::new(&installed, self.view.as_ref(), &self.names);
        self.inadequate = None;
        for (subgroup, place) in self.places.iter_mut().enumerate() {
            let id = installed.view.shard_of(self.me.seat, subgroup);
            place.enter(id.map(|shard| shard.shard), view.number);
            let shard = id.and_then(|id| installed.view.shard(id));
            place.is_sender = shard.is_some_and(|shard| shard.senders.contains(self.me.seat));
            place.is_inadequate = !installed.view.roster[subgroup].is_adequate;
        }
        self.events.push_back(Event::View(view.clone()));
        self.view = Some(view);
    }

    fn inadequate(&mut self, members: usize) {
        self.inadequate = Some(members);
        self.events.push_back(Event::Inadequate { members });
    }

    fn inadequate_subgroup(&mut self, subgroup: usize) {
        let subgroup = self.names[subgroup].clone();
        self.events.push_back(Event::InadequateSubgroup { subgroup });
    }

    fn unsent(&mut self, shard: ShardId, n_messages: usize) {
        let place = &mut self.places[usize::from(shard.subgroup)];
        let numbers = place.n_own + 1..=place.n_own + n_messages as u64;
        place.n_own = *numbers.end();
        place.unsent.push(numbers.clone());
        self.events.push_back(Event::Unsent { shard, numbers });
    }

    fn deliver(&mut self, delivery: Delivery) {
        let place = &mut self.places[usize::from(delivery.shard.subgroup)];
        let delivered = delivered(delivery, &self.me, &mut place.n_own);
        self.events.push_back(Event::Delivered(delivered));
    }

    fn give(&mut self, to: Rank, shard: ShardId, at: Position) -> Option<Vec<u8>> {
        if !self.keeps_state {
            return Some(Vec::new());
        }
        self.events.push_back(Event::StateWanted(StateWanted { to, shard, at }));
        None
    }

    fn take(&mut self, shard: ShardId, _: Position, bytes: Vec<u8>) {
        if self.keeps_state {
            self.events.push_back(Event::State { shard, bytes });
        }
    }

    fn end(&mut self, end: vsync::End) {
        let is_made = self.is_sluggish && end == vsync::End::Left;
        self.ended = Some(if is_made { Ended::Sluggish(self.patience) } else { Ended::of(end) });
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

/// What an application of the process `me` is told of a delivery, before which `n_own` messages of
/// this process were delivered, or not sent.
fn delivered(delivery: Delivery, me: &Knock, n_own: &mut u64) -> Delivered {
    let Delivery { shard, at, time, sender, message } = delivery;
    let is_own = sender == *me;
    *n_own += u64::from(is_own);
    Delivered {
        shard,
        view: at.view.0,
        sequence: at.at,
        time: time.into(),
        sender: Member::of(&sender),
        own: is_own.then_some(*n_own),
        bytes: message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_was_left_meanwhile_is_another_stay() {
        let mut place = Place::default();
        let mut stays = |view, shard| {
            place.enter(shard, view);
            place.clone()
        };
        let first = stays(2, Some(0));
        assert!(first.is_in_since(2) && !first.is_in_since(1));
        assert!(stays(3, Some(0)).is_in_since(2), "it stayed");
        assert!(!stays(4, Some(1)).is_in_since(3));
        assert!(!stays(5, None).is_in_since(5), "it is in no shard");
        let again = stays(6, Some(0));
        assert!(
            again.is_in_since(6) && !again.is_in_since(3),
            "what caught up before is not enough"
        );
    }
}
