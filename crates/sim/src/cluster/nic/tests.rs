//! The simulated NIC keeps what a device promises, with the profile of each shipping device and without one.

use ayatori_core::device::Device;
use ayatori_core::device::conformance::{self, World};
use ayatori_core::ids::{ProcessId, Rail};

use super::Nic;
use crate::cluster::fabric::Fabric;
use crate::cluster::{Config, NicDevice, Profile, Transfer};
use crate::machine::nsim_torus;

const PROCESS_COUNT: u32 = 3;
/// What a rail queues, instead of what its device does: the suite fills it often.
const QUEUE_BYTES: u64 = 16 << 10;

/// Two processes on one host and one on another: both the memory's rail and the NIC's.
struct Simulated {
    fabric: Fabric,
    /// By process: the fabric has called it since its device was last used.
    is_called: Vec<bool>,
}

impl Simulated {
    fn new(config: Config) -> Simulated {
        let network = nsim_torus(&[2], None).unwrap();
        let config = Config { processes_per_host: 2, ..config };
        let mut fabric = Fabric::new(network, config, PROCESS_COUNT);
        fabric.rails.iter_mut().for_each(|rail| rail.queue_bytes = QUEUE_BYTES);
        Simulated { fabric, is_called: vec![false; PROCESS_COUNT as usize] }
    }
}

impl World for Simulated {
    fn processes(&self) -> Vec<ProcessId> {
        (0..PROCESS_COUNT).map(ProcessId).collect()
    }

    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        self.is_called[at] = false;
        f(&mut Nic { fabric: &mut self.fabric, me: at as u32 });
    }

    fn advance(&mut self) -> bool {
        let next = self.fabric.next_runnable().expect("two hosts do not deadlock");
        if let Some(rank) = next {
            self.is_called[rank as usize] = true;
        }
        next.is_some()
    }

    fn sleep(&mut self, at: usize) -> bool {
        while !self.is_called[at] {
            if !self.advance() {
                return false;
            }
        }
        true
    }

    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        self.fabric.cut(at as u32, peer.0, rail.0);
        true
    }
}

/// The checks that do not apply.
fn skipped(config: &Config) -> Vec<&'static str> {
    let report = conformance::check(&mut || Box::new(Simulated::new(config.clone())));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    report.skipped.iter().map(|skip| skip.check).collect()
}

fn profile(device: NicDevice) -> Config {
    Config { profile: Some(Profile { device, mtu_bytes: 1_500 }), ..Config::default() }
}

// No process of a simulated cluster dies, so "gone" is never checked.

#[test]
fn nic_of_profile_tcp_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Tcp)), ["gone"]);
}

#[test]
fn nic_of_profile_shm_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Shm)), ["breaks", "gone"]);
}

#[test]
fn nic_of_profile_rdma_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Rdma)), ["breaks", "gone"]);
}

#[test]
fn nic_of_several_stages_keeps_what_devices_promise() {
    let text = include_str!("../../../../../machines/yampii-openib.toml");
    let machine = ayatori_fabric::description::Machine::parse("yampii-openib.toml", text).unwrap();
    let with = |transfer| {
        let hardware = crate::host::Model::of(&machine.host_models[0], 1_920).map(std::rc::Rc::new);
        Config { transfer, hardware, ..Config::default() }
    };
    assert_eq!(skipped(&with(Transfer::Get)), ["put", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Put)), ["get", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Packets)), ["put", "get", "outside", "breaks", "gone"]);
}

#[test]
fn nic_without_a_profile_keeps_what_devices_promise() {
    let with = |transfer| Config { transfer, ..Config::default() };
    assert_eq!(skipped(&with(Transfer::Get)), ["put", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Put)), ["get", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Packets)), ["put", "get", "outside", "breaks", "gone"]);
}
