//! The end of a wait.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A time longer than any wait, and short enough to be added to any instant.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The instant at which a wait of `patience` ends that begins now, however long that is.
pub(crate) fn deadline(patience: Duration) -> Instant {
    Instant::now() + patience.min(FOREVER)
}

/// A stream that is read until a time, however slowly its bytes come.
pub(crate) struct By<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) until: Instant,
}

impl Read for By<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}
