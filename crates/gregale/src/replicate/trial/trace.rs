//! What a program asks of the kernel: its system calls, as `ptrace` shows them.
//!
//! - T1 each process and thread that the program begins is traced from its first system call on,
//!   and all end with this process. By `options`.
//! - T2 what is done before the program's own file runs (`launch`) is not the program's.
//! - T3 a call is taken as one past the C library only if its instruction lies in a file that is
//!   not the C library, the loader, the kernel's own page or our library, or in the C library's
//!   function `syscall`.

use crate::elf;
use console::{Failure, Outcome};
use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest path of a file that is read.
const PATH_BYTES_MAX: usize = 512;
/// The most paths of one kind that are kept.
const PATHS_MAX: usize = 8;

/// A kind of system call that differs between copies, or hides something from the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `io_uring_setup`.
    Ring,
    /// A socket for datagrams of the internet.
    Datagrams,
    /// A timer of the kernel.
    Timer,
    /// Past the C library: chance, a clock, a wait.
    Chance,
    Clock,
    Wait,
}

/// What was seen of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) kinds: BTreeSet<Kind>,
    /// The number of times that a thread woke another one by a lock or a condition, while requests
    /// were served.
    pub(super) n_wakes: u64,
    pub(super) has_threads: bool,
    pub(super) has_children: bool,
    /// The addresses that it has connected to.
    pub(super) peers: BTreeSet<String>,
    /// The files that it has opened for writing.
    pub(super) written: BTreeSet<PathBuf>,
    /// The words of the end of its first process, if that ended by itself.
    pub(super) end: Option<String>,
}

/// What the other thread knows and wants to know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Requests are served now.
    pub(super) is_asked: AtomicBool,
    /// The trial is over: ends of processes tell nothing.
    pub(super) is_over: AtomicBool,
    /// The first process has ended.
    pub(super) has_ended: AtomicBool,
}

/// A call, by its number and arguments.
struct Call {
    number: i64,
    args: [u64; 3],
    /// The place behind the instruction.
    ip: u64,
}

impl Call {
    /// The call that a thread is about to make; `None` at the end of one.
    fn of(regs: &user_regs_struct) -> Option<Call> {
        let begins = regs.rax as i64 == -i64::from(libc::ENOSYS);
        begins.then_some(Call {
            number: regs.orig_rax as i64,
            args: [regs.rdi, regs.rsi, regs.rdx],
            ip: regs.rip,
        })
    }
}

/// The tracer of the module's text.
pub(super) struct Tracer<'a> {
    shared: &'a Shared,
    seen: Seen,
    /// This program's own file, which `launch` runs.
    own: PathBuf,
    /// Whether a thread runs the program's own file (T2).
    is_program: BTreeMap<Pid, bool>,
    /// Whether the place behind an instruction is past the C library (T3).
    is_past: BTreeMap<(Pid, u64), bool>,
    /// The places of `syscall` in C libraries.
    wrappers: BTreeMap<PathBuf, Option<Range<u64>>>,
}

impl<'a> Tracer<'a> {
    pub(super) fn new(shared: &'a Shared) -> Tracer<'a> {
        Tracer {
            shared,
            seen: Seen::default(),
            own: std::env::current_exe().unwrap_or_default(),
            is_program: BTreeMap::new(),
            is_past: BTreeMap::new(),
            wrappers: BTreeMap::new(),
        }
    }

    /// Follows the child `first`, which asks to be traced, until it and all that it began have
    /// ended.
    pub(super) fn follow(mut self, first: Pid) -> Outcome<Seen> {
        let mut has_begun = false;
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Err(Errno::ECHILD) => return Ok(self.seen),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(Failure::os("wait for the program", error)),
                Ok(WaitStatus::PtraceSyscall(pid)) => {
                    if let Some(call) = ptrace::getregs(pid).ok().as_ref().and_then(Call::of)
                        && self.is_program(pid)
                    {
                        self.look(pid, &call);
                    }
                    go_on(pid, None);
                }
                Ok(WaitStatus::PtraceEvent(pid, _, event)) => {
                    self.hear(pid, event);
                    go_on(pid, None);
                }
                Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)) if pid == first && !has_begun => {
                    has_begun = true;
                    ptrace::setoptions(pid, options())
                        .map_err(|error| Failure::os("trace the program", error))?;
                    go_on(pid, None);
                }
                // The first stop of a thread or process.
                Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)) => go_on(pid, None),
                Ok(WaitStatus::Stopped(pid, signal)) => go_on(pid, Some(signal)),
                Ok(WaitStatus::Exited(pid, code)) => {
                    self.end(first, pid, || format!("exit status {code}"));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.end(first, pid, || format!("{signal}"));
                }
                Ok(WaitStatus::Continued(_) | WaitStatus::StillAlive) => {}
            }
        }
    }

    fn end(&mut self, first: Pid, pid: Pid, how: impl FnOnce() -> String) {
        self.is_program.remove(&pid);
        if pid == first && !self.shared.is_over.load(Ordering::Acquire) {
            self.seen.end = Some(how());
            self.shared.has_ended.store(true, Ordering::Release);
        }
    }

    fn is_program(&mut self, pid: Pid) -> bool {
        let own = &self.own;
        let runs = || fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file != *own);
        *self.is_program.entry(pid).or_insert_with(runs)
    }

    fn hear(&mut self, pid: Pid, event: i32) {
        if event == libc::PTRACE_EVENT_EXEC {
            self.is_program.remove(&pid);
            self.is_past.retain(|(of, _), _| *of != pid);
        } else if self.is_program(pid) {
            self.seen.has_threads |= event == libc::PTRACE_EVENT_CLONE;
            self.seen.has_children |=
                [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK].contains(&event);
        }
    }

    fn look(&mut self, pid: Pid, call: &Call) {
        let [first, second, third] = call.args;
        let kind = match call.number {
            libc::SYS_io_uring_setup => Some(Kind::Ring),
            libc::SYS_timerfd_create
            | libc::SYS_setitimer
            | libc::SYS_timer_create
            | libc::SYS_alarm => Some(Kind::Timer),
            libc::SYS_socket => {
                let is_of_internet = [libc::AF_INET, libc::AF_INET6].contains(&(first as i32));
                let kind = second as i32 & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
                (is_of_internet && kind == libc::SOCK_DGRAM).then_some(Kind::Datagrams)
            }
            libc::SYS_futex => {
                let wakes = second as i32 & 0x7f == libc::FUTEX_WAKE;
                let is_asked = self.shared.is_asked.load(Ordering::Acquire);
                self.seen.n_wakes += u64::from(wakes && is_asked);
                (!wakes && self.is_past(pid, call.ip)).then_some(Kind::Wait)
            }
            libc::SYS_getrandom => self.is_past(pid, call.ip).then_some(Kind::Chance),
            libc::SYS_clock_gettime | libc::SYS_gettimeofday | libc::SYS_time => {
                self.is_past(pid, call.ip).then_some(Kind::Clock)
            }
            libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_accept
            | libc::SYS_accept4 => self.is_past(pid, call.ip).then_some(Kind::Wait),
            _ => None,
        };
        self.seen.kinds.extend(kind);
        match call.number {
            libc::SYS_connect => self.connects(pid, second, third),
            libc::SYS_open => self.opens(pid, libc::AT_FDCWD, first, second),
            libc::SYS_creat => self.opens(pid, libc::AT_FDCWD, first, libc::O_WRONLY as u64),
            libc::SYS_openat => self.opens(pid, first as i32, second, third),
            _ => {}
        }
    }

    fn connects(&mut self, pid: Pid, address: u64, len: u64) {
        let mut bytes = [0; 28];
        let len = bytes.len().min(len as usize);
        if !read(pid, address, &mut bytes[..len]) {
            return;
        }
        let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let peer = match family {
            libc::AF_INET => {
                let [a, b, c, d] = [bytes[4], bytes[5], bytes[6], bytes[7]];
                format!("{a}.{b}.{c}.{d}:{port}")
            }
            libc::AF_INET6 => format!("an address of version 6, port {port}"),
            _ => return,
        };
        if self.seen.peers.len() < PATHS_MAX {
            self.seen.peers.insert(peer);
        }
    }

    fn opens(&mut self, pid: Pid, at: i32, path: u64, flags: u64) {
        let flags = flags as i32;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if !writes && flags & (libc::O_CREAT | libc::O_TRUNC) == 0 {
            return;
        }
        let Some(path) = text(pid, path) else { return };
        let base = match at {
            libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
            descriptor => format!("/proc/{pid}/fd/{descriptor}"),
        };
        let path = match fs::read_link(base) {
            Ok(base) if !path.is_absolute() => base.join(path),
            _ => path,
        };
        self.seen.written.insert(path);
    }

    /// T3
    fn is_past(&mut self, pid: Pid, ip: u64) -> bool {
        if let Some(known) = self.is_past.get(&(pid, ip)) {
            return *known;
        }
        let wrappers = &mut self.wrappers;
        let is_past = mapping(pid, ip).is_some_and(|(path, offset)| {
            let name =
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
            if ["[vdso]", "[vsyscall]", super::LIBRARY].contains(&name.as_str())
                || name.starts_with("ld-linux")
            {
                return false;
            }
            if !["libc.so", "libc-", "libpthread"].iter().any(|of| name.starts_with(of)) {
                return true;
            }
            let wrapper = || elf::place_of(&path, "syscall");
            let wrapper = wrappers.entry(path.clone()).or_insert_with(wrapper);
            wrapper.as_ref().is_some_and(|range| range.contains(&(offset - 1)))
        });
        self.is_past.insert((pid, ip), is_past);
        is_past
    }
}

/// T1
fn options() -> Options {
    Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL
}

/// One that has been killed meanwhile is waited for next.
fn go_on(pid: Pid, signal: Option<Signal>) {
    let _ = ptrace::syscall(pid, signal);
}

/// Whether all of `into` was read of the memory of a process.
fn read(pid: Pid, address: u64, into: &mut [u8]) -> bool {
    let memory = File::open(format!("/proc/{pid}/mem"));
    memory.is_ok_and(|memory| memory.read_exact_at(into, address).is_ok())
}

/// The path that stands there.
fn text(pid: Pid, address: u64) -> Option<PathBuf> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = [0; PATH_BYTES_MAX];
    let n = memory.read_at(&mut bytes, address).ok()?;
    let end = bytes[..n].iter().position(|byte| *byte == 0)?;
    Some(Path::new(std::str::from_utf8(&bytes[..end]).ok()?).to_path_buf())
}

/// The file, or the kernel's name, of the memory at `ip`, and the offset in it.
fn mapping(pid: Pid, ip: u64) -> Option<(PathBuf, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16));
        let (from, to) = (from.ok()?, to.ok()?);
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        // Memory without a name is code that the program has made.
        let path = words.nth(2).unwrap_or("[made]");
        (from..to).contains(&ip).then(|| (PathBuf::from(path), ip - from + offset))
    })
}
