//! A network that can be cut: relays between the processes of this machine.
//!
//! The process of a higher seat connects to that of a lower one, so there is one relay for each
//! pair, at an address that only the higher one knows. A cut relay holds the bytes that it has, and
//! the connections too; once it is mended they arrive, late, as in a network that lost packets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The wires between all pairs of seats.
pub(crate) struct Wires {
    /// By the higher seat and the lower, both from 1: the relay's address, and its switch.
    relays: Vec<(usize, usize, SocketAddr, Arc<Switch>)>,
}

/// Whether bytes pass.
#[derive(Default)]
struct Switch {
    is_cut: Mutex<bool>,
    mended: Condvar,
}

impl Switch {
    fn set(&self, is_cut: bool) {
        *self.is_cut.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.mended.notify_all();
    }

    /// Waits while the wire is cut. (Its threads end with the process, mended or not.)
    fn pass(&self) {
        let is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.mended.wait_while(is_cut, |is_cut| *is_cut));
    }
}

impl Wires {
    /// Wires between processes that listen at `addresses`.
    pub(crate) fn new(addresses: &[SocketAddr]) -> std::io::Result<Wires> {
        let mut relays = Vec::new();
        for high in 1..=addresses.len() {
            for low in 1..high {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let switch = Arc::new(Switch::default());
                relays.push((high, low, listener.local_addr()?, Arc::clone(&switch)));
                let to = addresses[low - 1];
                std::thread::spawn(move || serve(&listener, to, &switch));
            }
        }
        Ok(Wires { relays })
    }

    /// The addresses at which the process of `seat` reaches the others: by relays those that it
    /// connects to.
    pub(crate) fn addresses_for(&self, seat: usize, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut addresses = addresses.to_vec();
        for (high, low, relay, _) in &self.relays {
            if *high == seat {
                addresses[low - 1] = *relay;
            }
        }
        addresses
    }

    /// Cuts the wires between `seats` and all others, or mends them.
    pub(crate) fn cut(&self, seats: &[usize], is_cut: bool) {
        for (high, low, _, switch) in &self.relays {
            if seats.contains(high) != seats.contains(low) {
                switch.set(is_cut);
            }
        }
    }
}

fn serve(listener: &TcpListener, to: SocketAddr, switch: &Arc<Switch>) {
    for near in listener.incoming().map_while(Result::ok) {
        let switch = Arc::clone(switch);
        std::thread::spawn(move || {
            switch.pass();
            // Nothing listens there: the near side learns it by the end of its connection.
            let Ok(far) = TcpStream::connect(to) else { return };
            let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { return };
            let back = Arc::clone(&switch);
            std::thread::spawn(move || copy(far_too, near_too, &back));
            copy(near, far, &switch);
        });
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, switch: &Switch) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        switch.pass();
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    switch.pass();
    // One side has ended: so does the other, both ways.
    let _ended = to.shutdown(Shutdown::Both);
    let _ended = from.shutdown(Shutdown::Both);
}
