//! A bare fan-out: what a client says goes to three copies of a program, and the first one's
//! answers go back. No order, no log and no second process stand between: it is the least that
//! three copies on one machine cost.

use crate::group::Error;
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// The bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// The names of what is waited for: the end, the listener; connections have their number times
/// [`WAYS`], and a place for each of their streams.
const END: u64 = 0;
const LISTENER: u64 = 1;
const WAYS: u64 = 16;

/// A fan-out on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct FanOut {
    pub(super) port: u16,
    /// The thread ends when the other side of its pair is closed.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl FanOut {
    /// Begins one before copies that listen at these sockets.
    ///
    /// # Errors
    /// There are no ports or descriptors left.
    pub(super) fn start(copies: Vec<PathBuf>) -> Result<FanOut, Error> {
        let io = |source: std::io::Error| Error::os("begin a fan-out", source);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
        let port = listener.local_addr().map_err(io)?.port();
        let (end, ends) = UnixStream::pair().map_err(io)?;
        let loops = Loop::new(listener, ends, copies).map_err(io)?;
        let thread = Some(std::thread::spawn(move || loops.run()));
        Ok(FanOut { port, end: Some(end), thread })
    }
}

impl Drop for FanOut {
    fn drop(&mut self) {
        drop(self.end.take());
        // An error of the thread was met by its clients.
        let _joined = self.thread.take().map(JoinHandle::join);
    }
}

/// A client, and its streams to the copies.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    copies: Vec<UnixStream>,
}

#[derive(Debug)]
struct Loop {
    epoll: OwnedFd,
    listener: TcpListener,
    /// A stream that ends when the fan-out has to.
    _ends: UnixStream,
    copies: Vec<PathBuf>,
    connections: BTreeMap<u64, Connection>,
    /// The number of the next connection.
    next: u64,
}

impl Loop {
    fn new(listener: TcpListener, ends: UnixStream, copies: Vec<PathBuf>) -> std::io::Result<Loop> {
        assert!(copies.len() as u64 + 1 < WAYS, "each stream of a connection has a name");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let next = 1;
        let connections = BTreeMap::new();
        let of = Loop { epoll, listener, _ends: ends, copies, connections, next };
        of.watch(&of._ends, END)?;
        of.watch(&of.listener, LISTENER)?;
        Ok(of)
    }

    fn watch(&self, file: impl AsFd, name: u64) -> std::io::Result<()> {
        let data = epoll::EventData::new_u64(name);
        Ok(epoll::add(&self.epoll, file, data, epoll::EventFlags::IN)?)
    }

    fn run(mut self) -> std::io::Result<()> {
        let mut ready = Vec::with_capacity(64);
        loop {
            ready.clear();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), None)?;
            for event in &ready {
                match event.data.u64() {
                    END => return Ok(()),
                    LISTENER => self.accept()?,
                    name => {
                        let number = name / WAYS;
                        let goes_on = self.pass(number, (name % WAYS) as usize).unwrap_or(false);
                        if !goes_on {
                            // Its streams are closed with it.
                            self.connections.remove(&number);
                        }
                    }
                }
            }
        }
    }

    fn accept(&mut self) -> std::io::Result<()> {
        let (client, _) = self.listener.accept()?;
        client.set_nodelay(true)?;
        let number = self.next;
        self.next += 1;
        let connect = |socket: &PathBuf| UnixStream::connect(socket);
        let copies = self.copies.iter().map(connect).collect::<std::io::Result<Vec<_>>>()?;
        self.watch(&client, number * WAYS)?;
        for (copy, way) in copies.iter().zip(1..) {
            self.watch(copy, number * WAYS + way)?;
        }
        self.connections.insert(number, Connection { client, copies });
        Ok(())
    }

    /// Passes on what one stream of a connection has; false at its end. Requests and answers are
    /// smaller than the buffers of sockets, so no write waits.
    fn pass(&mut self, number: u64, way: usize) -> std::io::Result<bool> {
        let Some(Connection { client, copies }) = self.connections.get_mut(&number) else {
            return Ok(true);
        };
        let mut bytes = [0; READ_BYTES];
        let read = match way {
            0 => client.read(&mut bytes),
            way => copies[way - 1].read(&mut bytes),
        };
        let bytes = match read {
            Ok(n) => &bytes[..n],
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        match way {
            0 => copies.iter_mut().try_for_each(|copy| copy.write_all(bytes))?,
            1 => client.write_all(bytes)?,
            // The answers of the other copies are dropped.
            _ => {}
        }
        Ok(!bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn all_copies_are_told_and_the_first_answers() {
        let directory = tempfile::tempdir().unwrap();
        let sockets: Vec<PathBuf> =
            (0..3).map(|at| directory.path().join(at.to_string())).collect();
        let copies: Vec<UnixListener> =
            sockets.iter().map(|socket| UnixListener::bind(socket).unwrap()).collect();
        let fan_out = FanOut::start(sockets).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, fan_out.port)).unwrap();
        client.write_all(b"asked").unwrap();
        // A connection ends with any of its legs.
        let mut legs = Vec::new();
        for (copy, at) in copies.iter().zip(0..3u8).rev() {
            let (mut leg, _) = copy.accept().unwrap();
            let mut heard = [0; 5];
            leg.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"asked");
            leg.write_all(&[at]).unwrap();
            if at == 0 {
                let mut answer = [9];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [0]);
            }
            legs.push(leg);
        }
        drop(fan_out);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the connection ends with the fan-out");
    }
}
