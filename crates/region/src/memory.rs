//! A stretch of zeroed memory that lives until its last view is gone: a mapped file, or the heap.
#![allow(unsafe_code)]

use crate::Error;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;

/// M1: `base` is 64-byte aligned and `n_bytes` from it on are readable and writable until drop.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    n_bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// From `mmap`.
    Mapped,
    /// From the allocator, with this layout.
    Heap(Layout),
}

// SAFETY: the memory is bound to no thread: `Memory` hands out only a raw pointer, and the uses of
// it in `Words` and `robust` are atomic or pthread calls.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps all of `file`, which the caller has found (or made) `n_bytes` long.
    ///
    /// The page tables are filled at once, so that no verb pays for a page fault.
    pub(crate) fn map(file: &File, n_bytes: usize, path: &Path) -> Result<Memory, Error> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a null hint lets the kernel choose free addresses, so no memory of ours is
        // touched. No process ever truncates the file (regions are only unlinked), so the pages
        // stay there.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                n_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                0,
            )
        }
        .map_err(|source| Error::os("map", path, source))?;
        let base = NonNull::new(base.cast()).expect("a null hint is never mapped at null");
        Ok(Memory { base, n_bytes, kind: Kind::Mapped })
    }

    /// Zeroed memory of this process only.
    pub(crate) fn heap(n_bytes: usize) -> Memory {
        assert!(n_bytes > 0);
        let layout =
            Layout::from_size_align(n_bytes, 64).expect("a region is far below isize::MAX");
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
        Memory { base, n_bytes, kind: Kind::Heap(layout) }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.kind {
            Kind::Mapped => {
                // SAFETY: mapped by `map` with this address and length, and unmapped only here;
                // every view holds this `Memory`, so none is left.
                let unmapped =
                    unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.n_bytes) };
                debug_assert!(unmapped.is_ok());
            }
            // SAFETY: allocated by `heap` with this layout, and freed only here.
            Kind::Heap(layout) => unsafe { dealloc(self.base.as_ptr(), layout) },
        }
    }
}
