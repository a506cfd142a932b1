//! The object of a group's handle: its members, and its session.

use ayatori_core::group::Group;
use std::ops::Deref;

/// A number of a session, for the core: whose buffer a message takes.
pub(crate) type SessionNumber = u32;

/// A group behind a handle.
#[derive(Clone)]
pub(crate) struct DerivedGroup {
    /// The members.
    pub(crate) members: Group,
    /// The session from whose process set, or communicators, it was made (MPI-5.0 §11.3).
    pub(crate) session: Option<SessionNumber>,
}

impl Deref for DerivedGroup {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.members
    }
}

impl From<Group> for DerivedGroup {
    fn from(members: Group) -> Self {
        Self { members, session: None }
    }
}
