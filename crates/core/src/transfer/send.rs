//! The sender of a long message.

use super::choose::{self, Learnt, Question, Rails, Way};
use super::spread::Spread;
use super::state::{Event, State};
use super::{Measured, Operation, Transfer, Transfers, What, Work, shape_of};
use crate::data::Data;
use crate::device::{Device, Full, Gap, RemoteRegion};
use crate::error::Blame;
use crate::ids::{Rail, RequestId, TransferId};
use crate::link::{LinkIndex, Links, Pick, Rest, Run, Units};
use crate::request::Completion;
use crate::wire::{Envelope, Header, Keys};

/// A message to be announced.
pub(crate) struct Announcement {
    pub(crate) request: RequestId,
    pub(crate) link: LinkIndex,
    pub(crate) envelope: Envelope,
    pub(crate) data: Data,
    pub(crate) gap: Gap,
    /// See [`Question`].
    pub(crate) is_alone: bool,
    /// See [`Question`].
    pub(crate) is_awaited: bool,
    /// See [`Question`].
    pub(crate) eager_bytes_max: Option<usize>,
    /// See [`Question`]; with the message's name, if it is of a trial.
    pub(crate) learnt: Option<(Learnt, Option<RequestId>)>,
}

/// Result of giving units to a rail.
enum Given {
    /// Number of the round's pieces given.
    Sent(u32),
    /// There are none left to give.
    All,
    /// No rail has room: go on when something is acknowledged.
    NoRoom,
    /// The rails that have room are full: go on when the device was polled.
    Full,
}

impl Transfers {
    /// Announces a message.
    pub(crate) fn announce<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        announcement: Announcement,
    ) -> TransferId {
        let Announcement { request, link: index, envelope, data, gap, .. } = announcement;
        let link = links.get_mut(index);
        // Now, in case the receiver gets it, and again when we put or send it.
        link.pace(device, gap);
        let choice = choose::choose(&Question {
            length_bytes: data.len(),
            source: shape_of(&data),
            rails: Rails { all: device.rails(), reach: link.rails() },
            eager_bytes_max: announcement.eager_bytes_max,
            has_credit: false,
            is_alone: announcement.is_alone,
            is_awaited: announcement.is_awaited,
            learnt: announcement.learnt.map(|(learnt, _)| learnt),
        });
        let keys = match choice.way {
            Way::Get => self.register(device, choice.rails, data.as_memory()),
            _ => Keys::default(),
        };
        let name = announcement.learnt.and_then(|(_, name)| name);
        let total = data.len() as u64;
        self.sends_count += 1;
        let id = self.transfers.reserve();
        self.transfers.put(id, || Transfer {
            request,
            context: Some(envelope.context),
            link: index,
            state: State::Offered,
            data,
            total,
            other: RequestId::from_bits(0),
            registered: keys,
            gap,
            completion: Completion::EMPTY,
            measured: name.map_or(Measured::Not, Measured::Trial),
            work: Work::None,
        });
        let offers_packets = choice.offers_packets;
        let header = Header::Rts { envelope, sender: request, length: total, keys, offers_packets };
        links.announce(device, index, header);
        id
    }

    /// The receiver is ready for `length` bytes.
    pub(crate) fn on_cts(
        &mut self,
        links: &mut Links,
        id: TransferId,
        receiver: RequestId,
        (length, keys): (u64, Keys),
    ) -> Result<(), Blame> {
        let transfer = self.transfers.get_mut(id).ok_or(Blame("CTS for a request that offered nothing"))?;
        if length > transfer.data.len() as u64 {
            return Err(Blame("CTS for more than the message has"));
        }
        if !transfer.go(Event::Cts) {
            return Err(Blame("CTS for a request that offered nothing"));
        }
        (transfer.total, transfer.other) = (length, receiver);
        links.answered(transfer.link);
        if length == 0 {
            transfer.go(Event::Finished);
            self.end(id);
            return Ok(());
        }
        let link = links.get_mut(transfer.link);
        let unit_bytes = link.unit_bytes(length, !keys.is_empty());
        let spread = Spread::new(length, unit_bytes, keys, |units| link.parts(units));
        let spread = spread.ok_or(Blame("CTS for more units than can be counted"))?;
        link.unsent_changed(0, spread.unsent_bytes());
        transfer.work = Work::Send(spread);
        self.active.push_back(id);
        Ok(())
    }

    /// Gives the rails what they have room for. `true`: nothing more to give for now.
    pub(super) fn send<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) -> bool {
        loop {
            if self.pieces_left == 0 {
                return false;
            }
            let given = self.give(device, links, id);
            let Some(transfer) = self.transfers.get_mut(id) else { return true };
            match given {
                Given::Sent(pieces) => self.pieces_left = self.pieces_left.saturating_sub(pieces),
                Given::Full => return false,
                Given::All => {
                    transfer.go(Event::AllGiven);
                    links.wake_waiting(transfer.link);
                    return true;
                }
                Given::NoRoom => {
                    transfer.go(Event::NoRoom);
                    let Work::Send(spread) = &mut transfer.work else { return true };
                    // One that was first before is first again.
                    let was_first = core::mem::replace(&mut spread.waited, true);
                    links.get_mut(transfer.link).wait_for_room(id, was_first);
                    return true;
                }
            }
        }
    }

    /// Changes which units are still to be sent, and tells the link how much that is. `None`: the transfer
    /// sends nothing.
    pub(super) fn change_unsent<R>(
        &mut self,
        links: &mut Links,
        id: TransferId,
        change: impl FnOnce(&mut Spread) -> R,
    ) -> Option<R> {
        let Transfer { link, work: Work::Send(spread), .. } = self.transfers.get_mut(id)? else {
            return None;
        };
        let before = spread.unsent_bytes();
        let changed = change(spread);
        links.get_mut(*link).unsent_changed(before, spread.unsent_bytes());
        Some(changed)
    }

    /// Some units to one rail.
    fn give<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) -> Given {
        let now = links.now();
        if self.change_unsent(links, id, Spread::has_next) != Some(true) {
            return Given::All;
        }
        let Some(transfer) = self.transfers.get_mut(id) else { return Given::All };
        let link = links.get_mut(transfer.link);
        let Work::Send(spread) = &mut transfer.work else { return Given::All };
        link.look();
        loop {
            let rest = Rest {
                fixed: spread.fixed(),
                total_bytes: spread.total,
                unit_bytes: spread.unit_bytes,
                are_put: !spread.is_again() && !spread.keys.is_empty(),
            };
            let rail = match link.pick(&rest) {
                Pick::Rail(rail) => rail,
                Pick::NoRoom => return Given::NoRoom,
                Pick::Full => return Given::Full,
            };
            let capabilities = &device.rails()[rail.0 as usize];
            // Units that were sent before only in packets, which the receiver checks: its receive may be
            // over.
            let key = if spread.is_again() { None } else { spread.keys.get(rail) };
            let most = match key {
                Some(_) => link.put_units(rail, capabilities, &rest),
                None => link.packet_units(rail, capabilities, &rest, spread.neighbours(rail)),
            };
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            let Some(run) = spread.next(rail, most) else { return Given::All };
            let units = Units { transfer: id, receiver: transfer.other, unit_bytes: spread.unit_bytes, run };
            let (offset, length) = run.range(spread.unit_bytes, spread.total);
            if let Some(key) = key {
                return self.put(device, links, (rail, RemoteRegion { key, offset }, length), units);
            }
            let is_end = spread.unsent_bytes() <= u64::from(run.count) * u64::from(spread.unit_bytes);
            let sent =
                transfer.data.with_payload(offset as usize, length as usize, &mut self.packed, |payload| {
                    link.send_units(device, now, rail, (&units, is_end), payload)
                });
            match sent {
                Ok(pieces) => {
                    let settles_later = link.settles_later();
                    self.change_unsent(links, id, |spread| spread.sent(run));
                    if !settles_later {
                        self.on_settled(device, links, id, run);
                    }
                    return Given::Sent(pieces);
                }
                Err(Full) if !link.rail_is_full(rail) => return Given::Full,
                Err(Full) => {}
            }
        }
    }

    /// Puts units by a rail.
    fn put<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        on: (Rail, RemoteRegion, u64),
        units: Units,
    ) -> Given {
        let id = units.transfer;
        match self.submit(device, links, id, on, What::Put(units)) {
            Err(Full) => return Given::Full,
            Ok(true) => {}
            Ok(false) => {
                // The rail takes packets instead.
                if let Some(Transfer { work: Work::Send(spread), .. }) = self.transfers.get_mut(id) {
                    spread.keys.remove(on.0);
                }
            }
        }
        Given::Sent(1)
    }

    /// A put has ended.
    pub(super) fn put_ended<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        operation: &Operation,
        units: Units,
        worked: bool,
    ) {
        let index = operation.link;
        if let Some(Transfer { work: Work::Send(spread), .. }) = self.transfers.get_mut(operation.transfer) {
            spread.has_put |= worked;
        }
        if !worked {
            self.on_lost(links, operation.transfer, units.run);
        } else if links.get(index).settles_later() {
            links.tell_placed(index, operation.rail, units);
        } else {
            self.on_settled(device, links, operation.transfer, units.run);
        }
        links.wake_waiting(index);
    }

    /// The receiver has units.
    pub(crate) fn on_settled<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        id: TransferId,
        run: Run,
    ) {
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        let (index, other) = (transfer.link, transfer.other);
        let Work::Send(spread) = &mut transfer.work else { return };
        if !spread.come.add(run) {
            return;
        }
        let link = links.get_mut(index);
        link.unsent_changed(spread.unsent_bytes(), 0);
        // The receiver counts packets; the sender must tell it of puts.
        let wants_fin = spread.has_put && !link.settles_later();
        transfer.go(Event::Finished);
        if wants_fin {
            links.offer_or_queue(device, index, Header::Fin(other), Data::EMPTY);
        }
        self.end(id);
    }

    /// Units are lost.
    pub(crate) fn on_lost(&mut self, links: &mut Links, id: TransferId, run: Run) {
        let again = self.change_unsent(links, id, |spread| spread.on_lost(run));
        let Some(transfer) = self.transfers.get_mut(id).filter(|_| again == Some(true)) else { return };
        let all_were_given = transfer.state == State::Sent;
        if transfer.go(Event::Lost) && all_were_given {
            self.active.push_back(id);
        }
    }

    /// A rail of a link may have room for a transfer that waits.
    pub(crate) fn on_room(&mut self, links: &mut Links, index: LinkIndex, id: TransferId) {
        if self.transfers.get_mut(id).is_some_and(|transfer| transfer.go(Event::Room)) {
            self.active.push_back(id);
        } else {
            // It has ended meanwhile, its units having arrived after all: those behind it are not to wait for
            // it.
            links.wake_waiting(index);
        }
    }
}
