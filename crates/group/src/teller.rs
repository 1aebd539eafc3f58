//! The application of a process (`engine::group`): it turns what it is told into events, for the
//! board.

use crate::event::{Delivered, Ended, Event, Member, StateWanted, View};
use crate::options::Options;
use base::Rank;
use engine::group::{Application, Installed};
use proto::vsync::{self, Delivery, Knock, Position, ShardId};
use std::collections::VecDeque;
use std::time::Duration;

/// See the module's text.
pub(crate) struct Teller {
    pub(crate) me: Knock,
    keeps_state: bool,
    patience: Duration,
    /// The view that began last.
    pub(crate) view: Option<View>,
    /// Events that are not on the board yet.
    pub(crate) events: VecDeque<Event>,
    /// The number of own messages that were delivered.
    pub(crate) n_own: u64,
    /// The members of the view, if they are fewer than the group wants.
    pub(crate) inadequate: Option<usize>,
    /// Whether the board has room for no more events.
    pub(crate) is_full: bool,
    /// Whether the process leaves since its application takes nothing.
    pub(crate) is_sluggish: bool,
    pub(crate) ended: Option<Ended>,
}

impl Teller {
    pub(crate) const fn new(me: Knock, options: &Options) -> Teller {
        Teller {
            me,
            keeps_state: options.keeps_state,
            patience: options.patience,
            view: None,
            events: VecDeque::new(),
            n_own: 0,
            inadequate: None,
            is_full: false,
            is_sluggish: false,
            ended: None,
        }
    }
}

impl Application for Teller {
    fn install(&mut self, installed: Installed) {
        let view = View::new(&installed, self.view.as_ref());
        self.inadequate = None;
        self.events.push_back(Event::View(view.clone()));
        self.view = Some(view);
    }

    fn inadequate(&mut self, members: usize) {
        self.inadequate = Some(members);
        self.events.push_back(Event::Inadequate { members });
    }

    fn inadequate_subgroup(&mut self, _: usize) {}

    fn unsent(&mut self, _: ShardId, _: usize) {}

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { shard: _, at, sender, message } = delivery;
        let is_own = sender == self.me;
        self.n_own += u64::from(is_own);
        self.events.push_back(Event::Delivered(Delivered {
            view: at.view.0,
            sequence: at.at,
            sender: Member::of(&sender),
            own: is_own.then_some(self.n_own),
            bytes: message,
        }));
    }

    fn give(&mut self, to: Rank, _: ShardId, at: Position) -> Option<Vec<u8>> {
        if !self.keeps_state {
            return Some(Vec::new());
        }
        self.events.push_back(Event::StateWanted(StateWanted { to, at }));
        None
    }

    fn take(&mut self, _: ShardId, _: Position, bytes: Vec<u8>) {
        if self.keeps_state {
            self.events.push_back(Event::State(bytes));
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
