//! What begins a process with objects, and ends it when the last clone of its replicas is dropped.

use super::copy::Part;
use super::handler::{check_turn, is_in_handler};
use super::host::{Host, no_state};
use super::states::farewell;
use crate::deadline::deadline;
use crate::door::Group;
use crate::error::Error;
use crate::event::{Ended, Event, View};
use crate::options::Options;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the clones of replicas share, and the executing thread not.
pub(super) struct Owner {
    pub(super) host: Arc<Host>,
    executor: Mutex<Option<JoinHandle<()>>>,
}

impl Owner {
    /// Founds the group, or joins it. Returns when this process has the copies that it needs; one
    /// that gets none leaves (`states`, T2).
    pub(super) fn begin(
        options: &Options,
        founds: bool,
        parts: Vec<Option<Arc<dyn Part>>>,
    ) -> Result<Arc<Owner>, Error> {
        let group = if founds { Group::found(options)? } else { Group::join(options)? };
        let by = deadline(options.patience);
        let mut events = VecDeque::new();
        let view =
            first_view(&group, &mut events, by, options).inspect_err(|_| farewell(&group))?;
        let host = Arc::new(Host::new(group, options, parts, view.clone(), None));
        host.install(view).inspect_err(|_| farewell(&host.group))?;
        let theirs = Arc::clone(&host);
        let thread = std::thread::Builder::new().name(format!("object-{}", options.name));
        let executor = thread
            .spawn(move || theirs.run(events))
            .map_err(Error::os("start a thread"))
            .inspect_err(|_| farewell(&host.group))?;
        let owner = Owner { host, executor: Mutex::new(Some(executor)) };
        owner.host.wait_settled(by, options).inspect_err(|_| owner.host.say_farewell())?;
        Ok(Arc::new(owner))
    }

    /// The owner of a host that no thread runs.
    pub(super) fn without_executor(host: Host) -> Arc<Owner> {
        Arc::new(Owner { host: Arc::new(host), executor: Mutex::new(None) })
    }

    /// Leaves within `span`, of which others have at most `patience` to execute what is open.
    pub(super) fn close(&self, span: Duration, patience: Duration) -> Result<(), Ended> {
        check_turn().map_err(|refused| Ended::Os(refused.to_string()))?;
        let by = deadline(span);
        let left = || by.saturating_duration_since(Instant::now());
        let calls = &self.host.calls;
        if !is_in_handler() {
            calls.wait_others(deadline(patience.min(span / 2)));
        }
        self.host.group.leave(left());
        let (span, why) = if is_in_handler() {
            (Duration::ZERO, "this is called by a method of the object")
        } else {
            // Of clones that close together one waits for the thread, and the others for its word.
            self.join_executor();
            (left(), "another clone has begun to leave, and has more patience")
        };
        match calls.wait_end(span) {
            Some(Ended::Left) => Ok(()),
            Some(ended) => Err(ended),
            None => Err(Ended::Os(why.to_owned())),
        }
    }

    fn join_executor(&self) {
        let executor = self.executor.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A clone that a handler holds may be the last one.
        if let Some(executor) = executor
            && executor.thread().id() != std::thread::current().id()
        {
            let _panicked = executor.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.host.group.abandon();
        self.join_executor();
    }
}

fn first_view(
    group: &Group,
    events: &mut VecDeque<Event>,
    by: Instant,
    options: &Options,
) -> Result<View, Error> {
    while events.is_empty() {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(no_state(options));
        }
        group.take(events, left);
    }
    match events.pop_front() {
        Some(Event::View(view)) => Ok(view),
        Some(Event::Ended(ended)) => Err(ended.into()),
        other => unreachable!("a process is told its first view first, not {other:?}"),
    }
}
