//! What a schedule costs on links of a given speed: the theory beside which a measurement stands.

use super::Transfer;
use alloc::vec;

/// The costs of a transfer. Each member sends over one link and receives over one, both at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The nanoseconds of a block, however short it is.
    pub block_ns: f64,
    /// The nanoseconds of a byte on a link.
    pub byte_ns: f64,
}

impl Cost {
    /// The nanoseconds until all members have a message, in blocks of `block_bytes`. A transfer
    /// begins as soon as its sender has the block, and both its ends have ended their transfers of
    /// earlier steps: no member waits for a step of others.
    pub fn span_ns(&self, transfers: &[Transfer], n_members: usize, block_bytes: usize) -> f64 {
        let n_blocks = 1 + transfers.iter().map(|one| one.block).max().unwrap_or(0);
        let each = self.block_ns + self.byte_ns * block_bytes as f64;
        let mut has_at = vec![vec![0.0_f64; n_blocks]; n_members];
        let (mut out_at, mut in_at) = (vec![0.0_f64; n_members], vec![0.0_f64; n_members]);
        let mut end = 0.0_f64;
        for Transfer { from, to, block, .. } in transfers.iter().copied() {
            let begins = has_at[from][block].max(out_at[from]).max(in_at[to]);
            let ends = begins + each;
            (out_at[from], in_at[to], has_at[to][block]) = (ends, ends, ends);
            end = end.max(ends);
        }
        end
    }
}
