//! The PMIx client as a [`Launcher`].

use super::sys::{self, App, Status, Value, WILDCARD};
use super::{Client, Error, nodes};
use crate::launcher::{self, Launcher, check_rank};
use crate::pmi::spawn::Part;
use std::ops::ControlFlow;
use std::time::Duration;

/// Largest job whose fences bring all values to all hosts: 256 values of some hundred bytes.
const COLLECT_MAX: u32 = 256;
/// Longest value. PMIx has no limit of its own; a card is no longer than that.
const VALUE_BYTES_MAX: usize = 4096;

/// The namespace of the job that has set the other variables.
const GIVEN_BY: &str = "AYATORI_GIVEN_BY";

/// Whether these are two jobs of one run of a launcher. PRRTE and Open MPI 5 name them `RUN@NUMBER`; Open
/// MPI 4 gives them numbers whose upper 16 bits are the run's.
fn is_of_same_launcher(one: &str, other: &str) -> bool {
    let run = |name: &str| match (name.rsplit_once('@'), name.parse::<u32>()) {
        (Some((run, _)), _) => Some(run.to_owned()),
        (None, Ok(number)) => Some((number >> 16).to_string()),
        (None, Err(_)) => None,
    };
    one != other && run(one).is_some() && run(one) == run(other)
}

/// The variable in which started processes find a value.
fn given_variable(key: &str) -> String {
    format!("AYATORI_GIVEN_{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// `PMIX_ERR_NOT_SUPPORTED` (PMIx Standard 4.1, section 3.1.1).
const NOT_SUPPORTED: Status = -47;

/// Events that report a failed process of the job (PMIx Standard 4.1, section 9.1): it has asked for an
/// abort, has ended without leaving, ended by a command, by a signal, with an exit code other than 0; and
/// aborted, in version 3's code.
const FAILURES: [Status; 6] = [-8, -200, -400, -402, -404, -7];

impl Launcher for Client {
    fn rank(&self) -> u32 {
        self.proc.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn nodes(&mut self) -> Result<Option<Vec<u32>>, launcher::Error> {
        let (library, nspace) = (&self.library, &self.proc.nspace);
        if let Ok(names) = library.resolve_nodes(nspace)
            && let Some(nodes) =
                nodes::of_lists(names.split(','), self.size, |name| library.resolve_peers(nspace, name).ok())
        {
            return Ok(Some(nodes));
        }
        match self.of_job("pmix.anlmap", "asking where the processes are") {
            Ok(Some(Value::Text(text))) => Ok(crate::pmi::mapping::nodes(&text, self.size)),
            _ => Ok(None),
        }
    }

    fn appnum(&mut self) -> Option<i32> {
        match self.of_self("pmix.appnum")? {
            Value::Number(number) => i32::try_from(number).ok(),
            _ => None,
        }
    }

    fn universe_size(&mut self) -> Option<i32> {
        match self.of_job("pmix.univ.size", "asking for the universe size") {
            Ok(Some(Value::Number(size))) if size > 0 => i32::try_from(size).ok(),
            _ => None,
        }
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), launcher::Error> {
        self.has_put = true;
        Ok(self.library.put(key, value).map_err(self.error("storing a value"))?)
    }

    fn fence(&mut self) -> Result<(), launcher::Error> {
        let (collects, limit) = (self.size <= COLLECT_MAX, self.limit);
        Ok(self.fence_on(collects, &mut || ControlFlow::Continue(limit))?)
    }

    fn fence_while(
        &mut self,
        meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>,
    ) -> Result<(), launcher::Error> {
        Ok(self.fence_on(false, meanwhile)?)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, launcher::Error> {
        check_rank(rank, self.size)?;
        let found = self.library.get(&self.proc.nspace, rank, key, false, self.limit);
        Ok(match found.map_err(self.error("fetching a value"))? {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        })
    }

    fn publish(&mut self, service: &str, port: &str) -> Result<(), launcher::Error> {
        Ok(self.library.publish(service, port).map_err(|status| match status {
            sys::ERR_EXISTS | sys::ERR_DUPLICATE_KEY => {
                Error::Request { doing: "publishing a name", status, why: "the name is taken".to_owned() }
            }
            status => self.error("publishing a name")(status),
        })?)
    }

    fn unpublish(&mut self, service: &str) -> Result<(), launcher::Error> {
        Ok(self.library.unpublish(service).map_err(self.error("unpublishing a name"))?)
    }

    fn lookup(&mut self, service: &str) -> Result<Option<String>, launcher::Error> {
        Ok(self.library.lookup(service).map_err(self.error("looking a name up"))?)
    }

    fn job_name(&self) -> &str {
        &self.proc.nspace
    }

    /// The values go as variables of the environment, which every launcher with PMIx passes on. The only
    /// option supported is `wdir`.
    fn spawn(&mut self, parts: &[Part], values: &[(&str, &str)]) -> Result<(), launcher::Error> {
        let by = format!("{GIVEN_BY}={}", self.proc.nspace);
        let values = values.iter().map(|(key, value)| format!("{}={value}", given_variable(key)));
        let environment: Vec<String> = values.chain([by]).collect();
        let app = |part: &Part| App {
            program: part.program.clone(),
            args: part.args.clone(),
            environment: environment.clone(),
            directory: part.hint("wdir").map(str::to_owned),
            count: part.count,
        };
        let apps: Vec<App> = parts.iter().map(app).collect();
        Ok(self.library.spawn(&apps, self.limit).map_err(|status| match status {
            NOT_SUPPORTED => {
                let why = "this launcher starts no processes for programs".to_owned();
                Error::Request { doing: "starting processes", status, why }
            }
            status => self.error("starting processes")(status),
        })?)
    }

    /// A process inherits its environment, so the variable counts only where this job is another of the same
    /// launcher as the job that has set it.
    fn given(&mut self, key: &str) -> Result<Option<String>, launcher::Error> {
        let by = std::env::var(GIVEN_BY).unwrap_or_default();
        if !is_of_same_launcher(&by, &self.proc.nspace) {
            return Ok(None);
        }
        Ok(std::env::var(given_variable(key)).ok().filter(|value| !value.is_empty()))
    }

    fn on_failure(&mut self, notify: Box<dyn Fn(u32) + Send>) {
        let (nspace, own) = (self.proc.nspace.clone(), self.proc.rank);
        self.library.watch(
            &FAILURES,
            Box::new(move |happened| {
                let failed = happened.affected.filter(|proc| proc.nspace == nspace && proc.rank < WILDCARD);
                if let Some(proc) = failed.filter(|proc| proc.rank != own) {
                    notify(proc.rank);
                }
            }),
        );
    }

    fn finalize(&mut self) -> Result<(), launcher::Error> {
        Ok(self.library.finalize().map_err(self.error("leaving"))?)
    }

    fn abort(&mut self, exitcode: i32, message: Option<&str>) -> Result<(), launcher::Error> {
        let asked = self.library.abort(exitcode, message.unwrap_or_default());
        Ok(asked.map_err(self.error("aborting the job"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_launcher_are_told_from_those_of_another() {
        assert!(is_of_same_launcher("prterun-host-4711@1", "prterun-host-4711@2"));
        assert!(is_of_same_launcher("1863909377", "1863909378"));
        assert!(!is_of_same_launcher("prterun-host-4711@1", "prterun-host-4712@1"));
        assert!(!is_of_same_launcher("prterun-host-4711@1", "prterun-host-4711@1"));
        assert!(!is_of_same_launcher("1863909377", "1863974913"));
        assert!(!is_of_same_launcher("", "") && !is_of_same_launcher("slurm.pmix.1.0", "slurm.pmix.1.1"));
    }
}
