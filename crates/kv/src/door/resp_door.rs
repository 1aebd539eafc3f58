//! A member's door: its clients, and the streams of their bytes.

use super::clients::RespClients;
use super::outside::{Config, Figures, Outside};
use super::state::{Holds, Serves};
use engine::streams::{Pipes, Ready, Streams};
use engine::{Answer, Application, Asker, Changed, Desk, Door, Performed, ReadAnswer, Stats, View};

/// The door of a member; see the module's text.
#[derive(Debug)]
pub struct RespDoor<O, S> {
    /// All connections.
    pub clients: RespClients<O>,
    /// The streams of the connections' bytes.
    pub streams: S,
    /// Whether this member was ever able to answer clients.
    has_served: bool,
    /// The figures, as of the last time that they were published.
    figures: Figures,
}

impl<O: Outside, S: Streams> RespDoor<O, S> {
    /// A door without a client.
    pub fn new(config: Config, outside: O, streams: S) -> RespDoor<O, S> {
        RespDoor {
            clients: RespClients::new(config, outside),
            streams,
            has_served: false,
            figures: Figures::default(),
        }
    }

    /// Whether this member was ever able to answer clients.
    pub fn has_served(&self) -> bool {
        self.has_served
    }

    /// The figures, as of the last time that they were published.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Accepts clients that wait.
    pub fn accept(&mut self, desk: &Desk) {
        self.clients.accept(&mut self.streams, desk.now());
    }

    /// A client's stream is ready.
    pub fn on_ready(&mut self, ready: Ready, state: &impl Holds, desk: &mut Desk) {
        self.clients.on_ready(ready, &mut self.streams, state, desk);
    }
}

impl<O: Outside> RespDoor<O, Pipes> {
    /// Accepts clients and reads from all that are ready: what a poller does for sockets.
    pub fn poll(&mut self, state: &impl Holds, desk: &mut Desk) {
        self.accept(desk);
        for ready in self.streams.ready() {
            self.on_ready(ready, state, desk);
        }
    }
}

impl<O: Outside, S: Streams, A: Serves> Door<A> for RespDoor<O, S> {
    fn applied(&mut self, state: &mut A)
    where
        A: Application,
    {
        let published = state.take_published();
        // Messages that were published before this member served are not sent to its clients.
        if self.has_served {
            self.clients.tell(&published);
        }
    }

    fn perform(&mut self, asker: Asker, stamp_ms: u64, state: &mut A, desk: &mut Desk) -> Performed
    where
        A: Application,
    {
        self.clients.perform(asker, stamp_ms, state, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        self.clients.describe_read(asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        self.clients.answer(asker, answer);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _: &mut Desk) {
        self.clients.answer_read(asker, answer);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, _: &mut Desk) {
        self.clients.answer_wait(asker, n);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, _: &mut Desk) {
        self.clients.answer_change(asker, changed);
    }

    fn resume(&mut self, state: &mut A, desk: &mut Desk) -> bool {
        state.pass_time(desk.now());
        self.clients.resume(state, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        self.clients.flush(&mut self.streams, desk);
    }

    fn publish(&mut self, view: &View, stats: &Stats, state: &mut A) {
        self.has_served |= view.is_led();
        state.sweep();
        self.clients.note_state_time(stats.state_time_ahead_ms);
        let holding = state.holding();
        self.figures = Figures {
            keys: holding.keys,
            memory_bytes: holding.memory_bytes,
            ..self.clients.figures()
        };
    }
}
