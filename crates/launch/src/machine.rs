//! This machine.

use std::sync::OnceLock;

/// This machine's name.
pub fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
