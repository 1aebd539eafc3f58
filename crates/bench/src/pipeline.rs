//! Clients of a server that send the same commands again and again, each when all are answered.

use crate::group::Error;
use report::Latency;
use rustix::event::{Timespec, epoll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// The results of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Told {
    /// The commands a second.
    pub(crate) per_s: f64,
    /// The median latency.
    pub(crate) p50_ns: f64,
    /// The 99th percentile of the latency.
    pub(crate) p99_ns: f64,
}

/// The commands that each client sends at once, repeatedly, each time when all are answered.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    clients: usize,
    pub(crate) n_commands: usize,
    pub(crate) request: String,
    pub(crate) reply: String,
}

impl Pipeline {
    /// Clients without a command.
    pub(crate) const fn new(clients: usize) -> Pipeline {
        Pipeline { clients, n_commands: 0, request: String::new(), reply: String::new() }
    }

    /// Adds a command, and its answer.
    pub(crate) fn push(&mut self, request: &str, reply: &str) {
        self.request.push_str(request);
        self.reply.push_str(reply);
        self.n_commands += 1;
    }

    /// Returns the commands a second, and the time of a whole pipeline.
    ///
    /// # Errors
    /// The server is not there, or gives another answer.
    pub(crate) fn run_for(&self, port: u16, span: Duration) -> Result<Told, Error> {
        let io = |source: std::io::Error| Error::os(format!("talk to port {port}"), source);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| io(errno.into()))?;
        let mut clients = Vec::new();
        for at in 0..self.clients {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(io)?;
            stream.set_nodelay(true).map_err(io)?;
            stream.set_nonblocking(true).map_err(io)?;
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)
                .map_err(|errno| io(errno.into()))?;
            clients.push(Client { stream, heard: Vec::new(), asked_at: Instant::now() });
        }
        let mut latency = Latency::new();
        let (began, mut n_done) = (Instant::now(), 0u64);
        for client in &mut clients {
            client.ask(&self.request).map_err(io)?;
        }
        let mut ready = Vec::with_capacity(self.clients);
        while began.elapsed() < span {
            ready.clear();
            let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), Some(&patience))
                .map_err(|errno| io(errno.into()))?;
            if ready.is_empty() {
                return Err(Error::Peer(format!("port {port} does not answer for 10 s")));
            }
            for event in &ready {
                let client = &mut clients[event.data.u64() as usize];
                if client.hear(self.reply.as_bytes()).map_err(io)? {
                    latency.record(client.asked_at.elapsed());
                    n_done += self.n_commands as u64;
                    client.ask(&self.request).map_err(io)?;
                }
            }
        }
        let per_s = n_done as f64 / began.elapsed().as_secs_f64();
        let (p50_ns, p99_ns) = (latency.p50_ns() as f64, latency.p99_ns() as f64);
        Ok(Told { per_s, p50_ns, p99_ns })
    }
}

struct Client {
    stream: TcpStream,
    heard: Vec<u8>,
    asked_at: Instant,
}

impl Client {
    /// A request is far smaller than a socket's buffer, and the previous one is answered.
    fn ask(&mut self, request: &str) -> std::io::Result<()> {
        self.heard.clear();
        self.asked_at = Instant::now();
        self.stream.write_all(request.as_bytes())
    }

    /// Reads replies. True if all of `reply` has arrived.
    fn hear(&mut self, reply: &[u8]) -> std::io::Result<bool> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.heard.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if reply.starts_with(&self.heard) {
            return Ok(self.heard.len() == reply.len());
        }
        let heard = String::from_utf8_lossy(&self.heard);
        Err(std::io::Error::other(format!("an unexpected reply: {heard:?}")))
    }
}
