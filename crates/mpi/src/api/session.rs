//! Chapter "session": sessions, process sets, and communicators made of groups alone (MPI-5.0 §11.3, §7.4.2,
//! §7.6.2).
//!
//! There are three process sets: `mpi://WORLD`, `mpi://SELF`, and `ayatori://HOST`, the processes of the
//! caller's host.

use super::comm::{adopt_alone, finish_making, leader, with_room};
use crate::abi::*;
use crate::arguments::*;
use crate::comm::known_hints;
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, fault};
use crate::group::DerivedGroup;
use crate::info::Info;
use crate::runtime::start;
use crate::session::{Pset, Session, check, number, sessions};
use crate::state::process;
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use std::ffi::c_int;

/// Names of thread levels, as info objects have them.
const LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// The thread level an info object asks for.
fn level_asked_for(info: MPI_Info) -> Result<Option<c_int>, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(None);
    }
    crate::info::with(info, |info| {
        let asked = info.get(b"thread_level");
        Ok(LEVELS.iter().find(|(name, _)| asked == Some(name.as_bytes())).map(|(_, level)| *level))
    })
}

/// The members of a process set.
fn members(name: &[u8]) -> Result<Group, Fault> {
    let Some(set) = Pset::named(name) else {
        let name = String::from_utf8_lossy(name);
        return Err(fault(MPI_ERR_ARG, format_args!("argument pset_name (\"{name}\") is not a process set")));
    };
    let mut process = process()?;
    let machine = process.engine();
    match set {
        Pset::World => Ok(machine.core.comm(CommId::WORLD)?.group().clone()),
        Pset::Own => Ok(Group::single(machine.core.me())),
        Pset::Host => {
            let world = machine.core.comm(CommId::WORLD)?.group().clone();
            Ok(Group::from_members(world.iter().filter(|member| set.has(machine, *member)).collect())?)
        }
    }
}

/// The name that distinguishes concurrent calls.
fn string_tag<'a>(tag: Text) -> Result<&'a [u8], Fault> {
    let text = tag.get("stringtag")?;
    if text.len() < MPI_MAX_STRINGTAG_LEN as usize {
        return Ok(text);
    }
    let limit = MPI_MAX_STRINGTAG_LEN - 1;
    Err(fault(MPI_ERR_ARG, format_args!("argument stringtag has {} bytes, more than {limit}", text.len())))
}

/// A group of which this process is a member.
fn own_group(group: MPI_Group, name: &str) -> Result<DerivedGroup, Fault> {
    let process = process()?;
    let members = process.groups.get(group, name)?.clone();
    if members.rank_of(process.id()).is_none() {
        return Err(fault(
            MPI_ERR_GROUP,
            format_args!("this process is not in the group of argument {name}"),
        ));
    }
    Ok(members)
}

api! {
    /// MPI starts with the first session, if it has not, and goes on if it has ended with MPI_Finalize. The
    /// info key `thread_level` asks for a level; without it the level in force stays, or is
    /// MPI_THREAD_SINGLE.
    fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) on errhandler {
        session.check("session")?;
        let asked = level_asked_for(info)?;
        let errhandler = handlers().retain(errhandler, Kind::Session)?;
        let level = match start::begin_session(asked) {
            Ok(level) => level,
            Err(fault) => {
                handlers().release(errhandler)?;
                return Err(fault);
            }
        };
        let mut info = Info::default();
        let level = LEVELS.iter().find(|(_, value)| *value == level).map_or("MPI_THREAD_SINGLE", |(name, _)| name);
        info.put("thread_level", level);
        let handle = sessions().insert(Session::new(errhandler, info))?;
        session.set("session", handle)
    }

    /// Objects made of its groups stay usable as long as another session or the world exists. After the last
    /// one pending messages leave, and MPI itself ends with the program, so that another session may begin.
    fn MPI_Session_finalize(session: InOut<MPI_Session>) {
        let handle = session.get("session")?;
        super::buffered::detach_session(handle)?;
        let ended = sessions().remove(handle, "session")?;
        handlers().release(ended.errhandler)?;
        session.set("session", MPI_SESSION_NULL)?;
        start::end_session()
    }

    /// The hints in use; the caller's to free.
    fn MPI_Session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) on session {
        let info = sessions().get(session, "session")?.info.clone();
        crate::info::give_used(info, info_used)
    }

    /// MPI-5.0 §11.3.2. No hint chooses among the process sets.
    fn MPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: Out<c_int>) on session {
        check(session)?;
        crate::info::check(info)?;
        npset_names.set("npset_names", Pset::ALL.len() as c_int)
    }

    /// With a length of 0 gives the length of the name, its end included; else as much of it as fits.
    fn MPI_Session_get_nth_pset(
        session: MPI_Session,
        info: MPI_Info,
        n: c_int,
        pset_len: InOut<c_int>,
        pset_name: OutText,
    ) on session {
        check(session)?;
        crate::info::check(info)?;
        let Some(name) = usize::try_from(n).ok().and_then(|n| Pset::ALL.get(n)).map(|set| set.name()) else {
            return Err(fault(MPI_ERR_ARG, format_args!("argument n ({n}) is not below {}", Pset::ALL.len())));
        };
        let room = usize::try_from(pset_len.get("pset_len")?).unwrap_or(0);
        if room > 0 {
            pset_name.set("pset_name", &name.as_bytes()[..name.len().min(room - 1)], room)?;
        }
        pset_len.set("pset_len", name.len() as c_int + 1)
    }

    /// The number of members, as `mpi_size`. The caller's to free.
    fn MPI_Session_get_pset_info(session: MPI_Session, pset_name: Text, info: Out<MPI_Info>) on session {
        check(session)?;
        let mut told = Info::default();
        told.put("mpi_size", &members(pset_name.get("pset_name")?)?.size().to_string());
        crate::info::give(told, "info", info)
    }

    /// The group is the caller's to free.
    fn MPI_Group_from_session_pset(
        session: MPI_Session,
        pset_name: Text,
        newgroup: Out<MPI_Group>,
    ) on session {
        let session = Some(number(session)?);
        let members = members(pset_name.get("pset_name")?)?;
        let handle = process()?.groups.insert(DerivedGroup { members, session })?;
        newgroup.set("newgroup", handle)
    }

    /// Called by the members of the group. The empty group gives MPI_COMM_NULL.
    fn MPI_Comm_create_from_group(
        group: MPI_Group,
        stringtag: Text,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        newcomm: Out<MPI_Comm>,
    ) on errhandler {
        newcomm.check("newcomm")?;
        let (name, hints) = (string_tag(stringtag)?, known_hints(info)?);
        if process()?.groups.get(group, "group")?.size() == 0 {
            return newcomm.set("newcomm", MPI_COMM_NULL);
        }
        let DerivedGroup { members: group, session } = own_group(group, "group")?;
        let started = {
            let mut process = process()?;
            let engine = process.engine();
            with_room(engine, &group, |engine| {
                engine.core.collectives().icomm_of_group(&mut engine.device, &group, name)
            })?
        };
        let Some((id, posted)) = started else { return newcomm.set("newcomm", MPI_COMM_NULL) };
        finish_making(posted, MPI_COMM_SELF)?;
        newcomm.set("newcomm", adopt_alone(id, hints, errhandler, session)?)
    }

    /// Called by the members of both groups. The remote group and its leader mean something at the local
    /// leader only.
    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group,
        local_leader: c_int,
        remote_group: MPI_Group,
        remote_leader: c_int,
        stringtag: Text,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        newintercomm: Out<MPI_Comm>,
    ) on errhandler {
        newintercomm.check("newintercomm")?;
        let (name, hints) = (string_tag(stringtag)?, known_hints(info)?);
        let DerivedGroup { members: local, session } = own_group(local_group, "local_group")?;
        let leader_rank = leader(local_leader, local.size(), "local_leader")?;
        let (id, posted) = {
            let mut process = process()?;
            let remote = match local.rank_of(process.id()) == Some(leader_rank) {
                false => None,
                true => {
                    let remote = process.groups.get(remote_group, "remote_group")?.members.clone();
                    let rank = leader(remote_leader, remote.size(), "remote_leader")?;
                    Some((remote, rank))
                }
            };
            let remote = remote.as_ref().map(|(group, rank)| (group, *rank));
            let engine = process.engine();
            let local = (&local, leader_rank);
            engine.core.collectives().icomm_inter_of_groups(&mut engine.device, local, remote, name)?
        };
        finish_making(posted, MPI_COMM_SELF)?;
        newintercomm.set("newintercomm", adopt_alone(id, hints, errhandler, session)?)
    }
}
