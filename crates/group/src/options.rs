//! What a process says when it founds a group or joins one, and what follows from it.

use crate::error::Error;
use crate::layout::{self, Subgroup};
use base::{FABRIC_SEATS_MAX, Incarnation, Rank};
use fabric::Setup;
use proto::rdmc::Schedule;
use proto::vsync::{self, METADATA_WORDS, Mode, Relaying, Shape, ShardId, Timing};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The seats of a group that names no number.
const SEATS: usize = 7;
/// The longest message that an [`Options`] may ask for.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// The largest window that an [`Options`] may ask for.
pub const WINDOW_MAX: u32 = 1 << 12;
/// The most words of one process's memory: 256 MiB.
const N_WORDS_MAX: u64 = 32 << 20;
/// The length in bytes from which on a message is large.
pub(crate) const LANDED_BYTES_MIN: usize = 4 << 10;
/// The most bytes of the places for large messages.
const PLACES_BYTES_MAX: u64 = 64 << 20;

/// How the processes of a group reach each other's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Shared memory: all processes on one host.
    Shm,
    /// TCP.
    Tcp {
        /// The addresses at which the processes of all seats are reached, in the order of the
        /// seats.
        addresses: Vec<SocketAddr>,
        /// The address at which this process listens, if it is not the one of its seat.
        listen: Option<SocketAddr>,
    },
}

/// The log of a process of a durable group ([`Mode::Durable`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The directory, on a disk. A process with the log of one before it on its seat comes back
    /// with it; it is the same process for the restart of a group.
    pub directory: PathBuf,
    /// The bytes in the log, of messages and views, after which the state of each shard is written
    /// there again, and what these cover is freed; as many as all states have, if that is longer.
    pub keep_bytes: u64,
}

impl Data {
    /// The usual bytes in the log: a few of its segments, so that states of some megabytes are a
    /// small part of what is written.
    pub const KEEP_BYTES: u64 = 64 << 20;

    /// A log in this directory, with the usual bound.
    pub fn at(directory: impl Into<PathBuf>) -> Data {
        Data { directory: directory.into(), keep_bytes: Data::KEEP_BYTES }
    }
}

/// A process's part in a group. All fields but `seat`, `listen`, `metadata`, `data`, `events` and
/// `patience` are the same at all processes of a group; a process at which one of the
/// others differs is refused.
#[derive(Clone)]
pub struct Options {
    /// The name of the group.
    pub name: String,
    /// The secret that only its processes know.
    pub secret: String,
    /// The application and its version: what it multicasts means the same to all its processes.
    pub application: String,
    /// The transport.
    pub transport: Transport,
    /// The directory of the processes' memory: on tmpfs, one for all processes of a host.
    pub directory: PathBuf,
    /// The number of seats: the most members that a view can have, up to 32.
    pub seats: usize,
    /// The seat of this process, from 1; without one, the first that is free.
    pub seat: Option<usize>,
    /// Words that the process carries in every view. No member interprets them, but for tags that
    /// the layout asks for ([`Subgroup`]).
    pub metadata: [u64; METADATA_WORDS],
    /// The subgroups: parts of the members, in shards, each with an order of its own. Without any,
    /// the group has one order of all members.
    pub layout: Vec<Subgroup>,
    /// The order of deliveries.
    pub mode: Mode,
    /// The number of messages of one sender that are not delivered everywhere.
    pub window: u32,
    /// The longest message, in bytes.
    pub message_bytes: u32,
    /// The schedule by which members relay large messages over tcp: those of more than 192 KiB,
    /// in shards of four members or more. By [`Schedule::Sequential`] each sender sends to all.
    pub relay: Schedule,
    /// The number of members below which a view is inadequate: nothing is multicast in it.
    pub adequate: usize,
    /// Whether the application has a state, which a newcomer gets from another member
    /// ([`crate::Event::StateWanted`], [`crate::Event::State`]). Otherwise a newcomer delivers
    /// everything from its first view on.
    pub keeps_state: bool,
    /// In a durable group ([`Mode::Durable`]): this process's log.
    pub data: Option<Data>,
    /// The time for which a view that has lost members answers nothing, if members are to have
    /// leases: a leased query asks no other member. Less than four beats are refused. The clocks of
    /// hosts are assumed to run at rates within 10 % of the true one, also while a host is
    /// suspended.
    pub lease: Option<Duration>,
    /// The spans after which a member acts.
    pub timing: Timing,
    /// The most events that wait for the application. While it takes none, the members' messages
    /// wait for it; a process whose application takes none for `patience` leaves.
    pub events: usize,
    /// The longest wait for the group: to be let in, and for the application to take an event. (A
    /// log is read before that, and takes as long as it takes.)
    pub patience: Duration,
}

impl Options {
    /// A group on this host, over shared memory, with the default limits.
    pub fn shm(name: &str, secret: &str, application: &str) -> Options {
        Options {
            name: name.to_owned(),
            secret: secret.to_owned(),
            application: application.to_owned(),
            transport: Transport::Shm,
            directory: PathBuf::from("/dev/shm").join(format!("gregale-group-{name}")),
            seats: SEATS,
            seat: None,
            metadata: [0; METADATA_WORDS],
            layout: Vec::new(),
            mode: Mode::Ordered,
            window: 64,
            message_bytes: 1024,
            relay: Schedule::default(),
            adequate: 1,
            keeps_state: false,
            data: None,
            lease: None,
            timing: Timing::default(),
            events: 4096,
            patience: Duration::from_secs(10),
        }
    }

    /// A group over TCP, whose processes are reached at `addresses`.
    pub fn tcp(name: &str, secret: &str, application: &str, addresses: Vec<SocketAddr>) -> Options {
        let seats = addresses.len();
        let transport = Transport::Tcp { addresses, listen: None };
        Options { transport, seats, ..Options::shm(name, secret, application) }
    }

    /// The same group on disks: this process has `seat`, from 1, and its log in `data`. Nothing is
    /// delivered that is not synced at every member ([`Mode::Durable`]).
    #[must_use]
    pub fn durable(self, seat: usize, data: impl Into<PathBuf>) -> Options {
        let (seat, data) = (Some(seat), Some(Data::at(data)));
        Options { mode: Mode::Durable, keeps_state: true, seat, data, ..self }
    }

    /// Whether a subgroup is on disk.
    pub(crate) fn is_kept(&self, subgroup: u16) -> bool {
        let is_fleeting = |one: &Subgroup| one.in_memory || one.unordered;
        let is_fleeting = self.layout.get(usize::from(subgroup)).is_some_and(is_fleeting);
        self.mode == Mode::Durable && !is_fleeting
    }

    /// Refuses what contradicts itself, before anything is made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Options { seats, window, message_bytes, adequate, events, .. } = *self;
        let timing = &self.timing;
        let wrong = if seats == 0 || seats > FABRIC_SEATS_MAX {
            format!("seats: {seats}; a fabric joins 1 to {FABRIC_SEATS_MAX} processes")
        } else if self.seat.is_some_and(|seat| seat == 0 || seat > seats) {
            format!("seat {:?} of {seats}: seats are counted from 1", self.seat)
        } else if window == 0 || window > WINDOW_MAX {
            format!("window: {window}; it can be 1 to {WINDOW_MAX}")
        } else if message_bytes == 0 || message_bytes > MESSAGE_BYTES_MAX {
            format!("message_bytes: {message_bytes}; it can be 1 to {MESSAGE_BYTES_MAX}")
        } else if self.n_bytes() > N_WORDS_MAX * 8 {
            let n_bytes = self.n_bytes();
            format!("{n_bytes} bytes of memory a process: lower seats, window or message_bytes")
        } else if self.mode == Mode::Unordered && self.keeps_state {
            "an unordered group has no common state: set keeps_state to false, or order it".into()
        } else if self.mode == Mode::Unordered && !self.layout.is_empty() {
            "an unordered group has no subgroups: order it, and say `unordered` of subgroups".into()
        } else if (self.mode == Mode::Durable) != self.data.is_some() {
            "Mode::Durable and Options::data go together: see Options::durable".into()
        } else if self.mode == Mode::Durable && !(self.keeps_state && self.seat.is_some()) {
            "a durable group has a state (keeps_state), and its processes their own seats".into()
        } else if let Err(wrong) = layout::check(&self.layout, seats) {
            format!("layout: {wrong}")
        } else if let Some(Subgroup { name, .. }) = self.in_memory_elsewhere() {
            format!("subgroup {name:?}: the whole group is in memory; drop in_memory there")
        } else if adequate > seats {
            format!("adequate: {adequate} members, but there are {seats} seats")
        } else if events == 0 {
            "events: 0; the application takes them one after the other, so give it 1 or more".into()
        } else if self.secret.is_empty() {
            "an empty secret proves nothing: give all processes the same one".into()
        } else if timing.beat_every.is_zero() || timing.ask_every.is_zero() {
            "timing: a span of zero never ends".into()
        } else if timing.suspect_after < 4 * timing.beat_every {
            format!(
                "suspect_after {:?} is less than four beats of {:?}: a delay would be a failure",
                timing.suspect_after, timing.beat_every
            )
        } else if self.lease.is_some_and(|lease| lease < 4 * timing.beat_every) {
            format!(
                "lease {:?} is less than four beats of {:?}: it would end before it is renewed",
                self.lease, timing.beat_every
            )
        } else if self.lease.is_some() && self.mode == Mode::Unordered {
            "lease: without an order there is no state to read from".into()
        } else {
            return self.check_transport();
        };
        Err(Error::Options(wrong))
    }

    /// A subgroup that is said to be in memory alone, where everything is.
    fn in_memory_elsewhere(&self) -> Option<&Subgroup> {
        let mut in_memory = self.layout.iter().filter(|subgroup| subgroup.in_memory);
        in_memory.next().filter(|_| self.mode != Mode::Durable)
    }

    fn check_transport(&self) -> Result<(), Error> {
        let Transport::Tcp { addresses, listen } = &self.transport else { return Ok(()) };
        if addresses.len() != self.seats {
            let (n, seats) = (addresses.len(), self.seats);
            return Err(Error::Options(format!("{n} addresses for {seats} seats: give each one")));
        }
        if listen.is_some() && self.seat.is_none() {
            let text = "an address to listen at, but no seat: say which seat it is the address of";
            return Err(Error::Options(text.into()));
        }
        Ok(())
    }

    /// The bytes of all rings of a process, in wide arithmetic.
    fn n_bytes(&self) -> u64 {
        let slot = 16 + u64::from(self.message_bytes).next_multiple_of(8);
        let n_rings = self.layout.len().max(1) as u64;
        2 * self.seats as u64 * u64::from(self.window) * slot * n_rings
    }

    /// The places for messages that all members read where their sender has put them: as many as
    /// two windows need, if there is room beside the rings.
    fn n_places(&self) -> u32 {
        let is_shared = matches!(self.transport, Transport::Shm);
        let is_any = is_shared && self.mode != Mode::Unordered;
        if !is_any || (self.message_bytes as usize) < LANDED_BYTES_MIN {
            return 0;
        }
        let room = (N_WORDS_MAX * 8).saturating_sub(self.n_bytes()).min(PLACES_BYTES_MAX);
        let place = u64::from(self.message_bytes).next_multiple_of(8) + 8 * (1 + self.seats as u64);
        (2 * self.window).min((room / place) as u32)
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            mode: self.mode,
            n_seats: self.seats,
            window: self.window,
            message_bytes: self.message_bytes,
            n_subgroups: self.layout.len().max(1),
            n_shards: self.layout.iter().map(Subgroup::n_shards).sum::<usize>().max(1),
            n_places: self.n_places(),
            relaying: Relaying { schedule: self.relay, ..Relaying::DEFAULT },
        }
    }

    /// The shard with this number, from 0, of the subgroup with this name. (A group without a
    /// layout has one, number 0 of `all`.)
    pub fn shard(&self, subgroup: &str, shard: usize) -> Option<ShardId> {
        layout::shard(&self.layout, subgroup, shard)
    }

    /// The seats to try.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Rank> {
        let seat = self.seat.map(|seat| Rank::at(seat - 1));
        Rank::all(self.seats).filter(move |one| seat.is_none_or(|seat| seat == *one))
    }

    /// The fabric's part of it, for a process on `seat`.
    pub(crate) fn setup(&self, seat: Rank, incarnation: Incarnation) -> Setup {
        let region = vsync::region(&self.shape());
        Setup {
            cluster: self.name.clone(),
            secret: self.secret.clone().into_bytes(),
            me: seat,
            members: self.seats,
            incarnation,
            directory: self.directory.clone(),
            layout: self.fingerprint(region.fingerprint),
            rules: 0,
            n_words: region.n_words,
        }
    }

    /// The owner of a log: the group by its name and configuration.
    pub(crate) fn identity(&self) -> u64 {
        let configuration = self.fingerprint(vsync::region(&self.shape()).fingerprint);
        xxhash_rust::xxh3::xxh3_64(format!("{} {configuration:x}", self.name).as_bytes())
    }

    /// What the processes of a group agree on besides name, secret and sizes.
    fn fingerprint(&self, sizes: u64) -> u64 {
        let Options { application, adequate, keeps_state, timing, lease, layout, .. } = self;
        let text = format!(
            "group 5 {sizes:x} {application} {adequate} {keeps_state} {timing:?} {lease:?} \
             {layout:?}"
        );
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }

    /// The parameters that the fingerprint covers, in words: what to compare when it differs.
    pub(crate) fn described(&self) -> String {
        let Options { application, mode, seats, window, message_bytes, relay, adequate, .. } = self;
        let Timing { beat_every, suspect_after, ask_every } = self.timing;
        format!(
            "application {application:?}, {mode:?}, {seats} seats, window {window}, message_bytes \
             {message_bytes}, relay {}, adequate {adequate}, keeps_state {}, timing \
             {beat_every:?} {suspect_after:?} {ask_every:?}, lease {:?}, layout {:?}",
            relay.name(),
            self.keeps_state,
            self.lease,
            self.layout
        )
    }
}

/// Omits the secret.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .field("directory", &self.directory)
            .field("seat", &self.seat)
            .field("agreed", &self.described())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::shm("test", "sesame", "app 1")
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_name() {
        assert!(options().check().is_ok());
        let refused = |options: Options| options.check().unwrap_err().to_string();
        assert!(refused(Options { seats: 33, ..options() }).contains("1 to 32"));
        assert!(refused(Options { seat: Some(0), ..options() }).contains("from 1"));
        assert!(refused(Options { window: 0, ..options() }).contains("window: 0"));
        assert!(refused(Options { message_bytes: 2 << 20, ..options() }).contains("message_bytes"));
        let huge = Options { window: 4096, message_bytes: 1 << 20, ..options() };
        assert!(refused(huge).contains("bytes of memory"));
        assert!(refused(Options { adequate: 9, ..options() }).contains("adequate"));
        assert!(refused(Options { secret: String::new(), ..options() }).contains("secret"));
        let mut hasty = options();
        hasty.timing.suspect_after = hasty.timing.beat_every;
        assert!(refused(hasty).contains("four beats"));
        let short = Options { lease: Some(Duration::from_millis(39)), ..options() };
        assert!(refused(short).contains("lease"));
        let lease = Some(Duration::from_millis(200));
        let unordered = Options { lease, mode: Mode::Unordered, ..options() };
        assert!(refused(unordered).contains("order"));
        let mut kept = Options { layout: vec![Subgroup::new("a").in_memory()], ..options() };
        assert!(refused(kept.clone()).contains("\"a\": the whole group is in memory"));
        kept = kept.durable(1, "a directory");
        assert!(kept.check().is_ok());
        let tcp = Options::tcp("test", "sesame", "app 1", vec!["127.0.0.1:1".parse().unwrap()]);
        assert!(tcp.check().is_ok());
        assert!(refused(Options { seats: 2, ..tcp }).contains("1 addresses for 2 seats"));
    }

    #[test]
    fn everything_that_is_agreed_on_is_in_the_fingerprint() {
        let of = |options: Options| options.setup(Rank::at(0), Incarnation(1)).layout;
        let own = of(options());
        assert_eq!(own, of(Options { seat: Some(3), metadata: [7, 8], ..options() }));
        let mut slow = options();
        slow.timing.suspect_after *= 2;
        let others = [
            Options { application: "app 2".into(), ..options() },
            Options { seats: 5, ..options() },
            Options { window: 8, ..options() },
            Options { message_bytes: 8, ..options() },
            Options { relay: Schedule::Chain, ..options() },
            Options { adequate: 2, ..options() },
            Options { keeps_state: true, ..options() },
            Options { lease: Some(Duration::from_millis(100)), ..options() },
            Options { layout: vec![Subgroup::new("all")], ..options() },
            Options { layout: vec![Subgroup::new("all").relay(Schedule::Chain)], ..options() },
            Options { layout: vec![Subgroup::new("all").senders(&[1])], ..options() },
            Options { layout: vec![Subgroup::new("all").senders(&[2])], ..options() },
            slow,
        ];
        let mut all: Vec<u64> = others.into_iter().map(of).chain([own]).collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n, "each differs from all others");
    }

    #[test]
    fn the_secret_is_never_printed() {
        assert!(!format!("{:?}", options()).contains("sesame"));
    }
}
