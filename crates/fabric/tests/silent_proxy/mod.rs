//! A network that hides the end of a connection from the accepting side, as one does whose packets
//! are lost from then on.

use super::tcp_support::Place;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{JoinHandle, spawn};

/// A proxy before one member. Its threads end with it.
pub(crate) struct SilentProxy {
    address: std::net::SocketAddr,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<Vec<Pipe>>>,
}

/// A connection through it, kept open towards the accepting side until the proxy is dropped.
struct Pipe {
    ends: [TcpStream; 2],
    copying: [JoinHandle<()>; 2],
}

/// Copies until either end is gone.
fn copy(mut from: TcpStream, mut to: TcpStream) -> (TcpStream, TcpStream) {
    let mut room = [0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut room) {
        if to.write_all(&room[..n]).is_err() {
            break;
        }
    }
    (from, to)
}

impl Pipe {
    fn between(client: TcpStream, server: TcpStream) -> Pipe {
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let clones = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (there, back) = (clones(), clones());
        // However the client ends, the server is not told.
        let there = spawn(move || drop(copy(there.0, there.1)));
        let back = spawn(move || {
            let (_, client) = copy(back.1, back.0);
            // An error means that it is closed already.
            let _closed = client.shutdown(Shutdown::Both);
        });
        Pipe { ends: [client, server], copying: [there, back] }
    }

    fn close(self) {
        for end in &self.ends {
            let _closed = end.shutdown(Shutdown::Both);
        }
        for thread in self.copying {
            thread.join().expect("a copying thread does not panic");
        }
    }
}

impl SilentProxy {
    /// Places itself at the address of member `of`.
    pub(crate) fn before(place: &mut Place, of: usize) -> SilentProxy {
        let listener = TcpListener::bind((place.addresses[of].ip(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let to = std::mem::replace(&mut place.addresses[of], address);
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let accepting = spawn(move || {
            let mut pipes = Vec::new();
            while let Ok((client, _)) = listener.accept() {
                if is_over.load(SeqCst) {
                    break;
                }
                // No process listens where a member is between two lives.
                if let Ok(server) = TcpStream::connect(to) {
                    pipes.push(Pipe::between(client, server));
                }
            }
            pipes
        });
        SilentProxy { address, over, accepting: Some(accepting) }
    }
}

impl Drop for SilentProxy {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // The connection that ends the wait for the next one.
        let _last = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            accepting
                .join()
                .expect("an accepting thread does not panic")
                .into_iter()
                .for_each(Pipe::close);
        }
    }
}
