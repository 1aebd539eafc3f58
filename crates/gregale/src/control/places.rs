//! The places of a control port's clients.
//!
//! - P1 at most [`CLIENTS_MAX`] connections have one. A newcomer takes that of the oldest one which
//!   has not sent its whole request yet: connections that say nothing keep no order out. Where all
//!   have sent theirs, the newcomer is turned away.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bound of P1.
pub(super) const CLIENTS_MAX: usize = 16;

/// The places of the module's text.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    /// The connections whose request is read, the oldest first, by number.
    reading: VecDeque<(u64, Arc<TcpStream>)>,
    /// The number of connections whose request is answered.
    n_answering: usize,
    last: u64,
}

/// A connection with its place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Places>,
    stream: Arc<TcpStream>,
    number: u64,
    is_answering: bool,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for `stream`, if there is one (P1).
    pub(super) fn take(self: &Arc<Places>, stream: TcpStream) -> Option<Place> {
        let mut taken = self.taken();
        if taken.reading.len() + taken.n_answering >= CLIENTS_MAX {
            let (_, oldest) = taken.reading.pop_front()?;
            // Its thread reads the end. A connection that is over already needs no more.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        taken.last += 1;
        let (number, stream) = (taken.last, Arc::new(stream));
        taken.reading.push_back((number, Arc::clone(&stream)));
        Some(Place { of: Arc::clone(self), stream, number, is_answering: false })
    }
}

impl Place {
    /// The connection.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Notes that the request has come. False if the place was taken meanwhile.
    pub(super) fn answer(&mut self) -> bool {
        let mut taken = self.of.taken();
        let Some(at) = taken.reading.iter().position(|(number, _)| *number == self.number) else {
            return false;
        };
        taken.reading.remove(at);
        taken.n_answering += 1;
        self.is_answering = true;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        if self.is_answering {
            taken.n_answering -= 1;
        } else {
            taken.reading.retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn p1_connections_that_say_nothing_make_room_and_others_do_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let places = Arc::new(Places::default());
        let connect = || {
            let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            (far, listener.accept().unwrap().0)
        };
        let (mut far, mut held) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS_MAX {
            let (client, stream) = connect();
            far.push(client);
            held.push(places.take(stream).expect("there is room"));
        }
        assert!(held[0].answer());
        let (_client, stream) = connect();
        let mut newcomer = places.take(stream).expect("that of the second");
        assert_eq!(far[1].read(&mut [0]).unwrap(), 0, "it is closed");
        assert!(!held[1].answer());
        assert!(newcomer.answer());
        assert!(held[2..].iter_mut().all(Place::answer));
        let (_client, stream) = connect();
        assert!(places.take(stream).is_none(), "all are answered");
        drop(newcomer);
        let (_client, stream) = connect();
        assert!(places.take(stream).is_some());
        drop(held);
        let taken = places.taken();
        assert_eq!((taken.reading.len(), taken.n_answering), (0, 0));
    }
}
