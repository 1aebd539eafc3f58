//! The boot of the machine, which memory on tmpfs does not outlive.

use crate::Error;
use std::path::Path;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A fingerprint of the kernel's boot id; the same for all processes of one boot.
pub(crate) fn fingerprint() -> Result<u64, Error> {
    let id = std::fs::read(BOOT_ID)
        .map_err(|source| Error::os("read the boot id from", Path::new(BOOT_ID), source))?;
    Ok(xxhash_rust::xxh3::xxh3_64(id.trim_ascii()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_boot_has_one_fingerprint() {
        assert_eq!(super::fingerprint().unwrap(), super::fingerprint().unwrap());
    }
}
