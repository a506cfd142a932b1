pub(crate) mod cluster;

pub(crate) mod ending {
    /// As in the command's `ending.rs`, which needs much else.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Status {
        Exited(i32),
        Killed { signal: i32, is_core_dumped: bool },
    }
}
