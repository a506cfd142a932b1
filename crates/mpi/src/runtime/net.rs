//! The device of this process: shared memory if all are on one host, shared memory and TCP otherwise.
//!
//! An enum and no trait object: where time counts (`on_device!`), the match is once around the core's own
//! generic code, which is then compiled for each device by itself; elsewhere the enum is a device as any
//! other.

use ayatori_core::buffer::{Buffer, Payload};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Gap, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::{Duration as CoreDuration, Instant};
use ayatori_devices::composite::Composite;
use ayatori_devices::shm::{Shm, WaitPolicy};
use ayatori_devices::threads::Parker;
use std::time::Duration;

/// The device. See the [module's docs](self).
#[allow(clippy::large_enum_variant)] // There is one, and the larger variant is the one that has to be near.
pub(crate) enum Net {
    /// All processes are on this host.
    Shm(Shm),
    /// Some are elsewhere.
    Composite(Box<Composite>),
}

/// Runs an expression with `$device` as the concrete device.
macro_rules! on_device {
    ($net:expr, |$device:ident| $body:expr) => {
        match $net {
            $crate::runtime::net::Net::Shm($device) => $body,
            $crate::runtime::net::Net::Composite($device) => {
                let $device = &mut **$device;
                $body
            }
        }
    };
}
pub(crate) use on_device;

/// The same, shared.
macro_rules! on_device_ref {
    ($net:expr, |$device:ident| $body:expr) => {
        match $net {
            Net::Shm($device) => $body,
            Net::Composite($device) => $body,
        }
    };
}

impl Net {
    /// How long to spin, to yield and to sleep.
    #[inline]
    pub(crate) fn policy(&self) -> WaitPolicy {
        on_device_ref!(self, |device| device.policy())
    }

    /// Lets another process run on this CPU.
    pub(crate) fn yield_now(&self) {
        on_device_ref!(self, |device| device.yield_now());
    }

    /// Sleeps until something arrives; after [`Device::arm`].
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        on_device!(self, |device| device.wait(timeout));
    }

    /// As [`Device::arm`], for a thread that releases the device and sleeps at [`parker`](Self::parker).
    pub(crate) fn arm_aside(&mut self) -> Armed {
        on_device!(self, |device| device.arm_aside())
    }

    /// Whether no thread has polled since.
    pub(crate) fn is_armed(&self) -> bool {
        on_device_ref!(self, |device| device.is_armed())
    }

    /// Where to sleep then.
    pub(crate) fn parker(&self) -> std::io::Result<Parker> {
        match self {
            Self::Shm(device) => Ok(device.parker()),
            Self::Composite(device) => device.parker(),
        }
    }

    /// How long at most.
    pub(crate) fn park_max(&self) -> Duration {
        on_device_ref!(self, |device| device.park_max())
    }

    /// After such a sleep.
    pub(crate) fn watch_if_due(&mut self) {
        on_device!(self, |device| device.watch_if_due());
    }

    /// Whether everything that was taken is on its way.
    pub(crate) fn is_flushed(&self) -> bool {
        match self {
            Self::Shm(_) => true,
            Self::Composite(device) => device.is_flushed(),
        }
    }

    /// Whether something that was taken may not be on its way. Quick.
    #[inline]
    pub(crate) fn may_hold(&self) -> bool {
        match self {
            Self::Shm(_) => false,
            Self::Composite(device) => device.may_hold(),
        }
    }

    /// Packets that came damaged and were dropped.
    pub(crate) fn damaged_count(&self) -> u64 {
        match self {
            Self::Shm(_) => 0,
            Self::Composite(device) => device.damaged_count(),
        }
    }

    /// Says goodbye to the processes of this host. Connections stay: the process may come back.
    pub(crate) fn rest(&mut self) {
        self.shm_mut().detach();
    }

    /// Comes back after [`rest`](Self::rest).
    pub(crate) fn resume(&mut self) {
        self.shm_mut().attach_again();
    }

    /// Says goodbye.
    pub(crate) fn detach(&mut self) {
        on_device!(self, |device| device.detach());
    }

    /// The device of this host's processes.
    pub(crate) fn shm(&self) -> &Shm {
        match self {
            Self::Shm(device) => device,
            Self::Composite(device) => device.shm(),
        }
    }

    /// The same, to copy by the kernel.
    pub(crate) fn shm_mut(&mut self) -> &mut Shm {
        match self {
            Self::Shm(device) => device,
            Self::Composite(device) => device.shm_mut(),
        }
    }
}

impl Device for Net {
    #[inline]
    fn rails(&self) -> &[RailCapabilities] {
        on_device_ref!(self, |device| device.rails())
    }

    #[inline]
    fn rails_to(&self, peer: ProcessId) -> RailSet {
        on_device_ref!(self, |device| device.rails_to(peer))
    }

    #[inline]
    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        on_device!(self, |device| device.send(rail, to, header, payload))
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        on_device!(self, |device| device.poll())
    }

    #[inline]
    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        on_device_ref!(self, |device| device.packet(incoming))
    }

    #[inline]
    fn release(&mut self, incoming: Incoming) {
        on_device!(self, |device| device.release(incoming));
    }

    #[inline]
    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        on_device!(self, |device| device.fetch(incoming, into))
    }

    #[inline]
    fn flush(&mut self) {
        on_device!(self, |device| device.flush());
    }

    #[inline]
    fn expect(&mut self, from: Option<ProcessId>) {
        on_device!(self, |device| device.expect(from));
    }

    fn time(&self) -> Option<Instant> {
        on_device_ref!(self, |device| device.time())
    }

    fn is_waiting(&self, peer: ProcessId) -> bool {
        on_device_ref!(self, |device| device.is_waiting(peer))
    }

    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        on_device_ref!(self, |device| device.is_near(peer))
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        on_device!(self, |device| device.register(rail, buffer))
    }

    fn deregister(&mut self, rail: Rail, key: RemoteKey) {
        on_device!(self, |device| device.deregister(rail, key));
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        on_device!(self, |device| device.put(rail, to, local, remote, token))
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        on_device!(self, |device| device.get(rail, from, local, remote, token))
    }

    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        on_device!(self, |device| device.set_gap(rail, peer, gap));
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        on_device!(self, |device| device.reset(rail, peer));
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<CoreDuration> {
        on_device!(self, |device| device.heard(rail, peer))
    }

    fn arm(&mut self) -> Armed {
        on_device!(self, |device| device.arm())
    }
}
