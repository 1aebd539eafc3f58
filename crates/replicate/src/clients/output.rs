//! What the copy sends to the clients.

use super::{Clients, OUTPUT_BYTES_MAX, Reading};
use crate::bugs::Bug;
use crate::feeder::Audience;
use engine::Desk;
use engine::streams::Streams;
use proto::planted::Planting;

impl<B: Planting<Bug>> Clients<B> {
    /// Sends output.
    pub fn flush<S: Streams>(&mut self, streams: &mut S, desk: &mut Desk) {
        for number in std::mem::take(&mut self.dirty) {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let written = streams.write(client.key, &client.output[client.n_sent..]);
            let Ok(n) = written else {
                self.leave(number, streams, desk);
                continue;
            };
            client.n_sent += n;
            if client.n_sent == client.output.len() {
                client.output.clear();
                client.n_sent = 0;
                if client.is_over {
                    self.leave(number, streams, desk);
                    continue;
                }
            } else if client.output.len() - client.n_sent > OUTPUT_BYTES_MAX {
                self.to_abort.insert(number); // C2
                continue;
            } else if client.n_sent > OUTPUT_BYTES_MAX / 64 {
                client.output.drain(..client.n_sent);
                client.n_sent = 0;
            }
            self.watch(number, streams);
        }
    }
}

impl<B: Planting<Bug>> Audience for Clients<B> {
    fn output(&mut self, number: u64, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.output.extend_from_slice(bytes);
            client.scanner.iter_mut().for_each(|scanner| scanner.hear(bytes));
            self.dirty.insert(number);
        }
    }

    fn has_read(&mut self, number: u64) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.reading = Reading::Nothing;
        }
    }

    /// As C3.
    fn cut_off(&mut self, number: u64) {
        if self.clients.contains_key(&number) {
            self.to_abort.insert(number);
        }
    }

    fn ended(&mut self, number: u64) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.is_over = true;
            self.dirty.insert(number);
        }
    }
}
