//! Signals that end a process in order.

use console::{Failure, Outcome};
use std::os::unix::net::UnixStream;

/// SIGTERM and SIGINT, as a descriptor to poll.
pub(crate) struct Signals {
    pub(crate) pipe: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> Outcome<Signals> {
        let (pipe, write) =
            UnixStream::pair().map_err(|error| Failure::os("make a pipe for signals", error))?;
        pipe.set_nonblocking(true)
            .map_err(|error| Failure::os("make a pipe for signals", error))?;
        // SIGINT goes to the whole process group of a terminal: the supervisor handles it, and then
        // sends its order. Here the signal is only kept from killing.
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            let write = write.try_clone().map_err(|error| Failure::os("copy a pipe", error))?;
            let pipe = SignalPipe { write, signal };
            pipe.register()?;
        }
        Ok(Signals { pipe })
    }
}

struct SignalPipe {
    write: UnixStream,
    signal: i32,
}

impl SignalPipe {
    fn register(self) -> Outcome<()> {
        signal_hook::low_level::pipe::register(self.signal, self.write)
            .map(drop)
            .map_err(|error| Failure::os("wait for signals", error))
    }
}
