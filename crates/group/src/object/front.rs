//! What a member answers for others than its own callers: by its copy, or by another member's.

use super::clients::{Clients, Served};
use super::codec::encode;
use super::copy::Part;
use super::frames::{Answer, RemoteError, Request, Way};
use super::handler::is_in_handler;
use super::pending::{CallError, Reply};
use super::replica::Replica;
use super::replicated::{MethodKind, Replicated, agreed};
use crate::error::Error;
use crate::time::Time;
use fabric::tcp::hello::Secret;
use proto::vsync::ShardId;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<S: Replicated> Replica<S> {
    /// The same with the arguments' bytes.
    pub(super) fn ask_then_bytes(
        &self,
        method: u16,
        then: Time,
        arguments: &[u8],
    ) -> Result<Reply, CallError> {
        if is_in_handler() {
            return Err(CallError::InHandler);
        }
        let (own, patience) = (self.copy.shard(), self.patience());
        let meant = self.shard.or(own).ok_or(CallError::NoCopy)?;
        if own != Some(meant) {
            return self.ask_there(then, method, arguments);
        }
        let shard = ShardId { subgroup: self.subgroup, shard: meant };
        if !self.host().wait_final(shard, then, patience).map_err(CallError::Unknown)? {
            return Err(CallError::Late(patience));
        }
        self.answer_here(meant, method, arguments)
    }

    /// A member of the shard that calls are for answers a query.
    fn ask_there(&self, then: Time, method: u16, arguments: &[u8]) -> Result<Reply, CallError> {
        let seats = self.seats();
        let at = self.me().seat.checked_rem(seats.len()).unwrap_or(0);
        let seat = *seats.get(at).ok_or(CallError::NoCopy)?;
        let patience = self.patience();
        let outcome = self.ask_bytes(seat, then, method, arguments).wait(patience);
        outcome.unwrap_or(Err(CallError::Late(patience)))
    }

    /// The own copy answers a query.
    fn answer_here(&self, shard: u16, method: u16, arguments: &[u8]) -> Result<Reply, CallError> {
        let answer = |object: &S| object.answer(method, arguments);
        let answer = || self.copy.look(Some(shard), answer);
        let answer = catch_unwind(AssertUnwindSafe(answer));
        let answer = answer.map_err(|_panic| CallError::QueryPanicked)?;
        let bytes = answer.ok_or(CallError::NoCopy)?.map_err(|_| CallError::Undecodable)?;
        Ok(Reply { bytes, time: self.latest() })
    }

    /// A copy answers a query: the own one, or one of the shard that calls are for.
    pub(super) fn ask_near(&self, method: u16, arguments: &[u8]) -> Result<Reply, CallError> {
        self.host().calls.check().map_err(CallError::Unknown)?;
        let own = self.copy.shard();
        let meant = self.shard.or(own).ok_or(CallError::NoCopy)?;
        if own == Some(meant) {
            self.answer_here(meant, method, arguments)
        } else {
            self.ask_there(Time::default(), method, arguments)
        }
    }

    /// Takes it that something of this time has led to what is called from now on.
    pub(super) fn learn(&self, time: Time) {
        self.host().learn(time);
    }

    // ---- clients outside of the group ----

    /// Serves clients outside of the group that connect to `listener`, until what this returns is
    /// dropped: they call this object by way of this member ([`crate::Remote`]). Nothing is
    /// encrypted.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn serve_clients(&self, listener: TcpListener) -> Result<Clients, Error> {
        let host = self.host();
        let (group, secret) = host.access();
        let of = Served {
            group: group.to_owned(),
            subgroup: host.name_of(self.subgroup).to_owned(),
            secret: Secret::new(secret.as_bytes()),
            methods: agreed::<S>(),
            n_shards: self.n_shards as u64,
        };
        let (replica, inside) = (self.clone(), self.clone());
        let check = move || inside.host().calls.check();
        Clients::serve(listener, of, check, move |request| answer(&replica, request))
    }
}

/// Executes one request.
fn answer<S: Replicated>(replica: &Replica<S>, request: Request) -> Answer {
    if let Err(ended) = replica.host().calls.check() {
        return Answer::Elsewhere(ended.to_string());
    }
    let Request { way, shard, method, after, arguments } = request;
    let Some(known) = S::METHODS.get(usize::from(method)) else {
        return Answer::Failed(RemoteError::Undecodable);
    };
    let is_meant = match way {
        Way::Ordered => known.kind != MethodKind::P2p,
        Way::Copy | Way::AsOf(_) => known.kind == MethodKind::Query,
        Way::At(_) => known.kind == MethodKind::P2p,
        Way::Seats => true,
    };
    if !is_meant {
        return Answer::Failed(RemoteError::Undecodable);
    }
    let changes = way != Way::Seats && known.kind != MethodKind::Query;
    let replica = shard.map_or_else(|| replica.clone(), |shard| replica.in_shard(shard.into()));
    if let Err(far) = after.check_near() {
        return Answer::of(Err(CallError::NotExecuted(far.into())), changes);
    }
    replica.learn(after);
    let patience = replica.patience();
    let outcome = match way {
        Way::Ordered => {
            let slot = replica.call_bytes(method, &arguments);
            slot.wait(patience).unwrap_or(Err(CallError::Late(patience)))
        }
        Way::At(seat) => {
            let seat = usize::try_from(seat).unwrap_or(usize::MAX);
            let slot = replica.p2p_bytes(seat, method, &arguments);
            slot.wait(patience).unwrap_or(Err(CallError::Late(patience)))
        }
        Way::Seats => Ok(Reply { bytes: encode(&replica.seats()), time: replica.latest() }),
        Way::Copy => replica.ask_near(method, &arguments),
        Way::AsOf(then) => replica.ask_then_bytes(method, then, &arguments),
    };
    Answer::of(outcome, changes)
}
