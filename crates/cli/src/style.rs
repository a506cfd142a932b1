//! Colour: whether there is any, decided once, and the few styles that output uses.
//!
//! `--color` wins, then `NO_COLOR` (<https://no-color.org>: any value that is not empty), then whether
//! standard output is a terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// Where standard output is a terminal and NO_COLOR is not set
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Nowhere
    Never,
}

static IS_ON: OnceLock<bool> = OnceLock::new();

/// Decides for the rest of the process. A second call changes nothing.
pub(crate) fn choose(choice: Choice) {
    let _ = IS_ON.set(is_on(choice, std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())));
}

fn is_on(choice: Choice, no_color: bool) -> bool {
    match choice {
        Choice::Always => true,
        Choice::Never => false,
        Choice::Auto => !no_color && std::io::stdout().is_terminal(),
    }
}

fn styled(code: &str, text: &str) -> String {
    match IS_ON.get() {
        Some(true) => format!("\x1b[{code}m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

/// A failure.
pub(crate) fn bad(text: &str) -> String {
    styled("1;31", text)
}

/// A warning.
pub(crate) fn warning(text: &str) -> String {
    styled("1;33", text)
}

/// A success.
pub(crate) fn good(text: &str) -> String {
    styled("32", text)
}

/// Text of less importance.
pub(crate) fn faint(text: &str) -> String {
    styled("2", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_environment() {
        assert!(is_on(Choice::Always, true));
        assert!(!is_on(Choice::Never, false) && !is_on(Choice::Auto, true));
    }
}
