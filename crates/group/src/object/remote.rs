//! The way of a process outside of a group to an object: over a connection to one of the members.

use super::codec::{decode, encode};
use super::frames::{self, Answer, Hello, RemoteError, Request, Way, Welcome};
use super::replicated::{MethodKind, Replicated, agreed};
use crate::deadline::deadline;
use crate::error::Refused;
use crate::time::Time;
use fabric::tcp::hello::{Secret, Side};
use runtime::By;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a client has to know of a group.
#[derive(Clone)]
pub struct Access {
    /// The addresses at which members serve clients ([`super::Replica::serve_clients`]).
    pub members: Vec<SocketAddr>,
    /// The name of the group.
    pub group: String,
    /// Its secret.
    pub secret: String,
    /// The name of the object's subgroup; empty in a group without a layout.
    pub subgroup: String,
    /// The longest wait for an answer.
    pub patience: Duration,
}

/// Omits the secret.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { members, group, subgroup, patience, .. } = self;
        f.debug_struct("Access")
            .field("members", members)
            .field("group", group)
            .field("subgroup", subgroup)
            .field("patience", patience)
            .finish_non_exhaustive()
    }
}

/// The object of a group, called from outside of it: by way of one member, and of another one when
/// that is gone. `#[replicated]` makes a handle of it, with the object's methods.
///
/// One call at a time: a clone has a connection of its own.
pub struct Remote<S: Replicated> {
    access: Access,
    line: Mutex<Line>,
    shard: Option<u16>,
    /// The latest time that this client knows of.
    latest: Arc<Mutex<Time>>,
    object: PhantomData<fn() -> S>,
}

/// A connection, and which member is tried next.
#[derive(Debug, Default)]
struct Line {
    stream: Option<TcpStream>,
    next: usize,
    n_shards: u64,
}

impl<S: Replicated> Remote<S> {
    /// Connects to a member.
    ///
    /// # Errors
    /// [`RemoteError::NotExecuted`], with what became of each member.
    pub fn connect(access: &Access) -> Result<Remote<S>, RemoteError> {
        let remote = Remote {
            access: access.clone(),
            line: Mutex::default(),
            shard: None,
            latest: Arc::default(),
            object: PhantomData,
        };
        remote.connected(&mut remote.line(), deadline(access.patience))?;
        Ok(remote)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Time> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same object in a shard of its subgroup, from 0.
    #[must_use]
    pub fn in_shard(&self, shard: usize) -> Remote<S> {
        Remote { shard: Some(shard.try_into().unwrap_or(u16::MAX)), ..self.clone() }
    }

    /// The shard that `key` belongs to: the same as for the members.
    pub fn shard_for(&self, key: &impl Serialize) -> usize {
        let n_shards = self.line().n_shards.max(1);
        (xxhash_rust::xxh3::xxh3_64(&encode(key)) % n_shards) as usize
    }

    /// The latest time that this client knows of: a query as of it sees all that its calls did.
    pub fn latest(&self) -> Time {
        *self.known()
    }

    /// The seats of the members of the shard that calls are for, in the view of the member that is
    /// asked; without a shard, of that member's.
    ///
    /// # Errors
    /// [`RemoteError::NotAnswered`], [`RemoteError::NotExecuted`].
    pub fn seats(&self) -> Result<Vec<usize>, RemoteError> {
        self.ask(Way::Seats, 0, &())
    }

    /// Has the member on `seat` execute the p2p method with this number.
    #[doc(hidden)]
    pub fn call_at<R: DeserializeOwned>(
        &self,
        seat: usize,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, RemoteError> {
        self.ask(Way::At(seat as u64), method, arguments)
    }

    /// Calls the method with this number at its place in the order.
    #[doc(hidden)]
    pub fn call<R: DeserializeOwned>(
        &self,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, RemoteError> {
        self.ask(Way::Ordered, method, arguments)
    }

    /// Has the copy of a member answer.
    #[doc(hidden)]
    pub fn query<R: DeserializeOwned>(
        &self,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, RemoteError> {
        self.ask(Way::Copy, method, arguments)
    }

    /// The same as of a time.
    #[doc(hidden)]
    pub fn query_then<R: DeserializeOwned>(
        &self,
        method: u16,
        then: Time,
        arguments: &impl Serialize,
    ) -> Result<R, RemoteError> {
        self.ask(Way::AsOf(then), method, arguments)
    }

    fn ask<R: DeserializeOwned>(
        &self,
        way: Way,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, RemoteError> {
        let (after, arguments) = (self.latest(), encode(arguments));
        if arguments.len() > frames::BODY_BYTES_MAX {
            let (bytes, most) = (arguments.len(), frames::BODY_BYTES_MAX as u32);
            return Err(RemoteError::NotExecuted(Refused::TooLong { bytes, most }.to_string()));
        }
        let request = Request { way, shard: self.shard, method, after, arguments };
        let known = S::METHODS.get(usize::from(method));
        let is_query = way == Way::Seats || known.is_some_and(|one| one.kind == MethodKind::Query);
        let by = deadline(self.access.patience);
        let mut line = self.line();
        let (bytes, time) = loop {
            self.connected(&mut line, by)?;
            match exchange(&line, &request, by) {
                Ok(Answer::Result(bytes, time)) => break (bytes, time),
                Ok(Answer::Failed(error)) => return Err(error),
                Ok(Answer::Elsewhere(why)) => {
                    line.stream = None;
                    line.next += 1;
                    std::thread::park_timeout(CONNECT_EVERY.min(left(by)));
                    if Instant::now() >= by {
                        return Err(match is_query {
                            true => RemoteError::NotAnswered(why),
                            false => RemoteError::NotExecuted(why),
                        });
                    }
                }
                Err(error) => {
                    // Q3: what was on its way may have been executed.
                    line.stream = None;
                    line.next += 1;
                    if !is_query {
                        return Err(RemoteError::Unknown(error.to_string()));
                    }
                    if Instant::now() >= by {
                        return Err(RemoteError::NotAnswered(error.to_string()));
                    }
                }
            }
        };
        drop(line);
        let mut known = self.known();
        *known = known.max(time);
        drop(known);
        decode(&bytes).map_err(|_| RemoteError::ResultUnreadable)
    }

    /// Connects, if there is no connection: to each member in turn, until one serves. What is left
    /// of the time is shared among those that were not tried: one that hangs leaves some to others.
    fn connected(&self, line: &mut Line, by: Instant) -> Result<(), RemoteError> {
        if line.stream.is_some() {
            return Ok(());
        }
        let members = &self.access.members;
        if members.is_empty() {
            return Err(RemoteError::NotExecuted("no address of a member is given".to_owned()));
        }
        let mut said = vec![String::new(); members.len()];
        loop {
            let mut pause = CONNECT_EVERY;
            for n in 0..members.len() {
                let at = (line.next + n) % members.len();
                let share = left(by) / (members.len() - n) as u32;
                match self.greet(members[at], by.min(deadline(share))) {
                    Ok((stream, n_shards)) => {
                        *line = Line { stream: Some(stream), next: at, n_shards };
                        return Ok(());
                    }
                    Err(unwelcome) => {
                        let why = match unwelcome {
                            // A member that refuses does so again.
                            Unwelcome::Refused(why) => {
                                let why = format!("{}: {why}", members[at]);
                                return Err(RemoteError::NotExecuted(why));
                            }
                            Unwelcome::Elsewhere(why) => {
                                pause = FULL_PAUSE;
                                why
                            }
                            Unwelcome::Io(error) => error.to_string(),
                        };
                        // Once the time is over, what it said before says more.
                        if said[at].is_empty() || Instant::now() < by {
                            said[at] = format!("{}: {why}", members[at]);
                        }
                    }
                }
            }
            if Instant::now() >= by {
                return Err(RemoteError::NotExecuted(said.join("; ")));
            }
            std::thread::park_timeout(pause.min(left(by)));
        }
    }

    fn greet(&self, member: SocketAddr, by: Instant) -> Result<(TcpStream, u64), Unwelcome> {
        let until = by.min(deadline(GREET_PATIENCE));
        let stream = TcpStream::connect_timeout(&member, left(until))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(GREET_PATIENCE))?;
        let mut nonce = frames::Nonce::default();
        By { stream: &stream, until }.read_exact(&mut nonce)?;
        let hello = Hello {
            nonce: frames::nonce()?,
            group: self.access.group.clone(),
            subgroup: self.access.subgroup.clone(),
            methods: agreed::<S>(),
        };
        let text = postcard::to_allocvec(&hello).map_err(io::Error::other)?;
        let secret = Secret::new(self.access.secret.as_bytes());
        frames::write(&stream, &(secret.prove(Side::Initiator, &text, &nonce), hello))?;
        match frames::read(By { stream: &stream, until })? {
            Welcome::Served { proof, n_shards } => {
                if secret.verify(Side::Acceptor, &text, &nonce, &proof) {
                    Ok((stream, n_shards))
                } else {
                    Err(Unwelcome::Refused("it does not know the group's secret".to_owned()))
                }
            }
            Welcome::Refused(why) => Err(Unwelcome::Refused(why)),
            Welcome::Elsewhere(why) => Err(Unwelcome::Elsewhere(why)),
        }
    }
}

/// The reason why a member does not serve this client.
enum Unwelcome {
    /// It does not know the client; nor does any other member.
    Refused(String),
    /// It serves no further client, or is not in the group.
    Elsewhere(String),
    /// It is not reached.
    Io(io::Error),
}

impl From<io::Error> for Unwelcome {
    fn from(error: io::Error) -> Unwelcome {
        Unwelcome::Io(error)
    }
}

/// The longest wait for a member's welcome.
const GREET_PATIENCE: Duration = Duration::from_secs(5);
/// The pause behind which all members are tried again.
const CONNECT_EVERY: Duration = Duration::from_millis(20);
/// The same if one of them is there and has no room: to greet costs a member more than to be gone.
const FULL_PAUSE: Duration = Duration::from_millis(200);

fn left(by: Instant) -> Duration {
    by.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn exchange(line: &Line, request: &Request, by: Instant) -> io::Result<Answer> {
    let stream = line.stream.as_ref().ok_or(io::ErrorKind::NotConnected)?;
    frames::write(stream, request)?;
    frames::read(By { stream, until: by })
}

impl<S: Replicated> Clone for Remote<S> {
    fn clone(&self) -> Remote<S> {
        let Line { next, n_shards, .. } = *self.line();
        Remote {
            access: self.access.clone(),
            line: Mutex::new(Line { stream: None, next, n_shards }),
            shard: self.shard,
            latest: Arc::clone(&self.latest),
            object: PhantomData,
        }
    }
}

impl<S: Replicated> fmt::Debug for Remote<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("access", &self.access).finish_non_exhaustive()
    }
}
