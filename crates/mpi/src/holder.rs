//! Objects that hold attributes: how an attribute leaves one (MPI-5.0 §7.7).

use crate::abi::*;
use crate::attribute::{Attributes, Kind, Taken, delete};
use crate::fault::Fault;
use crate::state::process;
use crate::{datatype, win};

/// An object with attributes.
#[derive(Clone, Copy)]
pub(crate) enum Holder {
    Comm(MPI_Comm),
    Type(MPI_Datatype),
    Win(MPI_Win),
}

impl Holder {
    /// What keys it takes.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Comm(_) => Kind::Comm,
            Self::Type(_) => Kind::Type,
            Self::Win(_) => Kind::Win,
        }
    }

    fn bits(self) -> usize {
        match self {
            Self::Comm(comm) => comm.0,
            Self::Type(datatype) => datatype.0,
            Self::Win(win) => win.0,
        }
    }

    /// Does something with the attributes, locked: no function of the user.
    pub(crate) fn with<R>(self, work: impl FnOnce(&mut Attributes) -> R) -> Result<R, Fault> {
        Ok(match self {
            Self::Comm(comm) => work(&mut process()?.comms.get_mut(comm, "comm")?.attributes),
            Self::Type(datatype) => work(&mut datatype::table()?.get_mut(datatype, "datatype")?.attributes),
            Self::Win(win) => work(&mut win::table()?.get_mut(win, "win")?.attributes),
        })
    }

    /// Tells the user's delete function of an attribute that was taken out; where it refuses, the attribute
    /// stays.
    pub(crate) fn deleted(self, old: Taken) -> Result<(), Fault> {
        delete(self.bits(), old.keyval, old.value).inspect_err(|_| {
            // The object was there a moment ago; if the function freed it, there is nothing to put back to.
            let _ = self.with(|attributes| attributes.put_back(old));
        })
    }

    /// Deletes all attributes, the last set first, as the standard asks of `MPI_COMM_SELF` (MPI-5.0
    /// §11.4.1). A delete function finds those that were set before its own, and what it sets is deleted,
    /// too. After one that refuses the rest stays.
    pub(crate) fn delete_all(self) -> Result<(), Fault> {
        while let Some(last) = self.with(Attributes::take_last)? {
            self.deleted(last)?;
        }
        Ok(())
    }
}
