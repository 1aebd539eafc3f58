//! Outbox: what the program has sent to one client and the client was not, in order, and how much
//! of that may leave (`held`).

/// The outbox of the module's text.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// Of `bytes`, those that were sent, and those that may be.
    n_sent: usize,
    n_free: usize,
    /// The bytes before them.
    n_before: u64,
    is_refused: bool,
}

impl Outbox {
    /// Appends bytes, which may not leave yet.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        assert!(!self.is_refused, "O3: nothing follows what was refused");
        self.bytes.extend_from_slice(bytes);
    }

    /// All bytes that were ever appended.
    pub(crate) fn end(&self) -> u64 {
        self.n_before + self.bytes.len() as u64
    }

    /// The bytes up to this one may leave. Returns how many more these are.
    pub(crate) fn free(&mut self, end: u64) -> u64 {
        assert!(end <= self.end(), "O2: these bytes were never appended");
        let n_free = end.saturating_sub(self.n_before) as usize;
        let n_more = n_free.saturating_sub(self.n_free);
        self.n_free += n_more;
        n_more as u64
    }

    /// What may not leave now never will, nor anything behind it. Returns how many bytes that is.
    pub(crate) fn refuse(&mut self) -> u64 {
        let n_held = self.n_held();
        self.bytes.truncate(self.n_free);
        self.is_refused = true;
        n_held as u64
    }

    /// Whether what was held was refused (O3).
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The bytes that may leave.
    pub(crate) fn to_send(&self) -> &[u8] {
        &self.bytes[self.n_sent..self.n_free]
    }

    /// So many of them were sent.
    pub(crate) fn sent(&mut self, n: usize, keeps_bytes: usize) {
        self.n_sent += n;
        if self.n_sent == self.bytes.len() || self.n_sent > keeps_bytes {
            self.bytes.drain(..self.n_sent);
            self.n_before += self.n_sent as u64;
            self.n_free -= self.n_sent;
            self.n_sent = 0;
        }
    }

    /// The number of bytes that may not leave.
    pub(crate) fn n_held(&self) -> usize {
        self.bytes.len() - self.n_free
    }

    /// The number of bytes that were not sent.
    pub(crate) fn n_unsent(&self) -> usize {
        self.bytes.len() - self.n_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_leaves_in_order_and_nothing_else_does() {
        let mut outbox = Outbox::default();
        outbox.push(b"abc");
        assert_eq!((outbox.to_send(), outbox.n_held(), outbox.n_unsent()), (&b""[..], 3, 3));
        assert_eq!((outbox.free(2), outbox.free(2)), (2, 0));
        assert_eq!(outbox.to_send(), b"ab");
        outbox.sent(1, 0);
        outbox.push(b"de");
        assert_eq!((outbox.to_send(), outbox.n_held()), (&b"b"[..], 3));
        assert_eq!((outbox.end(), outbox.free(5)), (5, 3));
        outbox.sent(4, 0);
        assert_eq!((outbox.to_send(), outbox.n_unsent(), outbox.end()), (&b""[..], 0, 5));
        outbox.push(b"f");
        assert_eq!((outbox.free(5), outbox.to_send()), (0, &b""[..]), "it was free before");
        outbox.free(6);
        assert_eq!(outbox.to_send(), b"f");
    }

    #[test]
    fn o3_what_was_refused_never_leaves() {
        let mut outbox = Outbox::default();
        outbox.push(b"abc");
        assert_eq!((outbox.free(1), outbox.refuse(), outbox.n_held()), (1, 2, 0));
        assert!(outbox.is_refused());
        assert_eq!(outbox.to_send(), b"a", "it was free before");
    }

    #[test]
    #[should_panic(expected = "O2")]
    fn o2_what_was_not_appended_is_not_free() {
        Outbox::default().free(1);
    }
}
