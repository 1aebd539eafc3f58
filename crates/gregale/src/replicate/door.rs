//! The replicate door in a process: sockets, signals, the supervisor, the copy's end.

use super::copy::{Copy, LEG};
use super::criu::check_saver;
use super::datagrams::Datagrams;
use super::place::Place;
use super::streams::ProgramStreams;
use super::transcript::FileTranscript;
use crate::channel::ReplicaEnd;
use crate::config::{
    Attach, Chance, Config, InputOrder, Output, Program as Settings, ReadsOf, RestBy, WhenSplit,
};
use crate::control::Board;
use crate::door::{
    ClientSockets, KEY_CHANNEL, KEY_LISTENER, KEY_NOTICES, KEY_ORDERS, KEY_PROGRAM, KEY_SIGNALS,
    Supervised, Supervision,
};
use crate::signals::Signals;
use crate::status::{HeldAnswers, ProgramStatus, Verdicts};
use base::Incarnation;
use console::{Failure, Outcome};
use kv::door::Figures;
use proto::planted::Sound;
use replicate::door::{self, ReplicateDoor};
use replicate::feeder::{self, Order, Rest};
use replicate::framing::Protocol;
use replicate::state::{self, State};
use replicate::verdict;
use replicate::{batch, clients, entry};
use runtime::{
    Answer, Asker, Changed, Desk, Performed, Poller, ReadAnswer, Ready, Sockets, Stats, View,
};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// The bytes of a value of the log that are used for one entry: a value of every protocol holds as
/// many, together with what the engine puts before it.
const VALUE_BYTES: usize = 4 << 10;
const INPUT_BYTES_MAX: usize = VALUE_BYTES - batch::OVERHEAD_BYTES - entry::HEADER_BYTES;

/// The seed of what copies draw, the same at all members and in all lives of the cluster; 0 for the
/// kernel's chance. With it one knows what programs draw: it is made of the secret.
fn seed(config: &Config, settings: &Settings) -> Outcome<u64> {
    if settings.chance == Chance::Kernel {
        return Ok(0);
    }
    let mut text = config.secret()?;
    text.extend_from_slice(settings.command.as_bytes());
    Ok(xxhash_rust::xxh3::xxh3_64(&text).max(1))
}

/// The door of the module's text.
pub(crate) struct ProgramDoor {
    door: ReplicateDoor<ProgramStreams, Copy>,
    board: Arc<Board>,
    supervision: Supervision,
    failure: Option<String>,
}

impl ProgramDoor {
    /// A door behind `listener`, with a copy that begins as soon as something was executed, and the
    /// state in which nothing was.
    pub(crate) fn new(
        config: &Config,
        settings: &Settings,
        life: Incarnation,
        listener: TcpListener,
        board: Arc<Board>,
    ) -> Outcome<(State<FileTranscript>, ProgramDoor)> {
        check_saver(settings)?;
        let place = Place::make(config, settings, life)?;
        let output = match settings.output {
            Output::AtOnce => verdict::Output::AtOnce,
            Output::Strict => verdict::Output::Strict,
        };
        let of_state = state::Settings {
            members: config.members.len(),
            compare: settings.compare,
            checkpoint: settings.checkpoint(),
            renews: settings.saves_at_halts(),
            time_step_ms: settings.time_step_ms(),
            output,
        };
        let state = State::new(of_state, FileTranscript::create(place.run()), Sound);
        let of_clients = clients::Config {
            me: config.rank(),
            run: life,
            clients_max: config.maxclients as usize,
            input_bytes_max: INPUT_BYTES_MAX,
            reads: match settings.reads {
                ReadsOf::None => None,
                ReadsOf::Resp => Some(Protocol::Resp),
                ReadsOf::Memcached => Some(Protocol::Memcached),
            },
            output,
        };
        let of_feeder = feeder::Config {
            me: config.rank(),
            run: life,
            order: match settings.order {
                InputOrder::Serial => Order::Serial,
                InputOrder::Loop => Order::Loop,
                InputOrder::Relaxed => Order::Relaxed,
            },
            rest: match (settings.rest(), settings.attach()) {
                (RestBy::Quiet, _) | (_, Attach::Proxy) => Rest::Quiet,
                (RestBy::Resp | RestBy::Memcached | RestBy::Waits, Attach::Preload) => Rest::Waits,
            },
            replies: match settings.rest() {
                RestBy::Resp => Some(Protocol::Resp),
                RestBy::Memcached => Some(Protocol::Memcached),
                RestBy::Quiet | RestBy::Waits => None,
            },
            speaks: match (settings.speaks_resp(), settings.speaks_memcached()) {
                (true, _) => Some(Protocol::Resp),
                (false, true) => Some(Protocol::Memcached),
                (false, false) => None,
            },
            compare: settings.compare,
            output,
            renews: settings.saves_at_halts(),
        };
        let copy = Copy::new(settings, place, seed(config, settings)?)?;
        let streams = if settings.is_told_by_udp() {
            let address = config.own().client;
            ProgramStreams::Udp(Datagrams::bind(address, INPUT_BYTES_MAX)?)
        } else {
            ProgramStreams::Tcp(ClientSockets::new(listener)?)
        };
        let door =
            ReplicateDoor::new(of_clients, of_feeder, config.members.len(), streams, copy, Sound)
                .when_split(match settings.split {
                    WhenSplit::Serve => door::WhenSplit::Serve,
                    WhenSplit::Stop => door::WhenSplit::Stop,
                })
                .stalled_after(settings.stalled_after())
                .closes_after(settings.close_s.map(Duration::from_secs));
        let supervision = Supervision::new(config, &board)?;
        Ok((state, ProgramDoor { door, board, supervision, failure: None }))
    }

    fn on_death(&mut self) {
        if let Some(line) = self.door.program.death() {
            self.failure.get_or_insert(line);
        }
    }
}

impl Supervised for ProgramDoor {
    fn register(
        &mut self,
        poller: &Poller,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<()> {
        self.door.streams.watch_by(poller)?;
        self.supervision
            .register(poller, signals, channel)
            .and_then(|()| self.door.program.register(poller, KEY_PROGRAM, KEY_NOTICES))
            .map_err(|error| Failure::os("watch a descriptor", error))
    }

    fn supervision(&self) -> &Supervision {
        &self.supervision
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl runtime::Door<State<FileTranscript>> for ProgramDoor {
    fn applied(&mut self, state: &mut State<FileTranscript>) {
        self.door.applied(state);
    }

    fn perform(
        &mut self,
        asker: Asker,
        stamp_ms: u64,
        state: &mut State<FileTranscript>,
        desk: &mut Desk,
    ) -> Performed {
        self.door.perform(asker, stamp_ms, state, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        runtime::Door::<State<FileTranscript>>::describe_read(&mut self.door, asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, desk: &mut Desk) {
        runtime::Door::<State<FileTranscript>>::answer(&mut self.door, asker, answer, desk);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, desk: &mut Desk) {
        runtime::Door::<State<FileTranscript>>::answer_read(&mut self.door, asker, answer, desk);
    }

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}

    fn answer_change(&mut self, asker: Asker, changed: Changed, desk: &mut Desk) {
        let door = &mut self.door;
        runtime::Door::<State<FileTranscript>>::answer_change(door, asker, changed, desk);
        self.supervision.end_orders(&mut self.door.orders);
    }

    fn resume(&mut self, state: &mut State<FileTranscript>, desk: &mut Desk) -> bool {
        let mut worked = self.door.resume(state, desk);
        self.supervision.end_orders(&mut self.door.orders);
        for ready in self.door.streams.ready() {
            self.door.on_client(ready, state, desk);
            worked = true;
        }
        if worked && self.door.serves() && self.door.streams.has_newcomers() {
            self.door.accept(state, desk); // one of them may have the place of one that has gone
        }
        let of_copy = self.door.program.failure();
        if let Some(why) = of_copy.or_else(|| self.door.failure(state).map(str::to_owned)) {
            self.failure.get_or_insert(why);
        }
        if self.door.falls_behind(state) {
            let why = "the copy was so far behind that the cluster has forgotten what it lacks: it \
                       begins again with the newest checkpoint";
            self.failure.get_or_insert_with(|| why.to_owned());
        }
        if let Some(why) = self.door.rolls_back(state) {
            self.failure.get_or_insert(why);
        }
        worked
    }

    fn flush(&mut self, desk: &mut Desk) {
        if self.door.serves() {
            self.door.streams.listen_again();
        }
        runtime::Door::<State<FileTranscript>>::flush(&mut self.door, desk);
    }

    fn deadline(&self) -> Option<base::Instant> {
        runtime::Door::<State<FileTranscript>>::deadline(&self.door)
    }

    fn publish(&mut self, view: &View, stats: &Stats, state: &mut State<FileTranscript>) {
        self.supervision.report_seats(view);
        let serves = self.door.serves() && self.door.program.is_up();
        self.supervision.report(serves && view.is_led(), view);
        let figures = self.door.figures(state);
        self.board.leave_program(ProgramStatus {
            executed: figures.position,
            reads: figures.reads,
            waiting_bytes: figures.lag_bytes,
            stalled_ms: figures.stalled.as_millis() as u64,
            transcript_bytes: figures.transcript_bytes,
            clients: figures.clients,
            connections: figures.connections,
            began_at: figures.began_at,
            checkpoint_at: figures.base,
            checkpoints: figures.checkpoints.0,
            checkpoints_in_vain: figures.checkpoints.1,
            trouble: self.door.checkpoint_trouble().map(str::to_owned),
            clock_spins: self.door.program.n_spins(),
            held: HeldAnswers {
                bytes: figures.held.bytes,
                left: figures.held.left,
                refused: figures.held.refused,
            },
            verdicts: Verdicts {
                matched: figures.verdicts.matched,
                differed: figures.verdicts.differed,
                split: figures.verdicts.split,
                late: figures.verdicts.late,
                agreed_at: figures.agreed.at,
                agreed_by: figures.agreed.members.len() as u64,
                split_at: figures.split_at,
            },
        });
        let of_store = Figures { clients: figures.clients, ..Figures::default() };
        self.board.leave(view, stats, of_store);
    }
}

impl Sockets<State<FileTranscript>> for ProgramDoor {
    fn on_ready(&mut self, ready: Ready, state: &mut State<FileTranscript>, desk: &mut Desk) {
        match ready.key {
            KEY_LISTENER => {
                self.door.accept(state, desk);
                self.door.streams.receive();
            }
            KEY_SIGNALS => self.supervision.on_signal(),
            KEY_CHANNEL => self.supervision.on_channel(),
            KEY_ORDERS => self.supervision.on_orders(&mut self.door.orders),
            KEY_PROGRAM => self.on_death(),
            KEY_NOTICES => self.door.program.take_notices(),
            key if key & LEG != 0 => self.door.on_leg(key & !LEG, desk),
            _ => self.door.on_client(ready, state, desk),
        }
    }
}
