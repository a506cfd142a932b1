//! The public suite for devices on TCP over the loopback interface.

use super::*;
use ayatori_core::device::conformance::{World, check};

/// A limit for what hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const STEP: Duration = Duration::from_micros(20);

struct Processes {
    devices: Vec<Option<Tcp>>,
    deadline: Instant,
}

impl Processes {
    fn new(count: u8, rails: u8) -> Box<Self> {
        let wireups = (0..count).map(|host| Wireup::listen_on(quick(), interfaces(1 + host, rails)));
        let wireups: Vec<_> = wireups.map(|wireup| wireup.expect("listen")).collect();
        let cards: Vec<_> = wireups.iter().enumerate().map(|(node, w)| w.card(node as u64, 1)).collect();
        let open = |(me, wireup): (usize, Wireup)| {
            let others = cards.iter().enumerate().map(|(id, card)| (id != me).then(|| card.clone()));
            opened(wireup, ProcessId(me as u32), Key::new([1; 32]), others.collect(), 0)
        };
        let devices = wireups.into_iter().enumerate().map(open).map(Some).collect();
        Box::new(Self { devices, deadline: Instant::now() + PATIENCE })
    }
}

impl World for Processes {
    fn processes(&self) -> Vec<ProcessId> {
        (0..self.devices.len() as u32).map(ProcessId).collect()
    }

    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        f(self.devices[at].as_mut().expect("it lives"));
    }

    fn advance(&mut self) -> bool {
        std::thread::sleep(STEP);
        Instant::now() < self.deadline
    }

    fn sleep(&mut self, at: usize) -> bool {
        let device = self.devices[at].as_mut().expect("it lives");
        while !device.wait(Some(Duration::from_secs(1))) {
            if Instant::now() > self.deadline {
                return false;
            }
        }
        true
    }

    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        let device = self.devices[at].as_mut().expect("it lives");
        let connection = device.connection_to(peer, rail).expect("it is up");
        rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both).is_ok()
    }

    fn kill(&mut self, at: usize) -> bool {
        // Its sockets close, and nothing is said.
        self.devices[at] = None;
        true
    }
}

#[test]
fn tcp_keeps_the_promises_of_a_device() {
    for (count, rails) in [(2, 2), (3, 1)] {
        let report = check(&mut || Processes::new(count, rails));
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        let skipped: Vec<_> = report.skipped.iter().map(|skip| skip.check).collect();
        assert_eq!(skipped, ["put", "get", "outside"], "{report:?}");
    }
}
