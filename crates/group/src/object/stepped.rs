//! The objects of a process whose caller executes what it is told, step by step.

use super::bugs::Bug;
use super::each::Replies;
use super::host::Host;
use super::owner::Owner;
use super::pending::Pending;
use super::replica::{Objects, Replica, Replicas};
use super::replicated::Replicated;
use crate::door::Group;
use crate::event::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// See the module's text.
pub(crate) struct Stepped {
    stage: Stage,
    events: VecDeque<Event>,
}

enum Stage {
    /// It is in no view yet.
    Outside(Group, Replicas, Option<Bug>),
    Inside(Objects),
    Over,
}

impl Stepped {
    pub(crate) const fn new(group: Group, replicas: Replicas, planted: Option<Bug>) -> Stepped {
        Stepped { stage: Stage::Outside(group, replicas, planted), events: VecDeque::new() }
    }

    pub(crate) const fn get(&self) -> Option<&Objects> {
        match &self.stage {
            Stage::Inside(objects) => Some(objects),
            Stage::Outside(..) | Stage::Over => None,
        }
    }

    /// Executes what the process was told. Returns the time after which to do so again; `None` if
    /// it is over.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Outside(group, replicas, planted) => {
                group.take(&mut self.events, Duration::ZERO);
                match self.events.pop_front() {
                    None => self.stage = Stage::Outside(group, replicas, planted),
                    Some(Event::View(view)) => {
                        let objects = replicas.with(|options, parts| {
                            let host = Host::new(group, options, parts, view.clone(), planted);
                            host.install(view)?;
                            Ok(Owner::without_executor(host))
                        });
                        self.stage = Stage::Inside(objects.expect("objects of the layout"));
                        return self.step();
                    }
                    Some(Event::Ended(_)) => return None,
                    other => unreachable!("a process is told its first view first, not {other:?}"),
                }
                Some(Duration::MAX)
            }
            Stage::Inside(objects) => {
                objects.host().group.take(&mut self.events, Duration::ZERO);
                let wait = objects.host().step(&mut self.events);
                self.stage = Stage::Inside(objects);
                wait
            }
            Stage::Over => None,
        }
    }
}

/// Asks again for an outcome that can be lost on its way, as a caller does that waits for it.
pub fn ask_again<R>(pending: &Pending<R>) {
    pending.slot.ask(Duration::ZERO);
}

/// Looks at the copy of a process, also of one that is over.
pub fn look_at_copy<S: Replicated, R>(
    replica: &Replica<S>,
    look: impl FnOnce(&S) -> R,
) -> Option<R> {
    replica.copy.look(None, look)
}

/// The same as [`ask_again`], for the replies that are missing.
pub fn ask_for_replies_again<R>(replies: &Replies<R>) {
    replies.ask_for_missing();
}
