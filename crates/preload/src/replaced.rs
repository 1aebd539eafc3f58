//! Functions of programs that draw in a way of their own: each is replaced in the program's memory,
//! where the program exports it.
//!
//! MariaDB draws the challenge of a log-in by a generator for each connection. The seed is made
//! of the time of the start, the address of an object, and the number of statements so far; none is
//! the same at all copies. `thd_create_random_password` is a service for plugins, so its name and
//! type are kept from version to version. All challenges are drawn by it.
//!
//! - R1 what is drawn depends on the seed and on how many were drawn before, by whichever thread: a
//!   copy that is fed one connection after the other draws in the order of the log. (Threads of a
//!   pool are started when the machine is busy, so streams by thread would differ.)
//! - R2 nothing is replaced where chance is the kernel's, where the name is unknown, or where
//!   memory does not become writable.
#![allow(unsafe_code)]

use crate::chance::Stream;
use crate::{ffi, page};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The challenges that were drawn so far.
static N_DRAWN: AtomicU64 = AtomicU64::new(0);

/// The characters of a challenge, from `!` to `~`.
const N_LETTERS: u32 = 94;

/// MariaDB's function of this name: `n` characters and a zero.
///
/// # Safety
/// There is room for them from `into` on.
unsafe extern "C-unwind" fn thd_create_random_password(
    _: *mut c_void,
    into: *mut c_char,
    n: usize,
) {
    let seed = page::page().and_then(|page| page.seed()).unwrap_or_default();
    // SAFETY: by the caller.
    let bytes = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n + 1) };
    challenge(seed, N_DRAWN.fetch_add(1, SeqCst), &mut bytes[..n]);
    bytes[n] = 0;
}

/// R1
fn challenge(seed: u64, n_before: u64, into: &mut [u8]) {
    let mut stream = Stream::numbered(seed, n_before);
    into.iter_mut().for_each(|byte| *byte = b'!' + stream.below(N_LETTERS) as u8);
}

/// The processor's instructions for a jump to `target`: `movabs rax, target; jmp rax`.
#[cfg(target_arch = "x86_64")]
fn jump(target: usize) -> Option<[u8; 12]> {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    code[2..10].copy_from_slice(&target.to_ne_bytes());
    Some(code)
}

#[cfg(not(target_arch = "x86_64"))]
fn jump(_: usize) -> Option<[u8; 12]> {
    None
}

/// Replaces what the program exports. No other thread runs yet.
pub(crate) fn replace() {
    if page::page().and_then(|page| page.seed()).is_none() {
        return;
    }
    // SAFETY: a text that ends with a zero.
    let at = unsafe { ffi::dlsym(ffi::RTLD_DEFAULT, c"thd_create_random_password".as_ptr()) };
    let target = thd_create_random_password as *const () as usize;
    if let (false, Some(code)) = (at.is_null(), jump(target)) {
        write(at, &code);
    }
}

/// Writes over instructions.
fn write(at: *mut c_void, code: &[u8]) {
    const PAGE: usize = 4096;
    let begin = at.addr() / PAGE * PAGE;
    let n = at.addr() + code.len() - begin;
    let from = at.with_addr(begin);
    // SAFETY: pages of the program's instructions, which stay readable and executable.
    if unsafe { ffi::mprotect(from, n, ffi::PROT_READ_WRITE | ffi::PROT_EXEC) } != 0 {
        return; // R2
    }
    // SAFETY: they are writable now, no thread executes them yet, and the function is longer.
    unsafe { code.as_ptr().copy_to(at.cast(), code.len()) };
    // SAFETY: as before.
    unsafe { ffi::mprotect(from, n, ffi::PROT_READ | ffi::PROT_EXEC) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_a_challenge_depends_on_the_seed_and_on_how_many_came_before() {
        let drawn = |seed, n_before| {
            let mut bytes = [0; 20];
            challenge(seed, n_before, &mut bytes);
            assert!(bytes.iter().all(u8::is_ascii_graphic), "{bytes:?}");
            bytes
        };
        assert_eq!(drawn(7, 3), drawn(7, 3));
        assert!(drawn(7, 3) != drawn(7, 4) && drawn(7, 3) != drawn(8, 3));
    }
}
