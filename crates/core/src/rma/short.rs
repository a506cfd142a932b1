//! Short operations on bytes in a row: mostly one message that is sent at once, directly from its data,
//! without handling layouts. Other operations take the general path.

use super::children::Tail;
use super::{
    self as rma, ACTIVE_TAG, ActiveMessage, Follow, Operand, ROW_BYTES_MAX, Wanted, WindowId, Windows,
};
use crate::buffer::{Buffer, Piece};
use crate::data::Data;
use crate::datatype::Predefined;
use crate::device::Device;
use crate::error::Error;
use crate::ids::Rank;
use crate::link::LinkIndex;
use crate::op::Operation;
use crate::wire::Envelope;

/// The target of a short operation: the window, the member, where in its memory.
type To = (WindowId, Rank, i64);

impl Windows<'_> {
    /// As [`put`](Self::put) of bytes that lie in a row from `displacement` on, for callers that know no more
    /// of them. The source may be changed at once if it is no longer than
    /// [`ROW_BYTES_MAX`].
    #[inline]
    pub fn put_row<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, displacement): To,
        source: Buffer,
    ) -> Result<(), Error> {
        let len = source.len();
        let operand = || Operand::row(displacement, len);
        let Some(way) = self.way_to(window, rank).filter(|_| (1..=ROW_BYTES_MAX).contains(&len)) else {
            return self.put_operand(device, (window, rank), operand(), source.into(), false).map(drop);
        };
        let flush = self.rma.get_mut(window)?.begin_operation(rank)?;
        let head = ActiveMessage::Put(Follow::of_flush(flush)).emit_row(displacement, len);
        if self.goes_at_once(device, way, &head, Some(source)) {
            return Ok(());
        }
        let tail = Tail::Data(&source.into(), 0, len);
        self.send_begun(device, (window, rank), &operand(), (ActiveMessage::Put, flush), tail)
    }

    /// As [`get`](Self::get) of bytes that lie in a row from `displacement` on.
    #[inline]
    pub fn get_row<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, displacement): To,
        sink: Buffer,
    ) -> Result<(), Error> {
        let len = sink.len();
        let operand = Operand::row(displacement, len);
        let Some(way) = self.way_to(window, rank).filter(|_| (1..=ROW_BYTES_MAX).contains(&len)) else {
            return self.get_operand(device, (window, rank), operand, sink.into(), false).map(drop);
        };
        let of = self.rma.get_mut(window)?;
        let tag = of.new_tag(rank, true)?;
        let message = ActiveMessage::Get(tag);
        if self.goes_at_once(device, way, &message.emit_row(displacement, len), None) {
            self.rma.get_mut(window)?.want(rank, Wanted::all(tag, sink));
            return Ok(());
        }
        let (head, sink) = (message.emit(Some(&operand))?, sink.into());
        self.ask(device, (window, rank, tag), (&head, Tail::Nothing), (&sink, 0, len), None)
    }

    /// As [`accumulate`](Self::accumulate) of elements that lie in a row from `displacement` on, at most
    /// [`ROW_BYTES_MAX`] bytes.
    pub fn accumulate_row<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, displacement): To,
        (source, fetched): (Buffer, Option<Buffer>),
        (operation, datatype): (Operation, Predefined),
    ) -> Result<(), Error> {
        let len = source.len();
        let is_right = operation != Operation::NoOp
            && operation.is_defined_on(datatype)
            && len <= ROW_BYTES_MAX
            && len.is_multiple_of(datatype.size_bytes())
            && fetched.is_none_or(|fetched| fetched.len() == len);
        if !is_right {
            return Err(Error::Op);
        }
        let operand = Operand::row(displacement, len);
        if self.peer_of(window, rank)? == self.messages.me {
            let target = self.rma.get(window)?.find_operand(&operand)?;
            let (source, fetched) = (Data::from(source), fetched.map(Data::from));
            return rma::accumulate_here(&target, Some(&source), fetched.as_ref(), (operation, datatype));
        }
        if let Some(fetched) = fetched
            && let Some(way) = self.way_to(window, rank)
        {
            let tag = self.rma.get_mut(window)?.new_tag(rank, true)?;
            let message = ActiveMessage::Accumulate(operation, datatype, Follow::Data(tag));
            if self.goes_at_once(device, way, &message.emit_row(displacement, len), Some(source)) {
                self.rma.get_mut(window)?.want(rank, Wanted::all(tag, fetched));
                return Ok(());
            }
        }
        let (source, fetched) = (Data::from(source), fetched.map(Data::from));
        let ends = (Some((&source, 0, len)), fetched.as_ref().map(|fetched| (fetched, 0, len)));
        self.send_accumulate(device, (window, rank), &operand, ends, (operation, datatype), None)
    }

    /// The link and the envelope of an active message to another member. `None`: it is this process or no
    /// member, or nothing was exchanged yet.
    #[inline(always)]
    fn way_to(&self, window: WindowId, rank: Rank) -> Option<(LinkIndex, Envelope)> {
        // Nothing overtakes operations that are gathered.
        let of = self.rma.get(window).ok().filter(|of| of.gathering_count == 0)?;
        let peer = of.group.process(rank).filter(|peer| *peer != self.messages.me)?;
        let index = self.messages.links.index_of(peer)?;
        Some((index, Envelope { context: of.context, source: of.rank, tag: ACTIVE_TAG }))
    }

    /// Sends an active message of a head and at most one run of bytes, if that can be done at once.
    #[inline(always)]
    fn goes_at_once<D: Device>(
        &mut self,
        device: &mut D,
        (index, envelope): (LinkIndex, Envelope),
        head: &[u8],
        data: Option<Buffer>,
    ) -> bool {
        let data = match &data {
            None => Piece::EMPTY,
            Some(data) => data.piece(),
        };
        let Piece::Bytes(_) = data else { return false };
        let message = (head.len() + data.len(), [Piece::Bytes(head), data]);
        self.messages.offer_payload_at_once(device, index, &envelope, message)
    }

    /// Sends an active message without operand and data, if that can be done at once.
    #[inline(always)]
    pub(super) fn control_goes_at_once<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        message: &ActiveMessage,
        data: Option<Buffer>,
    ) -> bool {
        let Some(way) = self.way_to(window, rank) else { return false };
        self.goes_at_once(device, way, &message.emit_control(), data)
    }
}
