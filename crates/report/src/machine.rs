//! Where a number comes from. Numbers of two machines are never compared.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a result was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's own name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// System and release.
    pub kernel: String,
    /// The date, given by the caller, which knows its clock.
    pub date: String,
}

impl Machine {
    /// This machine; what it does not tell is `unknown` or 0.
    pub fn describe(date: impl Into<String>) -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned();
        let memory = read("/proc/meminfo");
        let kibibytes = field(&memory, "MemTotal").and_then(|size| size.strip_suffix(" kB"));
        let uname = rustix::system::uname();
        Machine {
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10,
            kernel: format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            ),
            date: date.into(),
        }
    }
}

/// The first `name : value` of a file of /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {} GiB, {}, {}",
            self.cpu,
            self.cores,
            self.memory_bytes.div_ceil(1 << 30),
            self.kernel,
            self.date
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read_by_name() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: another\n";
        assert_eq!(field(text, "model name"), Some("A CPU @ 2 GHz"));
        assert_eq!(field(text, "cache size"), None);
    }

    #[test]
    fn this_machine_has_a_core_and_memory() {
        let machine = Machine::describe("today");
        assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine}");
        assert!(machine.kernel.starts_with("Linux "), "{machine}");
    }
}
