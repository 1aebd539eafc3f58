//! Reads with one deadline.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Instant;

/// A stream that is read until a time, however slowly its bytes come.
#[derive(Debug)]
pub struct By<'a> {
    /// The stream.
    pub stream: &'a TcpStream,
    /// The time at which reads end with [`io::ErrorKind::TimedOut`].
    pub until: Instant,
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
