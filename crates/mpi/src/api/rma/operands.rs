//! The two ends of an operation, as calls name them.

use crate::abi::*;
use crate::datatype::{self, Type};
use crate::fault::Fault;
use crate::message;
use crate::win::{self, Target};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Elements at the origin.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pub(super) memory: *const c_void,
    pub(super) count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
}

impl Elements {
    pub(super) fn data(self, name: &str) -> Result<message::Data, Fault> {
        message::data(self.memory, self.count, self.datatype, name)
    }
}

/// Elements at the target.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) rank: c_int,
    pub(super) disp: MPI_Aint,
    pub(super) count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
    pub(super) win: MPI_Win,
}

impl At {
    /// Checks all of it; `None` for `MPI_PROC_NULL`.
    pub(super) fn target(self) -> Result<Option<(Target, Arc<Type>)>, Fault> {
        // The window before the rest, so that a bad handle is reported first.
        win::table()?.get(self.win, "win")?;
        let ty = datatype::get_committed(self.datatype, "target_datatype")?;
        let count = datatype::count(self.count, "target_count")?;
        let target =
            win::table()?.get_mut(self.win, "win")?.target(self.rank, self.disp, (&ty.layout, count))?;
        Ok(target.map(|target| (target, ty)))
    }
}
