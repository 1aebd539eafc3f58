//! This process's copy of the object of one subgroup: that of the shard in which it is, if it is in
//! one.

use super::codec::{Undecodable, decode, try_encode};
use super::handler::{in_handler, in_order};
use super::local::Here;
use super::moment::{Moment, Version};
use super::pending::{CallError, Outcome, Reply};
use super::replicated::{Method, MethodKind, Replicated};
use super::versions::founding;
use crate::event::{Delivered, Ended, View};
use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The copy of an object of any type.
pub(super) trait Part: Send + Sync {
    /// Follows this process, on `seat`, into `view`. An error ends the process: its shard begins
    /// again, and it does not have the object to begin with.
    fn install(&self, view: &View, subgroup: u16, seat: usize) -> Result<(), Ended>;

    /// Executes one call. An error ends the process: its copy may be half changed.
    fn execute(
        &self,
        delivered: &Delivered,
        call: &Call<'_>,
        replying: Replying,
    ) -> Result<Option<Outcome>, Ended>;

    /// Answers a query. `None` if there is no copy of this shard.
    fn answer(&self, shard: u16, call: &Call<'_>) -> Option<Result<Vec<u8>, Undecodable>>;

    /// Runs a p2p method. `None` if there is no copy of this shard. An error ends the process: what
    /// it has for itself may be half changed.
    fn run_here(
        &self,
        shard: u16,
        call: &Call<'_>,
        here: &Here,
    ) -> Result<Option<Result<Vec<u8>, Undecodable>>, Ended>;

    /// The copy as bytes, from which it comes back. An error ends the process: such bytes must not
    /// take the place of calls.
    fn state(&self) -> Result<Vec<u8>, Ended>;

    /// The copy as bytes that are read elsewhere. `None` if it has none.
    fn bytes(&self) -> Option<Vec<u8>>;

    /// Takes the copy that another member gave.
    fn take(&self, bytes: &[u8]) -> Result<(), Undecodable>;

    /// Whether there is nothing to wait for: the process has a copy, or is in no shard.
    fn is_settled(&self) -> bool;

    /// The shard in which this process is.
    fn shard(&self) -> Option<u16>;
}

/// The members that reply to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replying {
    /// The caller's own.
    Caller,
    /// Each.
    Each,
}

/// A method, and its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) method: u16,
    pub(super) arguments: &'a [u8],
}

/// See the module's text. O1: written by the executing thread alone.
pub(super) struct Copy<S> {
    /// Makes the object with which a shard begins, if this process has it.
    begin: Box<dyn Fn() -> Option<S> + Send + Sync>,
    object: RwLock<Option<S>>,
    /// A lock of its own, for methods that make calls, and for waits that hold other locks.
    stay: Mutex<Stay>,
}

/// The stay of this process in a shard.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    /// The shard, and the view in which it began.
    shard: Option<(u16, u64)>,
    /// Whether its copy is here.
    is_there: bool,
}

impl<S: Replicated> Copy<S> {
    pub(super) fn new(begin: impl Fn() -> Option<S> + Send + Sync + 'static) -> Copy<S> {
        Copy { begin: Box::new(begin), object: RwLock::new(None), stay: Mutex::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<S>> {
        self.object.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<S>> {
        self.object.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn stay(&self) -> MutexGuard<'_, Stay> {
        self.stay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the copy, if it is of `shard`, or of any. O3: a look within a look would wait for a
    /// call that waits for the outer one.
    pub(super) fn look<R>(&self, shard: Option<u16>, look: impl FnOnce(&S) -> R) -> Option<R> {
        let object = self.read();
        let is_meant = shard.is_none() || self.shard() == shard;
        object.as_ref().filter(|_| is_meant).map(|object| in_handler(|| look(object)))
    }

    /// Whether the copy is here, of `shard` or of any. It asks for no lock that a method has.
    pub(super) fn is_there(&self, shard: Option<u16>) -> bool {
        let Stay { shard: own, is_there } = *self.stay();
        is_there && (shard.is_none() || own.map(|(own, _)| own) == shard)
    }
}

impl<S: Replicated> Part for Copy<S> {
    fn install(&self, view: &View, subgroup: u16, seat: usize) -> Result<(), Ended> {
        let shard = view.shard_of(subgroup, seat);
        let is_in = shard.map(|shard| (shard.id.shard, shard.begun));
        // O4
        if self.stay().shard != is_in {
            let begins = shard.is_some_and(|shard| shard.begun == view.number);
            let begin = || founded(&(self.begin)().ok_or(Ended::NotBegun)?);
            let first = if begins { Some(begin()?) } else { None };
            let mut object = self.write();
            *self.stay() = Stay { shard: is_in, is_there: first.is_some() };
            *object = first;
        }
        Ok(())
    }

    fn execute(
        &self,
        delivered: &Delivered,
        call: &Call<'_>,
        replying: Replying,
    ) -> Result<Option<Outcome>, Ended> {
        let replies = delivered.own.is_some() || replying == Replying::Each;
        let Call { method: number, arguments } = *call;
        let Some(method) = S::METHODS.get(usize::from(number)) else {
            return Ok(Some(Err(CallError::Undecodable)));
        };
        Ok(match method.kind {
            MethodKind::Query if !replies => None,
            MethodKind::Query => {
                let object = self.read();
                let object = object.as_ref().expect("V9: the state comes before deliveries");
                // A query that panics harms no copy.
                let answered = handle(method, delivered, || object.answer(number, arguments));
                Some(answered.unwrap_or(Err(CallError::QueryPanicked)))
            }
            MethodKind::Ordered => {
                let mut object = self.write();
                let object = object.as_mut().expect("V9: the state comes before deliveries");
                Some(handle(method, delivered, || object.execute(number, arguments))?)
            }
            MethodKind::P2p => Some(Err(CallError::Undecodable)),
        })
    }

    fn answer(&self, shard: u16, call: &Call<'_>) -> Option<Result<Vec<u8>, Undecodable>> {
        self.look(Some(shard), |object| object.answer(call.method, call.arguments))
    }

    fn run_here(
        &self,
        shard: u16,
        call: &Call<'_>,
        here: &Here,
    ) -> Result<Option<Result<Vec<u8>, Undecodable>>, Ended> {
        let method = S::METHODS.get(usize::from(call.method));
        let Some(method) = method.filter(|method| method.kind == MethodKind::P2p) else {
            return Ok(Some(Err(Undecodable)));
        };
        let run = |object: &S| object.run_here(call.method, call.arguments, here);
        // O3
        let run = || catch_unwind(AssertUnwindSafe(|| self.look(Some(shard), run)));
        in_handler(run).map_err(|_panic| Ended::PanickedHere { method: method.name })
    }

    fn state(&self) -> Result<Vec<u8>, Ended> {
        self.read().as_ref().map_or_else(|| Ok(Vec::new()), state_of)
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        self.read().as_ref().and_then(try_encode)
    }

    fn take(&self, bytes: &[u8]) -> Result<(), Undecodable> {
        let taken = decode(bytes)?;
        let mut object = self.write();
        *object = Some(taken);
        self.stay().is_there = true;
        Ok(())
    }

    fn is_settled(&self) -> bool {
        let Stay { shard, is_there } = *self.stay();
        is_there || shard.is_none()
    }

    fn shard(&self) -> Option<u16> {
        self.stay().shard.map(|(shard, _)| shard)
    }
}

/// The bytes of an object, from which it comes back.
pub(super) fn state_of<S: Replicated>(object: &S) -> Result<Vec<u8>, Ended> {
    let bytes = try_encode(object).filter(|bytes| decode::<S>(bytes).is_ok());
    bytes.ok_or(Ended::StateUnreadable { object: type_name::<S>() })
}

/// The object with which a shard begins: as it comes back from its bytes at all other members, and
/// without the past that it had elsewhere (`versions`, M2).
fn founded<S: Replicated>(object: &S) -> Result<S, Ended> {
    let founded = try_encode(object).and_then(|bytes| founding(|| decode(&bytes)).ok());
    founded.ok_or(Ended::StateUnreadable { object: type_name::<S>() })
}

/// Runs a method at its place in the order.
fn handle(
    method: &Method,
    delivered: &Delivered,
    run: impl FnOnce() -> Result<Vec<u8>, Undecodable>,
) -> Result<Outcome, Ended> {
    let version = Version { view: delivered.view, sequence: delivered.sequence };
    let moment = Moment { version, time: delivered.time };
    match in_order(moment, || catch_unwind(AssertUnwindSafe(run))) {
        Ok(Ok(bytes)) => Ok(Ok(Reply { bytes, time: delivered.time })),
        Ok(Err(Undecodable)) => Ok(Err(CallError::Undecodable)),
        Err(_panic) => Err(Ended::Panicked {
            method: method.name,
            view: delivered.view,
            sequence: delivered.sequence,
        }),
    }
}
