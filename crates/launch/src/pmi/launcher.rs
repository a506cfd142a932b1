//! The PMI-1 client as a [`Launcher`].

use super::spawn::Part;
use super::{Client, mapping};
use crate::launcher::{self, Launcher, Name, check_rank};
use std::ops::ControlFlow;
use std::time::Duration;

impl Launcher for Client {
    fn rank(&self) -> u32 {
        Client::rank(self)
    }

    fn size(&self) -> u32 {
        Client::size(self)
    }

    fn nodes(&mut self) -> Result<Option<Vec<u32>>, launcher::Error> {
        let text = Client::get(self, "PMI_process_mapping")?;
        let count = Client::size(self);
        Ok(text.and_then(|text| mapping::nodes(&text, count)))
    }

    fn appnum(&mut self) -> Option<i32> {
        Client::appnum(self).ok().filter(|&number| number >= 0)
    }

    fn universe_size(&mut self) -> Option<i32> {
        Client::universe_size(self).ok().filter(|&size| size > 0)
    }

    fn value_bytes_max(&self) -> usize {
        self.maxes().value_bytes
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), launcher::Error> {
        Ok(Client::put(self, key, value)?)
    }

    fn fence(&mut self) -> Result<(), launcher::Error> {
        Ok(self.barrier()?)
    }

    fn fence_while(
        &mut self,
        meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>,
    ) -> Result<(), launcher::Error> {
        Ok(self.barrier_while(meanwhile)?)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, launcher::Error> {
        check_rank(rank, Client::size(self))?;
        Ok(Client::get(self, key)?)
    }

    fn get_all(&mut self, names: &[Name]) -> Result<Vec<Option<String>>, launcher::Error> {
        let size = Client::size(self);
        names.iter().try_for_each(|name| check_rank(name.rank, size))?;
        let keys: Vec<String> = names.iter().map(|name| name.key.clone()).collect();
        Ok(Client::get_all(self, &keys)?)
    }

    fn publish(&mut self, service: &str, port: &str) -> Result<(), launcher::Error> {
        Ok(Client::publish(self, service, port)?)
    }

    fn unpublish(&mut self, service: &str) -> Result<(), launcher::Error> {
        Ok(Client::unpublish(self, service)?)
    }

    fn lookup(&mut self, service: &str) -> Result<Option<String>, launcher::Error> {
        Ok(Client::lookup(self, service)?)
    }

    fn job_name(&self) -> &str {
        self.kvsname()
    }

    fn spawn(&mut self, parts: &[Part], values: &[(&str, &str)]) -> Result<(), launcher::Error> {
        Ok(Client::spawn(self, parts, values)?)
    }

    fn given(&mut self, key: &str) -> Result<Option<String>, launcher::Error> {
        if self.is_spawned() { Ok(Client::get(self, key)?) } else { Ok(None) }
    }

    /// PMI-1 reports no failures.
    fn on_failure(&mut self, _notify: Box<dyn Fn(u32) + Send>) {}

    fn finalize(&mut self) -> Result<(), launcher::Error> {
        Ok(Client::finalize(self)?)
    }

    fn resume(&mut self) -> bool {
        Client::resume(self)
    }

    fn abort(&mut self, exitcode: i32, message: Option<&str>) -> Result<(), launcher::Error> {
        Ok(Client::abort(self, exitcode, message)?)
    }
}
