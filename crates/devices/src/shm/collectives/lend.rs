//! A long broadcast by one copy: the root says where its data lie, and each member has the kernel copy them
//! from there. A member that cannot do that (the kernel forbids it, or refuses this memory) asks the root,
//! which waits for all anyway, and gets the data in pieces through the room.

use super::room::Room;
use super::{NodeCollectives, Stage};
use ayatori_core::buffer::Buffer;
use std::sync::atomic::Ordering;

impl NodeCollectives {
    /// The root's part, up to waiting.
    pub(super) fn lend(&mut self, buffer: Buffer) {
        let address = buffer.as_ptr().filter(|_| self.kernel_copy).map_or(0, |at| at.expose_provenance());
        self.room.lend(self.round, address as u64, buffer.len() as u64);
        self.publish(1);
        self.wake_members();
        self.arrive_and(Stage::Lent);
    }

    /// The root waits until all have the data, and serves the members that ask.
    pub(super) fn serve(&mut self, buffer: Buffer) -> bool {
        if self.room.is_released(self.round) {
            self.end_round(Stage::Idle);
            return true;
        }
        let mut has_served = false;
        for rank in self.room.askers(self.round, self.size) {
            has_served |= self.serve_one(rank, buffer);
        }
        if has_served {
            self.wake_members();
        }
        false
    }

    fn serve_one(&self, rank: u32, buffer: Buffer) -> bool {
        let mail = self.room.mail(self.round, rank);
        let have = mail.have.load(Ordering::Relaxed);
        let from = piece_at(&self.room, rank, have);
        if mail.want.load(Ordering::Acquire) != have + 1 || from >= buffer.len() {
            return false;
        }
        let (at, bytes_max) = self.room.piece_place(rank);
        self.room.write(self.round, at, &buffer, from, bytes_max.min(buffer.len() - from));
        mail.have.store(have + 1, Ordering::Release);
        true
    }

    /// A member's part: takes what is lent, or asks for it.
    pub(super) fn borrow(&mut self, root: u32, buffer: Buffer) {
        let pid = self.members[root as usize].pid.load(Ordering::Relaxed);
        if self.kernel_copy {
            match self.room.take_lent(self.round, pid, &buffer) {
                Ok(()) => return self.arrive_and(Stage::Idle),
                // EFAULT concerns this memory; other errors concern the kernel's permission.
                Err(error) => self.kernel_copy = error.raw_os_error() == Some(libc::EFAULT),
            }
        }
        self.room.ask(self.round, self.rank);
        self.wake_members();
        self.stage = Stage::Asked;
    }

    /// An asker looks for its next piece.
    pub(super) fn take_piece(&mut self, buffer: Buffer) -> bool {
        let mail = self.room.mail(self.round, self.rank);
        let want = mail.want.load(Ordering::Relaxed);
        if mail.have.load(Ordering::Acquire) != want {
            return false;
        }
        let (at, bytes_max) = self.room.piece_place(self.rank);
        let from = piece_at(&self.room, self.rank, want - 1);
        let len = bytes_max.min(buffer.len() - from);
        self.room.read(self.round, at, &buffer, from, len);
        if from + len == buffer.len() {
            self.arrive_and(Stage::Idle);
        } else {
            mail.want.store(want + 1, Ordering::Release);
            self.wake_members();
        }
        true
    }
}

/// Where a piece begins in the data.
fn piece_at(room: &Room, rank: u32, index: u64) -> usize {
    index as usize * room.piece_place(rank).1
}
