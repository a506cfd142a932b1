//! Hints for files (MPI-5.0 §14.2.8): those that mean something here, and the names by which ROMIO's users
//! know them.

use crate::abi::*;
use crate::fault::Fault;
use crate::info::{self, Info};

/// Whether a way is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// Where it pays.
    Automatic,
}

impl Switch {
    fn of(text: &str) -> Option<Self> {
        match text {
            "enable" | "true" => Some(Self::Enable),
            "disable" | "false" => Some(Self::Disable),
            "automatic" => Some(Self::Automatic),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Automatic => "automatic",
        }
    }

    fn of_number(number: u64) -> Self {
        match number {
            0 => Self::Enable,
            1 => Self::Disable,
            _ => Self::Automatic,
        }
    }
}

/// The hints in use.
#[derive(Clone, Debug)]
pub(crate) struct Hints {
    /// Processes that read and write for all in collective calls; 0: some on each host.
    pub(crate) cb_nodes: u64,
    /// Bytes of the file that one of them has in memory at a time.
    pub(crate) cb_buffer_bytes: u64,
    /// Whether collective reads go through them.
    pub(crate) cb_read: Switch,
    /// Whether collective writes do.
    pub(crate) cb_write: Switch,
    /// Whether small pieces are read by windows.
    pub(crate) ds_read: Switch,
    /// Whether they are written so.
    pub(crate) ds_write: Switch,
    /// Bytes of a window that is read.
    pub(crate) read_window_bytes: u64,
    /// Bytes of one that is written.
    pub(crate) write_window_bytes: u64,
    /// Hints kept for `MPI_File_get_info` and otherwise ignored.
    others: Vec<(&'static str, Vec<u8>)>,
}

/// Most bytes of a buffer that a hint may ask for.
const BUFFER_BYTES_MAX: u64 = 1 << 32;
/// Hints of the standard that are remembered.
const OTHERS: [&str; 8] = [
    "access_style",
    "cb_block_size",
    "chunked",
    "chunked_item",
    "file_perm",
    "io_node_list",
    "striping_factor",
    "striping_unit",
];

impl Hints {
    /// Where nothing is asked for.
    pub(crate) fn usual() -> Self {
        Self {
            cb_nodes: 0,
            cb_buffer_bytes: 16 << 20,
            cb_read: Switch::Automatic,
            cb_write: Switch::Automatic,
            ds_read: Switch::Automatic,
            ds_write: Switch::Automatic,
            read_window_bytes: 4 << 20,
            write_window_bytes: 512 << 10,
            others: Vec::new(),
        }
    }

    /// Takes those of an info object that have good values; others are ignored.
    pub(crate) fn take(&mut self, info: MPI_Info) -> Result<(), Fault> {
        if info == MPI_INFO_NULL {
            return Ok(());
        }
        info::with(info, |info| {
            self.take_from(info);
            Ok(())
        })
    }

    fn take_from(&mut self, info: &Info) {
        let text = |key: &str| std::str::from_utf8(info.get(key.as_bytes())?).ok().map(str::trim);
        let number = |key: &str| text(key)?.parse::<u64>().ok();
        let bytes = |key: &str| number(key).filter(|bytes| (1..=BUFFER_BYTES_MAX).contains(bytes));
        let switch = |key: &str| Switch::of(text(key)?);
        let set = |to: &mut u64, value: Option<u64>| *to = value.unwrap_or(*to);
        set(&mut self.cb_nodes, number("cb_nodes"));
        set(&mut self.cb_buffer_bytes, bytes("cb_buffer_size"));
        set(&mut self.read_window_bytes, bytes("ind_rd_buffer_size"));
        set(&mut self.write_window_bytes, bytes("ind_wr_buffer_size"));
        if let Some(both) = switch("collective_buffering") {
            (self.cb_read, self.cb_write) = (both, both);
        }
        self.cb_read = switch("romio_cb_read").unwrap_or(self.cb_read);
        self.cb_write = switch("romio_cb_write").unwrap_or(self.cb_write);
        self.ds_read = switch("romio_ds_read").unwrap_or(self.ds_read);
        self.ds_write = switch("romio_ds_write").unwrap_or(self.ds_write);
        for key in OTHERS {
            if let Some(value) = info.get(key.as_bytes()) {
                self.others.retain(|(known, _)| *known != key);
                self.others.push((key, value.to_vec()));
            }
        }
    }

    /// The permissions of a file that is made, if the hint `file_perm` gives them (octal).
    pub(crate) fn permissions(&self) -> Option<u32> {
        let (_, value) = self.others.iter().find(|(key, _)| *key == "file_perm")?;
        let digits = std::str::from_utf8(value).ok()?.trim();
        u32::from_str_radix(digits, 8).ok().filter(|permissions| *permissions <= 0o7777)
    }

    /// Those on which the order of messages depends, so that all processes have to use the same.
    pub(crate) fn shared(&self) -> [u64; 5] {
        let [read, write, sieve] = [self.cb_read, self.cb_write, self.ds_write].map(|switch| switch as u64);
        [self.cb_nodes, self.cb_buffer_bytes, read, write, sieve]
    }

    /// Takes these over.
    pub(crate) fn share(&mut self, [nodes, bytes, read, write, sieve]: [u64; 5]) {
        (self.cb_nodes, self.cb_buffer_bytes) = (nodes, bytes);
        let switches = [read, write, sieve].map(Switch::of_number);
        [self.cb_read, self.cb_write, self.ds_write] = switches;
    }

    /// As an info object (`MPI_File_get_info`).
    pub(crate) fn to_info(&self, file_name: &str, processes_count: u32) -> Info {
        let mut info = Info::default();
        let nodes = if self.cb_nodes == 0 { processes_count.into() } else { self.cb_nodes };
        info.put("cb_nodes", &nodes.min(processes_count.into()).to_string());
        info.put("cb_buffer_size", &self.cb_buffer_bytes.to_string());
        info.put("ind_rd_buffer_size", &self.read_window_bytes.to_string());
        info.put("ind_wr_buffer_size", &self.write_window_bytes.to_string());
        for (key, switch) in [
            ("romio_cb_read", self.cb_read),
            ("romio_cb_write", self.cb_write),
            ("romio_ds_read", self.ds_read),
            ("romio_ds_write", self.ds_write),
        ] {
            info.put(key, switch.name());
        }
        let both = self.cb_read != Switch::Disable && self.cb_write != Switch::Disable;
        info.put("collective_buffering", if both { "true" } else { "false" });
        for (key, value) in &self.others {
            info.put(key, &String::from_utf8_lossy(value));
        }
        info.put("nb_proc", &processes_count.to_string());
        info.put("filename", file_name);
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_values_are_taken_and_others_ignored() {
        let mut info = Info::default();
        for (key, value) in [
            ("cb_nodes", "3"),
            ("cb_buffer_size", "0"),
            ("ind_wr_buffer_size", "many"),
            ("romio_ds_write", "disable"),
            ("collective_buffering", "false"),
            ("romio_cb_write", "enable"),
            ("file_perm", "640"),
            ("unheard_of", "1"),
        ] {
            info.put(key, value);
        }
        let mut hints = Hints::usual();
        hints.take_from(&info);
        assert_eq!((hints.cb_nodes, hints.cb_buffer_bytes), (3, Hints::usual().cb_buffer_bytes));
        assert_eq!(hints.write_window_bytes, Hints::usual().write_window_bytes);
        let switches = [hints.cb_read, hints.cb_write, hints.ds_read, hints.ds_write];
        use Switch::{Automatic, Disable, Enable};
        assert_eq!(switches, [Disable, Enable, Automatic, Disable]);
        assert_eq!(hints.permissions(), Some(0o640));
        let mut other = Hints::usual();
        other.share(hints.shared());
        assert_eq!(other.shared(), hints.shared());
        let shown = hints.to_info("name", 2);
        assert_eq!(shown.get(b"cb_nodes"), Some(&b"2"[..]));
        assert_eq!(shown.get(b"unheard_of"), None);
        assert_eq!(shown.get(b"file_perm"), Some(&b"640"[..]));
    }
}
