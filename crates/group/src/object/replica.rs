//! One member's copy of an object, and the thread that executes what is delivered.

use super::calls::Calls;
use super::codec::{Undecodable, decode, decode_call, encode, encode_call};
use super::handler::{in_handler, is_in_handler};
use super::letters::{Letter, NoAnswer, outcome};
use super::pending::{CallError, Outcome, Pending, Question, Slot};
use super::replicated::{Method, Replicated};
use crate::deadline::deadline;
use crate::door::Group;
use crate::error::{Error, Refused};
use crate::event::{Delivered, Ended, Event, Member, View};
use crate::ground::LETTER_BYTES_MAX;
use crate::options::Options;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait for events, behind which nothing is looked for but more events.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The longest arguments, or result, of which a letter has room beside its head.
const BODY_BYTES_MAX: usize = LETTER_BYTES_MAX - 16;

/// This process's copy of a replicated object, which is a member of a group. Clones are the same
/// copy. When the last one is dropped, the process is gone from the group, and the others take it
/// for failed; [`Replica::close`] leaves in order.
///
/// `#[replicated]` makes a handle of it, with the object's methods.
pub struct Replica<S: Replicated>(Arc<Owner<S>>);

/// What clones share, and the executing thread not.
struct Owner<S: Replicated> {
    shared: Arc<Shared<S>>,
    executor: Mutex<Option<JoinHandle<()>>>,
}

/// What the clones and the executing thread share.
struct Shared<S> {
    group: Group,
    /// O1: written by the executing thread alone.
    object: RwLock<S>,
    calls: Calls,
    view: Mutex<View>,
    next_view: Condvar,
    patience: Duration,
}

impl<S: Replicated> Replica<S> {
    /// Founds the group with this process alone, whose object is `object`.
    ///
    /// # Errors
    /// As for [`Group::found`].
    pub fn found(options: &Options, object: S) -> Result<Replica<S>, Error> {
        let options = typed::<S>(options);
        let group = Group::found(&options)?;
        let mut events = VecDeque::new();
        let view = first_view(&group, &mut events, &options)?;
        Replica::begin(group, object, view, events, &options)
    }

    /// Joins the group. Returns when this process has a copy of the object, which follows the
    /// others' from then on.
    ///
    /// # Errors
    /// As for [`Group::join`]; and [`Error::NoState`] if no member gives its copy in time, or one
    /// that cannot be read.
    pub fn join(options: &Options) -> Result<Replica<S>, Error> {
        let options = typed::<S>(options);
        let group = Group::join(&options)?;
        let mut events = VecDeque::new();
        let mut view = first_view(&group, &mut events, &options)?;
        let by = deadline(options.patience);
        loop {
            let Some(event) = events.pop_front() else {
                take(&group, &mut events, by, &options)?;
                continue;
            };
            match event {
                Event::View(next) => view = next,
                Event::State { bytes, .. } => {
                    let why = "the copy that was given cannot be read: do the programs differ?";
                    let object = decode(&bytes).map_err(|_| Error::NoState(why.into()))?;
                    return Replica::begin(group, object, view, events, &options);
                }
                Event::Ended(ended) => return Err(ended.into()),
                Event::Inadequate { .. } | Event::InadequateSubgroup { .. } => {}
                Event::Unsent { .. } | Event::Letter { .. } => {}
                Event::Delivered(_) | Event::StateWanted(_) => {
                    unreachable!("V9: a newcomer is told nothing but views before the state")
                }
            }
        }
    }

    fn begin(
        group: Group,
        object: S,
        view: View,
        events: VecDeque<Event>,
        options: &Options,
    ) -> Result<Replica<S>, Error> {
        let shared = Arc::new(Shared {
            group,
            object: RwLock::new(object),
            calls: Calls::default(),
            view: Mutex::new(view),
            next_view: Condvar::new(),
            patience: options.patience,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("object-{}", options.name));
        let executor =
            thread.spawn(move || theirs.run(events)).map_err(Error::os("start a thread"))?;
        Ok(Replica(Arc::new(Owner { shared, executor: Mutex::new(Some(executor)) })))
    }

    /// This process.
    pub fn me(&self) -> Member {
        self.0.shared.group.me()
    }

    /// The view that this member's copy has come to.
    pub fn view(&self) -> View {
        self.0.shared.view().clone()
    }

    /// Waits until `holds` of the view; `None` after the timeout.
    pub fn wait_view(&self, holds: impl Fn(&View) -> bool, timeout: Duration) -> Option<View> {
        let Shared { next_view, .. } = &*self.0.shared;
        let waited =
            next_view.wait_timeout_while(self.0.shared.view(), timeout, |view| !holds(view));
        let (view, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| view.clone())
    }

    /// Looks at this member's copy as it is now, which may lag behind others'.
    ///
    /// # Errors
    /// [`CallError::Unknown`] if the process is no longer in the group, [`CallError::InHandler`]
    /// within a method of the object.
    pub fn query<R>(&self, look: impl FnOnce(&S) -> R) -> Result<R, CallError> {
        if is_in_handler() {
            return Err(CallError::InHandler);
        }
        self.0.shared.calls.check().map_err(CallError::Unknown)?;
        let object = self.0.shared.object.read().unwrap_or_else(PoisonError::into_inner);
        Ok(look(&object))
    }

    /// Calls the method with this number: `#[replicated]` makes the code that does.
    #[doc(hidden)]
    pub fn call<R>(&self, method: u16, arguments: &impl Serialize) -> Pending<R> {
        let shared = &self.0.shared;
        let (slot, result) = (Arc::<Slot>::default(), PhantomData);
        let pending = Pending { slot: Arc::clone(&slot), patience: shared.patience, result };
        let ticket = shared.calls.ticket();
        match shared.calls.enter(ticket, &slot, None) {
            Ok(()) => {
                let message = encode_call(ticket, method, arguments);
                if let Err(refused) = shared.group.send_within(&message, shared.send_patience()) {
                    shared.calls.settle(ticket, Err(refused.into()));
                }
            }
            Err(ended) => slot.fill(Err(CallError::NotExecuted(ended.into()))),
        }
        pending
    }

    /// Asks the member on `seat` the query with this number: `#[replicated]` makes the code that
    /// does.
    #[doc(hidden)]
    pub fn ask<R>(&self, seat: usize, method: u16, arguments: &impl Serialize) -> Pending<R> {
        let shared = &self.0.shared;
        let (ticket, arguments) = (shared.calls.ticket(), encode(arguments));
        let letter = Letter::Ask { ticket, method, arguments: &arguments }.encode();
        let theirs = Arc::downgrade(shared);
        let slot = Arc::new(Slot::of(Question(Box::new(move |patience| {
            let shared = theirs.upgrade();
            // A letter that finds no room is one that is lost.
            let _lost = shared.map(|shared| shared.group.tell_within(seat, &letter, patience));
        }))));
        let is_long = arguments.len() > BODY_BYTES_MAX;
        let refused = || Refused::TooLong { bytes: arguments.len(), most: BODY_BYTES_MAX as u32 };
        let view = shared.view();
        let asked = view.members.iter().copied().find(|member| member.seat == seat);
        let entered = match asked {
            _ if is_long => Err(refused().into()),
            None => Err(CallError::Gone(seat)),
            // Under the view's lock: the next view ends it, if the member is not in that.
            Some(_) => shared
                .calls
                .enter(ticket, &slot, asked)
                .map_err(|ended| CallError::NotExecuted(Refused::Ended(ended))),
        };
        drop(view);
        match entered {
            Ok(()) => slot.ask(shared.send_patience()),
            Err(error) => slot.fill(Err(error)),
        }
        Pending { slot, patience: shared.patience, result: PhantomData }
    }

    /// Waits until this process is no longer in the group: the reason, or `None` after the timeout.
    pub fn wait_end(&self, timeout: Duration) -> Option<Ended> {
        self.0.shared.calls.wait_end(timeout)
    }

    /// Takes it that the member on `seat` has failed; see [`Group::suspect`].
    pub fn suspect(&self, seat: usize) {
        self.0.shared.group.suspect(seat);
    }

    /// Leaves in order, within `patience`: what was called before has its outcome then.
    ///
    /// # Errors
    /// The other reason why the process is no longer in the group.
    pub fn close(self, patience: Duration) -> Result<(), Ended> {
        self.0.shared.group.leave(patience);
        self.0.join_executor();
        match self.0.shared.calls.check() {
            Err(Ended::Left) => Ok(()),
            Err(ended) => Err(ended),
            Ok(()) => Err(Ended::Os("this is called by a method of the object".into())),
        }
    }
}

impl<S: Replicated> Clone for Replica<S> {
    fn clone(&self) -> Replica<S> {
        Replica(Arc::clone(&self.0))
    }
}

impl<S: Replicated> fmt::Debug for Replica<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Replica").field(&self.me()).finish()
    }
}

impl<S: Replicated> Owner<S> {
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

impl<S: Replicated> Drop for Owner<S> {
    fn drop(&mut self) {
        self.shared.group.abandon();
        self.join_executor();
    }
}

impl<S> Shared<S> {
    /// The wait for room. O3: room comes by deliveries, for which a handler would wait.
    fn send_patience(&self) -> Duration {
        if is_in_handler() { Duration::ZERO } else { self.patience }
    }

    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Replicated> Shared<S> {
    /// The executing thread: until the process is no longer in the group.
    fn run(&self, mut events: VecDeque<Event>) {
        let _last = Last(self);
        loop {
            while let Some(event) = events.pop_front() {
                match event {
                    Event::View(view) => {
                        let mut current = self.view();
                        self.calls.keep_asking(&view);
                        *current = view;
                        drop(current);
                        self.next_view.notify_all();
                    }
                    Event::Delivered(delivered) => {
                        if let Err(ended) = self.execute(&delivered) {
                            self.group.abandon();
                            return self.calls.end(&ended);
                        }
                    }
                    Event::Letter { from, bytes } => self.take_letter(from, &bytes),
                    Event::StateWanted(wanted) => {
                        let object = self.object.read().unwrap_or_else(PoisonError::into_inner);
                        self.group.give(wanted, encode(&*object));
                    }
                    Event::Ended(ended) => return self.calls.end(&ended),
                    Event::Inadequate { .. } | Event::InadequateSubgroup { .. } => {}
                    Event::Unsent { .. } => {}
                    Event::State { .. } => unreachable!("V9: a member is given a state once"),
                }
            }
            self.group.take(&mut events, LOOK_EVERY);
        }
    }

    /// Answers a member's question, or takes its answer.
    fn take_letter(&self, from: Member, bytes: &[u8]) {
        match Letter::decode(bytes) {
            Some(Letter::Ask { ticket, method, arguments }) => {
                let object = self.object.read().unwrap_or_else(PoisonError::into_inner);
                let answer = || object.answer(method, arguments);
                // A query that panics harms nothing here: its caller is told by silence.
                let Ok(answer) = in_handler(|| catch_unwind(AssertUnwindSafe(answer))) else {
                    return;
                };
                let result = match &answer {
                    Ok(result) if result.len() <= BODY_BYTES_MAX => Ok(&result[..]),
                    Ok(_) => Err(NoAnswer::TooLong),
                    Err(Undecodable) => Err(NoAnswer::Undecodable),
                };
                // Without room the answer is lost, and the question comes again.
                let _lost = self.group.tell(from.seat, &Letter::Answer { ticket, result }.encode());
            }
            Some(Letter::Answer { ticket, result }) => self.calls.settle(ticket, outcome(result)),
            None => {}
        }
    }

    /// Executes one call. An error ends the process: its copy may be half changed.
    fn execute(&self, delivered: &Delivered) -> Result<(), Ended> {
        let Some((ticket, number, arguments)) = decode_call(&delivered.bytes) else {
            return Ok(());
        };
        let is_own = delivered.own.is_some();
        let outcome: Outcome = match S::METHODS.get(usize::from(number)) {
            Some(method) if method.is_query && !is_own => return Ok(()),
            Some(method) if method.is_query => {
                let object = self.object.read().unwrap_or_else(PoisonError::into_inner);
                handle(method, delivered, || object.answer(number, arguments))?
            }
            Some(method) => {
                let mut object = self.object.write().unwrap_or_else(PoisonError::into_inner);
                handle(method, delivered, || object.execute(number, arguments))?
            }
            None => Err(CallError::Undecodable),
        };
        if is_own {
            self.calls.settle(ticket, outcome);
        }
        Ok(())
    }
}

/// The end of the executing thread: whatever ends it, no caller waits for it.
struct Last<'a, S>(&'a Shared<S>);

impl<S> Drop for Last<'_, S> {
    fn drop(&mut self) {
        self.0.group.abandon();
        self.0.calls.end(&Ended::Os("the thread that executes calls has panicked".into()));
    }
}

/// Runs a method at its place in the order.
fn handle(
    method: &Method,
    delivered: &Delivered,
    run: impl FnOnce() -> Result<Vec<u8>, Undecodable>,
) -> Result<Outcome, Ended> {
    match in_handler(|| catch_unwind(AssertUnwindSafe(run))) {
        Ok(result) => Ok(result.map_err(|Undecodable| CallError::Undecodable)),
        Err(_panic) => Err(Ended::Panicked {
            method: method.name,
            view: delivered.view,
            sequence: delivered.sequence,
        }),
    }
}

/// The options of a group whose members have this object: they have to agree on its methods.
fn typed<S: Replicated>(options: &Options) -> Options {
    let methods: Vec<&str> = S::METHODS.iter().map(|method| method.signature).collect();
    let application = format!("{}; {}", options.application, methods.join("; "));
    Options { application, keeps_state: true, ..options.clone() }
}

fn first_view(
    group: &Group,
    events: &mut VecDeque<Event>,
    options: &Options,
) -> Result<View, Error> {
    let by = deadline(options.patience);
    while events.is_empty() {
        take(group, events, by, options)?;
    }
    match events.pop_front() {
        Some(Event::View(view)) => Ok(view),
        Some(Event::Ended(ended)) => Err(ended.into()),
        other => unreachable!("a process is told its first view first, not {other:?}"),
    }
}

/// Takes what there is, and an error if nothing comes in time.
fn take(
    group: &Group,
    events: &mut VecDeque<Event>,
    by: Instant,
    options: &Options,
) -> Result<(), Error> {
    let left = by.saturating_duration_since(Instant::now());
    if left.is_zero() {
        let patience = options.patience;
        return Err(Error::NoState(format!("no member gave its copy within {patience:?}")));
    }
    group.take(events, left);
    Ok(())
}
