//! Published names (`MPI_Publish_name`): those of a job and of all that it has started.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// All names and ports together, in bytes.
const STORE_MAX_BYTES: usize = 16 << 20;

/// Requests to the name service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameRequest {
    /// That a service is at a port.
    Publish(String, String),
    /// That a service is nowhere.
    Unpublish(String),
    /// Where a service is.
    Lookup(String),
}

/// Its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameReply {
    /// That is so from now on.
    Done,
    /// It is there.
    Port(String),
    /// No, and why.
    Refused(String),
}

/// The names that are published in a job and in those that it has started.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ports: HashMap<String, String>,
    bytes: usize,
}

impl Names {
    /// Answers a request.
    pub(crate) fn serve(&mut self, request: &NameRequest) -> NameReply {
        let refused = |why: &str| NameReply::Refused(why.to_owned());
        match request {
            NameRequest::Publish(service, port) => {
                let bytes = self.bytes + service.len() + port.len();
                if self.ports.contains_key(service) || bytes > STORE_MAX_BYTES {
                    return refused("the_name_is_taken_or_the_store_full");
                }
                self.bytes = bytes;
                self.ports.insert(service.clone(), port.clone());
                NameReply::Done
            }
            NameRequest::Unpublish(service) => match self.ports.remove(service) {
                Some(port) => {
                    self.bytes -= service.len() + port.len();
                    NameReply::Done
                }
                None => refused("no_such_name"),
            },
            NameRequest::Lookup(service) => match self.ports.get(service) {
                Some(port) => NameReply::Port(port.clone()),
                None => refused("no_such_name"),
            },
        }
    }
}
