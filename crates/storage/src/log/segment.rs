//! The files of the log: names, and the first block of each.
//!
//! ```text
//!  0  [8]  "GREGLOG" 0       8  u32  format version (1)     12  u32  bytes of the file
//! 16  u64  log: the log to which it belongs              24  u32  segment: its number
//! 28  ...  zeros             4092  u32  CRC32C of bytes 0..4092
//! ```

use super::record::Position;

/// The number of bytes of the first block; the first record follows it.
pub const FIRST_BLOCK: u32 = 4096;
/// The version of everything in a segment file.
pub const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"GREGLOG\0";
const CRC_AT: usize = FIRST_BLOCK as usize - 4;

/// A segment that is being filled with zeros; worthless after a crash.
pub(crate) const UNBORN: &str = "log.next";
/// Segments that were freed and wait for their next use. Their number is that of the segments which
/// a log frees at once, in the usual case: a user that keeps as many bytes behind each snapshot
/// writes no zeros once it has begun.
pub(crate) const SPARES: [&str; 4] = ["log.spare", "log.spare-1", "log.spare-2", "log.spare-3"];

/// The file name of a segment.
pub fn name(segment: u32) -> String {
    format!("log-{segment:08x}")
}

/// The number of the segment with this file name.
pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("log-").filter(|digits| digits.len() == 8)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (self::name(number) == name).then_some(number)
}

/// The position of the first record of a segment.
pub(crate) const fn first(segment: u32) -> Position {
    Position::new(segment, FIRST_BLOCK)
}

/// The first block of a segment.
pub(crate) fn first_block(log: u64, segment: u32, len: u32) -> Vec<u8> {
    let mut block = Vec::with_capacity(FIRST_BLOCK as usize);
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&VERSION.to_le_bytes());
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(&log.to_le_bytes());
    block.extend_from_slice(&segment.to_le_bytes());
    block.resize(CRC_AT, 0);
    let crc = crc32c::crc32c(&block);
    block.extend_from_slice(&crc.to_le_bytes());
    block
}

/// Checks that `file` begins as segment `segment` of log `log` must; returns the difference.
pub(crate) fn check(file: &[u8], log: u64, segment: u32) -> Result<(), String> {
    let Some(block) = file.get(..FIRST_BLOCK as usize) else {
        return Err(format!("it has {} bytes, less than its first block", file.len()));
    };
    let (found_log, found_segment, version) = parts(block)?;
    if version != VERSION {
        return Err(format!(
            "it has format version {version}, this program knows {VERSION}: use the release that \
             wrote it, or a later one"
        ));
    }
    if (found_log, found_segment) != (log, segment) {
        return Err(format!(
            "it is segment {found_segment} of log {found_log:016x}, expected segment {segment} of \
             log {log:016x}"
        ));
    }
    let len = u32::from_le_bytes([12, 13, 14, 15].map(|at| block[at]));
    if file.len() != len as usize {
        return Err(format!("it has {} bytes and was made with {len}", file.len()));
    }
    Ok(())
}

/// (log, segment, format version) of a first block that is intact.
pub(crate) fn parts(block: &[u8]) -> Result<(u64, u32, u32), String> {
    let intact = block.len() >= FIRST_BLOCK as usize
        && crc32c::crc32c(&block[..CRC_AT]).to_le_bytes() == block[CRC_AT..CRC_AT + 4];
    if block.get(..8) != Some(MAGIC) || !intact {
        return Err("its first block is damaged".to_owned());
    }
    let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| block[at + n]));
    let log = u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32;
    Ok((log, u32_at(24), u32_at(8)))
}

/// The seed of the checksums of records.
pub(crate) const fn salt(log: u64) -> u32 {
    (log ^ log >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_none() {
        assert_eq!(number(&name(0x1f)), Some(0x1f));
        let misspelt = ["log-1", "log-0000000G", "log-+0000001", "log-0000001F", UNBORN];
        for stranger in misspelt.into_iter().chain(SPARES) {
            assert_eq!(number(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_first_block_of_another_log_segment_size_or_version_is_refused() {
        let mut file = first_block(5, 6, 8192);
        file.resize(8192, 0);
        check(&file, 5, 6).unwrap();
        assert!(check(&file, 4, 6).unwrap_err().contains("of log"));
        assert!(check(&file, 5, 7).unwrap_err().contains("segment 7"));
        assert!(check(&file[..8000], 5, 6).unwrap_err().contains("8192"));
        file[8] = 2;
        let crc = crc32c::crc32c(&file[..CRC_AT]).to_le_bytes();
        file[CRC_AT..CRC_AT + 4].copy_from_slice(&crc);
        assert!(check(&file, 5, 6).unwrap_err().contains("version 2"));
    }
}
