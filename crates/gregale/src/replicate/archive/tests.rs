//! Tests of archives.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// All bytes of an archive, read in pieces of a size.
fn bytes_of(packed: &mut Packed, size: usize) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; size]);
    while (all.len() as u64) < packed.len() {
        let n = packed.read(all.len() as u64, &mut piece).unwrap();
        assert!(n > 0, "there are {} bytes of {}", all.len(), packed.len());
        all.extend_from_slice(&piece[..n]);
    }
    all
}

fn unpack(bytes: &[u8], size: usize, root: &Path) -> Result<PathBuf, String> {
    let mut unpacker = Unpacker::new(root.to_owned());
    bytes.chunks(size).try_for_each(|piece| unpacker.take(piece))?;
    unpacker.finish()
}

/// A directory with something of everything.
fn directory(base: &Path) -> PathBuf {
    let from = base.join("from");
    fs::create_dir_all(from.join("a/empty")).unwrap();
    let mut mixed = vec![0; 3 * BLOCK_BYTES + 7];
    mixed[BLOCK_BYTES + 5] = 9;
    mixed[3 * BLOCK_BYTES + 6] = 8;
    fs::write(from.join("a/mixed"), &mixed).unwrap();
    fs::write(from.join("none"), b"").unwrap();
    fs::write(from.join("large"), (0..700_000u32).map(|n| n as u8).collect::<Vec<_>>()).unwrap();
    symlink("../none", from.join("a/link")).unwrap();
    fs::set_permissions(from.join("none"), fs::Permissions::from_mode(0o604)).unwrap();
    fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
    from
}

#[test]
fn a_directory_is_unpacked_as_it_was_packed_in_pieces_of_any_size() {
    let base = tempfile::tempdir().unwrap();
    let from = directory(base.path());
    let mut packed = Packed::of(&from, &mut || Ok(())).unwrap();
    let bytes = bytes_of(&mut packed, 4000);
    assert!(bytes.len() < 720_000, "zeros are left out: {}", bytes.len());
    assert_eq!(bytes, bytes_of(&mut packed, 100_000));
    for size in [1, 977, 1 << 20] {
        let to = unpack(&bytes, size, &base.path().join(format!("to-{size}"))).unwrap();
        for name in ["a/mixed", "none", "large"] {
            assert!(fs::read(to.join(name)).unwrap() == fs::read(from.join(name)).unwrap());
        }
        assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("../none"));
        assert_eq!(fs::read_dir(to.join("a/empty")).unwrap().count(), 0);
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode("none"), mode("a")), (0o604, 0o500));
        fs::set_permissions(to.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a3_what_is_damaged_or_not_whole_does_not_count() {
    let base = tempfile::tempdir().unwrap();
    let from = base.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), b"content").unwrap();
    let bytes = bytes_of(&mut Packed::of(&from, &mut || Ok(())).unwrap(), 4000);
    let mut n_roots = 0;
    let mut refused = |bytes: &[u8]| {
        n_roots += 1;
        unpack(bytes, 4000, &base.path().join(format!("to-{n_roots}"))).is_err()
    };
    assert!(!refused(&bytes));
    for n in 0..bytes.len() {
        assert!(refused(&bytes[..n]), "{n} bytes of {}", bytes.len());
    }
    for n in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[n] ^= 1;
        assert!(refused(&damaged), "byte {n}");
    }
    assert!(refused(&[&bytes[..], b"x"].concat()));
}

/// The archive of these records.
fn archive(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    records.iter().for_each(|record| bytes.extend_from_slice(record));
    bytes.push(END);
    let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend_from_slice(&hash.to_le_bytes());
    bytes
}

fn record(kind: u8, name: &str, behind: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    put_text(&mut out, OsStr::new(name)).unwrap();
    let of = fs::metadata("/proc/self").unwrap();
    out.extend_from_slice(&of.uid().to_le_bytes());
    out.extend_from_slice(&of.gid().to_le_bytes());
    out.extend_from_slice(behind);
    out
}

#[test]
fn a2_no_path_leads_out_of_the_directory() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("outside")).unwrap();
    let mode = 0o700u32.to_le_bytes();
    let root = record(DIRECTORY, "", &mode);
    let file = |name: &str| record(FILE, name, &[&mode[..], &[0; 8], &[0; 16]].concat());
    let mut target = Vec::new();
    put_text(&mut target, base.path().join("outside").as_os_str()).unwrap();
    let link = record(LINK, "link", &target);
    let within = record(DIRECTORY, "within", &mode);
    let mut n_roots = 0;
    let mut unpacked = |records: &[&Vec<u8>]| {
        n_roots += 1;
        let records: Vec<Vec<u8>> = records.iter().map(|record| (*record).clone()).collect();
        unpack(&archive(&records), 100, &base.path().join(format!("to-{n_roots}"))).map(drop)
    };
    assert_eq!(unpacked(&[&root, &link, &within, &file("within/x"), &file("x")]), Ok(()));
    let absolute = base.path().join("outside/x").display().to_string();
    for name in ["../x", "within/../../x", "link/x", &absolute, "", ".", "nowhere/x"] {
        let refused = unpacked(&[&root, &link, &within, &file(name)]).unwrap_err();
        assert!(refused.contains("outside of its directory"), "{name:?}: {refused}");
    }
    assert!(unpacked(&[&root, &link, &file("link")]).is_err(), "a name that is there");
    assert!(unpacked(&[&file("x")]).is_err(), "without a directory");
    assert_eq!(fs::read_dir(base.path().join("outside")).unwrap().count(), 0);
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let base = tempfile::tempdir().unwrap();
    let mut rng = base::Rng::new(7);
    for n in 0..2000 {
        // A kind that exists, and then anything.
        let mut bytes = [&MAGIC[..], &[rng.below(5) as u8, rng.below(4) as u8, 0]].concat();
        bytes.extend((0..rng.below(100)).map(|_| rng.below(4) as u8));
        assert!(unpack(&bytes, 50, &base.path().join(format!("to-{n}"))).is_err());
    }
}
