//! Texts that cannot be guessed: secrets, tokens, challenges.

use console::{Failure, Outcome};
use std::fs::File;
use std::io::Read;

/// `N` random bytes, as hexadecimal digits.
pub(crate) fn random_hex<const N: usize>() -> Outcome<String> {
    let mut random = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(|error| Failure::os("read /dev/urandom", error))?;
    Ok(hex(&random))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
