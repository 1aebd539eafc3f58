//! Media with planted bugs, which tests must detect.

use super::Media;
use std::io;

/// Forwards all operations except the named ones to the media inside.
macro_rules! planted_bug {
    ($(#[$doc:meta])* $name:ident, sync: $sync:expr, sync_dir: $sync_dir:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name<M>(pub M);

        impl<M: Media> Media for $name<M> {
            type File = M::File;

            fn create(&self, name: &str, len: u64) -> io::Result<M::File> {
                self.0.create(name, len)
            }
            fn open(&self, name: &str) -> io::Result<M::File> {
                self.0.open(name)
            }
            fn len(&self, file: &M::File) -> io::Result<u64> {
                self.0.len(file)
            }
            fn read_at(&self, file: &M::File, offset: u64, into: &mut [u8]) -> io::Result<()> {
                self.0.read_at(file, offset, into)
            }
            fn write_at(&self, file: &M::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
                self.0.write_at(file, offset, bytes)
            }
            fn sync(&self, file: &M::File) -> io::Result<()> {
                $sync(&self.0, file)
            }
            fn rename(&self, from: &str, to: &str) -> io::Result<()> {
                self.0.rename(from, to)
            }
            fn remove(&self, name: &str) -> io::Result<()> {
                self.0.remove(name)
            }
            fn list(&self) -> io::Result<Vec<String>> {
                self.0.list()
            }
            fn sync_dir(&self) -> io::Result<()> {
                $sync_dir(&self.0)
            }
            fn place(&self) -> String {
                self.0.place()
            }
        }
    };
}

planted_bug! {
    /// A planted bug: directories are never synced. Tests must detect it.
    SkipsDirectorySync, sync: M::sync, sync_dir: |_: &M| Ok(())
}
planted_bug! {
    /// A planted bug: files are never synced. Tests must detect it.
    SkipsSync, sync: |_: &M, _: &M::File| Ok(()), sync_dir: M::sync_dir
}
planted_bug! {
    /// A planted bug: a failed sync counts as a successful one. Tests must detect it.
    IgnoresSyncErrors,
    sync: |media: &M, file: &M::File| {
        let _ = media.sync(file);
        Ok(())
    },
    sync_dir: M::sync_dir
}
planted_bug! {
    /// A planted bug: a snapshot's file is synced after it got its name, and the directory after
    /// that. Tests must detect it.
    SyncsAfterRename,
    sync: |_: &M, _: &M::File| Ok(()),
    sync_dir: |media: &M| {
        media.sync_dir()?;
        for name in media.list()?.iter().filter(|name| crate::snapshot::slot(name).is_some()) {
            media.sync(&media.open(name)?)?;
        }
        Ok(())
    }
}
