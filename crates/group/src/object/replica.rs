//! A process's way to one object.

use super::calls::{Waiter, Wish};
use super::codec::encode;
use super::copy::{Call, Copy, Part, state_of};
use super::handler::{check_turn, is_in_handler};
use super::host::{BODY_BYTES_MAX, Host};
use super::letters::Letter;
use super::owner::Owner;
use super::pending::{CallError, Pending, Question, Slot, read};
use super::replicated::{Replicated, agreed};
use crate::deadline::deadline;
#[cfg(doc)]
use crate::door::Group;
use crate::error::{Error, Refused};
use crate::event::{Ended, Member, View};
use crate::options::Options;
use crate::time::Time;
use proto::vsync::ShardId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a member that had no lease looks for one again.
const LEASE_EVERY: Duration = Duration::from_millis(5);

/// This process's copy of a replicated object, which is a member of a group, or of one of its
/// shards. Clones are the same copy. When the last one is dropped, the process is gone from the
/// group, and the others take it for failed; [`Replica::close`] leaves in order.
///
/// `#[replicated]` makes a handle of it, with the object's methods.
pub struct Replica<S: Replicated> {
    owner: Arc<Owner>,
    pub(super) copy: Arc<Copy<S>>,
    pub(super) subgroup: u16,
    pub(super) n_shards: usize,
    /// The shard that calls are for; without one that of this process.
    pub(super) shard: Option<u16>,
}

impl<S: Replicated> Replica<S> {
    /// Founds the group with this process alone, whose object is `object`. (In a group with a
    /// layout there are several objects: [`Replicas`].)
    ///
    /// # Errors
    /// As for [`Group::found`]; and [`Ended::StateUnreadable`], before anything is made.
    pub fn found(options: &Options, object: S) -> Result<Replica<S>, Error> {
        state_of(&object)?;
        let object = Mutex::new(Some(object));
        let first = move || object.lock().unwrap_or_else(PoisonError::into_inner).take();
        Replica::begin(options, true, first)
    }

    /// Joins the group. Returns when this process has a copy of the object, which follows the
    /// others' from then on.
    ///
    /// # Errors
    /// As for [`Group::join`]; [`Error::NoState`] if no member gives its copy in time, or one that
    /// cannot be read; and [`Ended::NotBegun`] if the log of a founder is found that was gone
    /// before the log had its object.
    pub fn join(options: &Options) -> Result<Replica<S>, Error> {
        Replica::begin(options, false, || None)
    }

    fn begin(
        options: &Options,
        founds: bool,
        first: impl Fn() -> Option<S> + Send + Sync + 'static,
    ) -> Result<Replica<S>, Error> {
        if !options.layout.is_empty() {
            let why = "a layout has an object for each subgroup: give them to `Replicas`";
            return Err(Error::Options(why.into()));
        }
        let copy = Arc::new(Copy::new(first));
        let options = typed(options, &agreed::<S>());
        let owner = Owner::begin(&options, founds, vec![Some(Arc::clone(&copy) as _)])?;
        Ok(Replica { owner, copy, subgroup: 0, n_shards: 1, shard: None })
    }

    pub(super) fn host(&self) -> &Arc<Host> {
        &self.owner.host
    }

    // ---- shards ----

    /// The same object in shard `shard` of its subgroup, from 0. Calls go there: a process that is
    /// a sender of the shard multicasts them, another one has a sender do it.
    #[must_use]
    pub fn in_shard(&self, shard: usize) -> Replica<S> {
        Replica { shard: Some(shard.try_into().unwrap_or(u16::MAX)), ..self.clone() }
    }

    /// The shard that `key` belongs to, by a hash that is the same at all members.
    pub fn shard_for(&self, key: &impl Serialize) -> usize {
        (xxhash_rust::xxh3::xxh3_64(&encode(key)) % self.n_shards as u64) as usize
    }

    /// The shard in which this process is, if it is in one.
    pub fn own_shard(&self) -> Option<usize> {
        self.copy.shard().map(usize::from)
    }

    /// The shard that calls are for, if this process is in it.
    pub(super) fn own_shard_meant(&self) -> Option<ShardId> {
        let own = self.copy.shard().filter(|own| self.shard.is_none_or(|meant| meant == *own));
        own.map(|shard| ShardId { subgroup: self.subgroup, shard })
    }

    /// The seats of the members of the shard that calls are for, in the view that this member has
    /// come to.
    pub fn seats(&self) -> Vec<usize> {
        let Some(shard) = self.shard.or_else(|| self.copy.shard()) else { return Vec::new() };
        let view = self.host().view();
        let shard = view.shard(ShardId { subgroup: self.subgroup, shard });
        shard.map_or(Vec::new(), |shard| shard.members.iter().map(|one| one.seat).collect())
    }

    // ---- the group ----

    /// This process.
    pub fn me(&self) -> Member {
        self.host().group.me()
    }

    /// The view that this member's copy has come to.
    pub fn view(&self) -> View {
        self.host().view().clone()
    }

    /// Waits until `holds` of the view, or of whatever else it asks of the group; `None` after the
    /// timeout.
    pub fn wait_view(&self, holds: impl Fn(&View) -> bool, timeout: Duration) -> Option<View> {
        self.host().current.wait_outside(holds, timeout)
    }

    /// [`Options::patience`].
    pub fn patience(&self) -> Duration {
        self.host().patience()
    }

    /// Waits until this process has a copy of the shard that calls are for, or of any. False after
    /// the timeout; and within a method of the object, unless it is there already.
    pub fn wait_copy(&self, timeout: Duration) -> bool {
        let timeout = if is_in_handler() { Duration::ZERO } else { timeout };
        self.host().wait_view(|_| self.copy.is_there(self.shard), timeout).is_some()
    }

    // ---- calls ----

    /// Looks at this member's copy as it is now, which may lag behind others'.
    ///
    /// # Errors
    /// [`CallError::Unknown`] if the process is no longer in the group, [`CallError::InHandler`]
    /// within a method of the object or another look at it, [`CallError::NoCopy`] if it is not in
    /// the shard.
    pub fn query<R>(&self, look: impl FnOnce(&S) -> R) -> Result<R, CallError> {
        if is_in_handler() {
            return Err(CallError::InHandler);
        }
        self.host().calls.check().map_err(CallError::Unknown)?;
        self.copy.look(self.shard, look).ok_or(CallError::NoCopy)
    }

    /// Calls the method with this number: `#[replicated]` makes the code that does.
    #[doc(hidden)]
    pub fn call<R>(&self, method: u16, arguments: &impl Serialize) -> Pending<R> {
        self.pending(&self.call_bytes(method, &encode(arguments)))
    }

    /// The same with the arguments' bytes.
    pub(super) fn call_bytes(&self, method: u16, arguments: &[u8]) -> Arc<Slot> {
        let own = self.copy.shard();
        let meant = self.shard.or(own);
        let (host, slot) = (self.host(), Arc::<Slot>::default());
        if let Err(refused) = check_turn() {
            slot.fill(Err(refused.into()));
            return slot;
        }
        let Some(shard) = meant.map(|shard| ShardId { subgroup: self.subgroup, shard }) else {
            slot.fill(Err(CallError::NoCopy));
            return slot;
        };
        if meant != own || !host.sends_in(self.subgroup) {
            self.order(shard, method, arguments, &slot);
            return slot;
        }
        let ticket = host.calls.ticket();
        match host.calls.enter(ticket, Waiter::Here(Arc::clone(&slot))) {
            Ok(()) => {
                let call = Call { method, arguments };
                host.multicast(shard, ticket, call, host.send_patience());
            }
            Err(ended) => slot.fill(Err(CallError::NotExecuted(ended.into()))),
        }
        slot
    }

    /// Has a sender of `shard` make a call. It is asked once: a letter that is lost leaves it open
    /// whether the call was executed.
    fn order(&self, shard: ShardId, method: u16, arguments: &[u8], slot: &Arc<Slot>) {
        let (host, view) = (self.host(), self.host().view());
        let senders = view.shard(shard).map_or(&[][..], |shard| &shard.senders);
        let most = host.arguments_max();
        // The callers of one shard spread over its senders.
        let at = self.me().seat.checked_rem(senders.len()).unwrap_or(0);
        let entered = match senders.get(at) {
            None => Err(CallError::NotExecuted(host.no_sender(shard, &view))),
            Some(_) if arguments.len() > most => Err(too_long(arguments, most).into()),
            Some(asked) => {
                let ticket = host.calls.ticket();
                let waiter = Waiter::Asks(Arc::clone(slot), *asked, Wish::Call);
                // Under the view's lock: the next view ends it, if the member is not in that.
                let entered = host.calls.enter(ticket, waiter);
                entered
                    .map(|()| (ticket, asked.seat))
                    .map_err(|ended| CallError::NotExecuted(ended.into()))
            }
        };
        drop(view);
        match entered {
            Ok((ticket, seat)) => {
                let after = host.latest();
                let letter = Letter::Order { ticket, after, shard, method, arguments }.encode();
                if let Err(refused) = host.group.tell_within(seat, &letter, host.send_patience()) {
                    host.calls.settle(ticket, Err(refused.into()));
                }
            }
            Err(error) => slot.fill(Err(error)),
        }
    }

    /// Asks the member on `seat` the query with this number: `#[replicated]` makes the code that
    /// does.
    #[doc(hidden)]
    pub fn ask<R>(&self, seat: usize, method: u16, arguments: &impl Serialize) -> Pending<R> {
        self.ask_then_at(seat, method, Time::default(), arguments)
    }

    /// Asks the member on `seat` the query with this number as of the time `then`: `#[replicated]`
    /// makes the code that does.
    #[doc(hidden)]
    pub fn ask_then_at<R>(
        &self,
        seat: usize,
        method: u16,
        then: Time,
        arguments: &impl Serialize,
    ) -> Pending<R> {
        self.pending(&self.ask_bytes(seat, then, method, &encode(arguments)))
    }

    /// Asks the member on `seat` a query as of a time, or zero: now.
    pub(super) fn ask_bytes(
        &self,
        seat: usize,
        then: Time,
        method: u16,
        arguments: &[u8],
    ) -> Arc<Slot> {
        let host = self.host();
        let ticket = host.calls.ticket();
        let view = host.view();
        let asked = view.members.iter().copied().find(|member| member.seat == seat);
        let own = view.shard_of(self.subgroup, seat).map(|shard| shard.id);
        let meant = self.shard.map(|shard| ShardId { subgroup: self.subgroup, shard });
        let shard = own.filter(|own| meant.is_none_or(|meant| meant == *own));
        let slot =
            Arc::new(Slot::of(self.question(seat, then, shard, (ticket, method, arguments))));
        let entered = match (asked, shard) {
            _ if check_turn().is_err() => Err(Refused::Ahead.into()),
            _ if arguments.len() > BODY_BYTES_MAX => {
                Err(too_long(arguments, BODY_BYTES_MAX).into())
            }
            (None, _) => Err(CallError::Gone(seat)),
            (Some(_), None) => Err(CallError::Declined(seat)),
            // Under the view's lock: the next view ends it, if the member is not in that.
            (Some(asked), Some(_)) => host
                .calls
                .enter(ticket, Waiter::Asks(Arc::clone(&slot), asked, Wish::Answer))
                .map_err(|ended| CallError::NotExecuted(Refused::Ended(ended))),
        };
        drop(view);
        match entered {
            Ok(()) => slot.ask(host.send_patience()),
            Err(error) => slot.fill(Err(error)),
        }
        slot
    }

    /// Answers the query with this number as of the time `then`: when the copy that is asked, this
    /// member's or that of a member of the shard, is final up to there. `#[replicated]` makes the
    /// code that calls this.
    #[doc(hidden)]
    pub fn ask_then<R: DeserializeOwned>(
        &self,
        method: u16,
        then: Time,
        arguments: &impl Serialize,
    ) -> Result<R, CallError> {
        let reply = self.ask_then_bytes(method, then, &encode(arguments))?;
        read(&reply.bytes)
    }

    /// Answers the query with this number from the own copy, by a lease: `#[replicated]` makes the
    /// code that calls this.
    #[doc(hidden)]
    pub fn ask_leased<R: DeserializeOwned>(
        &self,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, CallError> {
        if is_in_handler() {
            return Err(CallError::InHandler);
        }
        let (host, arguments) = (self.host(), encode(arguments));
        let (patience, by) = (self.patience(), deadline(self.patience()));
        loop {
            host.calls.check().map_err(CallError::Unknown)?;
            let own = self.copy.shard().ok_or(CallError::NoCopy)?;
            let meant = self.shard.unwrap_or(own);
            let left = by.saturating_duration_since(Instant::now());
            if let Some(view) = host.catch_up(self.subgroup, left) {
                let answer = |object: &S| object.answer(method, &arguments);
                let bytes = self.copy.look(Some(meant), answer).ok_or(CallError::NoCopy)?;
                // Behind the read: what is answered from now on may not be in it.
                if host.group.has_lease(self.subgroup, view) {
                    let bytes = bytes.map_err(|_| CallError::Undecodable)?;
                    return read(&bytes);
                }
            }
            if left.is_zero() || !host.has_leases() {
                return Err(CallError::NoLease(patience));
            }
            // A lease comes with the others' next beats, or when others' leases are over.
            let _waited = host.wait_view(|_| host.calls.check().is_err(), left.min(LEASE_EVERY));
        }
    }

    /// The latest time that this process knows of: that of every call whose outcome it has, and of
    /// all that its copies have executed. A query as of this time sees all of it.
    pub fn latest(&self) -> Time {
        self.host().latest()
    }

    fn question(
        &self,
        seat: usize,
        then: Time,
        shard: Option<ShardId>,
        (ticket, method, arguments): (u64, u16, &[u8]),
    ) -> Question {
        let shard = shard.unwrap_or_default();
        let letter = Letter::Ask { ticket, then, shard, method, arguments }.encode();
        Question::of(self.host(), seat, letter)
    }

    pub(super) fn pending<R>(&self, slot: &Arc<Slot>) -> Pending<R> {
        let patience = self.host().patience();
        Pending { slot: Arc::clone(slot), patience, result: PhantomData }
    }

    // ---- the end ----

    /// Waits until this process is no longer in the group: the reason, or `None` after the timeout.
    pub fn wait_end(&self, timeout: Duration) -> Option<Ended> {
        self.host().calls.wait_end(timeout)
    }

    /// Takes it that the member on `seat` has failed; see [`Group::suspect`]. (A method that is
    /// executed ahead of its turn suspects no member.)
    pub fn suspect(&self, seat: usize) {
        if check_turn().is_ok() {
            self.host().group.suspect(seat);
        }
    }

    /// Leaves in order, within `patience`: what was called before has its outcome then; also what
    /// other members execute, if that takes no longer than half of it, and than
    /// [`Options::patience`]. All objects of this process leave.
    ///
    /// # Errors
    /// The other reason why the process is no longer in the group; or it is there still, since a
    /// method of the object calls this, or another clone has begun to leave, with more patience.
    pub fn close(self, patience: Duration) -> Result<(), Ended> {
        self.owner.close(patience, self.patience())
    }
}

impl<S: Replicated> Clone for Replica<S> {
    fn clone(&self) -> Replica<S> {
        Replica {
            owner: Arc::clone(&self.owner),
            copy: Arc::clone(&self.copy),
            subgroup: self.subgroup,
            n_shards: self.n_shards,
            shard: self.shard,
        }
    }
}

impl<S: Replicated> fmt::Debug for Replica<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("me", &self.me()).field("shard", &self.shard).finish()
    }
}

impl Question {
    /// A letter to the member on `seat`.
    pub(super) fn of(host: &Arc<Host>, seat: usize, letter: Vec<u8>) -> Question {
        let theirs = Arc::downgrade(host);
        Question(Box::new(move |patience| {
            let host = theirs.upgrade();
            // A letter that finds no room is one that is lost.
            let _lost = host.map(|host| host.group.tell_within(seat, &letter, patience));
        }))
    }
}

pub(super) const fn too_long(arguments: &[u8], most: usize) -> Refused {
    Refused::TooLong { bytes: arguments.len(), most: most as u32 }
}

// ---- several objects ----

/// The objects of a process in a group with a layout: one for each subgroup that has one. A process
/// has a copy of an object in the shard that it is in; see [`crate::Subgroup`].
///
/// All processes of a group give the same objects.
///
/// ```
/// use group::{Options, Replicas, Subgroup, replicated};
/// use serde::{Deserialize, Serialize};
/// use std::collections::BTreeMap;
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Stock(BTreeMap<String, u32>);
///
/// #[replicated]
/// impl Stock {
///     #[ordered]
///     fn deliver(&mut self, article: String, n: u32) -> u32 {
///         let pieces = self.0.entry(article).or_default();
///         *pieces += n;
///         *pieces
///     }
/// }
///
/// # let directory = tempfile::Builder::new().prefix("gregale-").tempdir_in("/dev/shm")?;
/// let options = Options {
///     layout: vec![Subgroup::new("stock").shards(2).members(1, 3)],
///     ..Options::shm("shop", "only the tills know this", "shop 2")
/// };
/// # let options = Options { directory: directory.path().into(), ..options };
/// let till = || Replicas::of(&options).object("stock", Stock::default);
/// let (first, second) = (till().found()?, till().join()?); // another process, as a rule
/// let stock = StockHandle::from(first.get("stock").ok_or("no stock")?);
/// stock.wait_view(|view| view.shards.iter().all(|shard| shard.is_adequate), stock.patience());
/// for article in ["kite", "string", "tail"] {
///     // In the shard of the article, whichever this process is in.
///     assert_eq!(stock.for_key(&article).deliver(article.into(), 3).wait(), Ok(3));
/// }
/// # drop(second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replicas {
    options: Options,
    objects: Vec<Object>,
    wrong: Option<String>,
}

/// An object of a subgroup.
struct Object {
    subgroup: usize,
    agreed: String,
    part: Arc<dyn Part>,
    copy: Arc<dyn Any + Send + Sync>,
}

impl Replicas {
    /// No objects yet, in the group of `options`.
    pub fn of(options: &Options) -> Replicas {
        Replicas { options: options.clone(), objects: Vec::new(), wrong: None }
    }

    /// Gives the subgroup with this name an object, with which each of its shards begins: as it is
    /// founded, and again if all members that had a shard's copy are gone.
    #[must_use]
    pub fn object<S: Replicated>(
        mut self,
        subgroup: &str,
        begin: impl Fn() -> S + Send + Sync + 'static,
    ) -> Replicas {
        let found = self.options.shard(subgroup, 0).map(|shard| usize::from(shard.subgroup));
        let is_new = |at: &usize| self.objects.iter().all(|object| object.subgroup != *at);
        let lacks_order = |at: usize| self.options.layout.get(at).is_some_and(|one| one.unordered);
        match found {
            Some(at) if lacks_order(at) => {
                self.wrong = Some(format!("an object for {subgroup:?}, which has no order"));
            }
            Some(subgroup) if is_new(&subgroup) => {
                let copy = Arc::new(Copy::<S>::new(move || Some(begin())));
                let (part, agreed) = (Arc::clone(&copy) as _, agreed::<S>());
                self.objects.push(Object { subgroup, agreed, part, copy });
            }
            Some(_) => self.wrong = Some(format!("two objects for the subgroup {subgroup:?}")),
            None => self.wrong = Some(format!("an object for {subgroup:?}, which is no subgroup")),
        }
        self
    }

    /// Founds the group with this process alone.
    ///
    /// # Errors
    /// As for [`Group::found`].
    pub fn found(self) -> Result<Objects, Error> {
        self.begin(true)
    }

    /// Joins the group. Returns when this process has the copies of all shards that it is in.
    ///
    /// # Errors
    /// As for [`Replica::join`].
    pub fn join(self) -> Result<Objects, Error> {
        self.begin(false)
    }

    fn begin(self, founds: bool) -> Result<Objects, Error> {
        self.with(|options, parts| Owner::begin(options, founds, parts))
    }

    /// The objects with the owner that `begin` makes, of the group's options and the copies.
    pub(super) fn with(
        self,
        begin: impl FnOnce(&Options, Vec<Option<Arc<dyn Part>>>) -> Result<Arc<Owner>, Error>,
    ) -> Result<Objects, Error> {
        if let Some(wrong) = self.wrong {
            return Err(Error::Options(wrong));
        }
        let mut parts = vec![None; self.options.layout.len().max(1)];
        let mut agreed = vec![String::new(); parts.len()];
        for object in &self.objects {
            parts[object.subgroup] = Some(Arc::clone(&object.part));
            agreed[object.subgroup].clone_from(&object.agreed);
        }
        let options = typed(&self.options, &agreed.join(" | "));
        let owner = begin(&options, parts)?;
        Ok(Objects { owner, options, objects: self.objects })
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A process with its objects ([`Replicas`]), in the group.
pub struct Objects {
    owner: Arc<Owner>,
    options: Options,
    objects: Vec<Object>,
}

impl Objects {
    pub(super) fn host(&self) -> &Host {
        &self.owner.host
    }

    /// The object of the subgroup with this name; `None` if it has no object of this type.
    pub fn get<S: Replicated>(&self, subgroup: &str) -> Option<Replica<S>> {
        let id = self.options.shard(subgroup, 0)?;
        let at = usize::from(id.subgroup);
        let object = self.objects.iter().find(|object| object.subgroup == at)?;
        let copy = Arc::clone(&object.copy).downcast::<Copy<S>>().ok()?;
        let n_shards = self.options.layout.get(at).map_or(1, crate::Subgroup::n_shards);
        let owner = Arc::clone(&self.owner);
        Some(Replica { owner, copy, subgroup: id.subgroup, n_shards, shard: None })
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("me", &self.owner.host.group.me()).finish_non_exhaustive()
    }
}

/// The options of a group whose members have these objects: they have to agree on them.
fn typed(options: &Options, agreed: &str) -> Options {
    let application = format!("{}; {agreed}", options.application);
    Options { application, keeps_state: true, ..options.clone() }
}
