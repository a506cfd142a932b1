//! The line to the host: where replies go.

use crate::wire::Reply;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The sending side. Jobs write to it from several threads.
pub(super) struct Line(Mutex<File>);

impl Line {
    pub(super) fn new(port: File) -> Line {
        Line(Mutex::new(port))
    }

    pub(super) fn send(&self, reply: &Reply) {
        let mut text = serde_json::to_vec(reply).unwrap_or_default();
        text.push(b'\n');
        // When the other end is gone, the read side sees it and ends the agent.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text);
    }
}
