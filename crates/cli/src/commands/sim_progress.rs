//! The progress bar of a long simulation.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ayatori_sim::network::{Glimpse, Watch};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs shorter than this show nothing.
const QUIET: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(200);

/// A bar on standard error, drawn by a thread of its own until this is dropped.
pub(super) struct Progress {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// `None` if standard error is no terminal.
    pub(super) fn show(watch: Arc<Watch>) -> Option<Progress> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let thread = thread::Builder::new().name("progress".into()).spawn(move || draw(&watch, &seen)).ok();
        Some(Progress { done, thread })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A bar that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn draw(watch: &Watch, done: &AtomicBool) {
    let started = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    while !done.load(Ordering::Acquire) {
        thread::park_timeout(if bar.is_none() { QUIET.saturating_sub(started.elapsed()) } else { PERIOD });
        if started.elapsed() < QUIET {
            continue;
        }
        let glimpse = watch.glimpse();
        let bar = bar.get_or_insert_with(new_bar);
        // Relative to the packets sent so far, because a workload's later packets are unknown.
        bar.set_length(glimpse.given_packet_count.max(1));
        bar.set_position(glimpse.delivered_packet_count);
        bar.set_message(line(&glimpse, started.elapsed()));
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {percent:>3} % of packets sent  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn line(glimpse: &Glimpse, elapsed: Duration) -> String {
    let million_hops = glimpse.packet_hop_count as f64 / 1e6;
    format!(
        "{:.3} ms simulated, {million_hops:.0} M packet-hops, {:.1} M/s",
        glimpse.now_ps as f64 / 1e9,
        million_hops / elapsed.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_gives_simulated_time_and_speed() {
        let glimpse = Glimpse { now_ps: 12_345_000_000, packet_hop_count: 30_000_000, ..Glimpse::default() };
        let line = line(&glimpse, Duration::from_secs(5));
        assert_eq!(line, "12.345 ms simulated, 30 M packet-hops, 6.0 M/s");
    }
}
