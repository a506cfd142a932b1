//! The standard ABI at work: binaries made by MPICH's `mpicc_abi` run on MPICH's `libmpi_abi.so.1` and then,
//! unchanged, on ours. Only the library path differs (`LD_LIBRARY_PATH` goes before the path the wrapper
//! wrote). Ours is also run under MPICH's `mpiexec`, which speaks PMI-1.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{CommonOptions, Tally, Verdict, directory, our_prefix, programs, translated};
use crate::peers::Library;
use crate::{paths, process};

const RANKS: [usize; 2] = [2, 3];

/// Where MPICH 5.0.2 differs from what a program checks. Its library's run is then left out; on ours the same
/// binary has to pass. Clauses: conformance/README.md.
const DIFFERENT: &[(&str, &str)] = &[
    ("attr_delete", "hides the attributes of a type while they are deleted"),
    ("attr_freed_key", "takes a freed key for an attribute"),
    ("buffer_owners", "fails at a buffer of a communicator that is no more than a few bytes"),
    ("buffer_sessions", "fails at the buffer of a session"),
    ("check_left", "has no check mode"),
    ("coll_inter", "takes MPI_IN_PLACE on inter-communicators, and crashes at 3 ranks"),
    ("coll_persistent_order", "frees a persistent operation that is under way"),
    ("comm_inter", "MPI_Comm_remote_size of an intra-communicator is no error"),
    ("comm_split_pset", "a process set guides no split"),
    ("datatype_errors", "makes a datatype of a handle that is none"),
    ("dynamic_finalize", "does not promise how a world ends that others are connected to"),
    ("dynamic_finalize_threads", "does not promise how a world ends that others are connected to"),
    ("err_before_4", "MPI_Type_free of a null handle is no error"),
    ("err_classes", "a call returns another class after the user's handler returned"),
    ("err_freed_comm", "hands the error of a freed communicator's request to another handler"),
    ("err_handler_code", "returns another code than the error handler leaves"),
    ("err_in_handler", "ends at an error within an error handler"),
    ("file_access", "loses ints of a strided write"),
    ("file_atomic", "an argument that differs between ranks is no error"),
    ("file_collective", "counts what lies past the end of the file as read"),
    ("file_random", "counts what lies past the end of the file as read, and crashes"),
    ("file_representation", "a long of external32 has 8 bytes"),
    ("file_threads", "loses ints that threads write"),
    ("neighbor_all", "crashes"),
    ("p2p_sendrecv", "does not fill the status of MPI_Isendrecv"),
    ("pack_external", "external32 of pairs has another size"),
    ("partitioned_count", "takes a count that no memory has"),
    ("request_general", "leaves requests beside a generalized one that fails"),
    ("rma_alignment", "does not align the memory of MPI_Win_allocate"),
    ("rma_fence", "crashes after an operation outside of the window"),
    ("rma_short", "another class for a lock of an unknown type"),
    ("rma_words", "ends at an accumulate of a type that has no such operation"),
    ("rma_windows", "an unlock without a lock is no error"),
    ("session_alone", "makes a group of an unknown process set"),
    ("session_world", "takes a string tag that is too long"),
    ("tool_interface", "cuts a name to other lengths"),
    ("topo_graphs", "\"Unknown error\" in MPI_Dist_graph_neighbors"),
    ("topo_grids", "another class for a negative number of dimensions"),
];

/// Programs at which MPICH 5.0.2 hangs.
const HANGING: &[(&str, &str)] = &[
    ("comm_create_group", "hangs at 3 ranks"),
    ("file_errors", "hangs at the second open that must fail"),
    ("file_shared", "hangs after a wrong shared pointer"),
    ("p2p_pending", "waits for what the standard lets a library not wait for"),
    ("progress_blocked", "does not promise that a rank that waits leaves the CPU"),
    ("progress_blocked_threads", "does not promise that a rank that waits leaves the CPU"),
    ("progress_delivery", "does not promise progress outside of MPI calls"),
    ("rma_passive", "does not promise progress of a target outside of MPI calls"),
    ("rma_polled", "does not promise progress of a process that reads its own window"),
    ("rma_random", "hangs or ends at a lock that it counts wrongly"),
    ("session_after", "waits for all processes at a session after the world"),
    ("session_after_some", "waits for all processes at a session after the world"),
];

/// Where a program can run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    OnMpich,
    OnOurs,
    OursUnderHydra,
}

impl Place {
    const ALL: [Self; 3] = [Self::OnMpich, Self::OnOurs, Self::OursUnderHydra];

    fn name(self) -> &'static str {
        match self {
            Self::OnMpich => "MPICH's library",
            Self::OnOurs => "ours",
            Self::OursUnderHydra => "ours under MPICH's mpiexec",
        }
    }

    /// Hydra refuses a spawn in a job whose ranks it has bound ("duplicate setting: binding", 5.0.2), so it
    /// does not bind the ranks of programs that spawn.
    fn launch(self, name: &str, ranks: usize, program: &Path) -> Command {
        let pinned = ranks <= paths::cpu_count() && !name.starts_with("dynamic_");
        match self {
            Self::OnOurs => Library::Ayatori.launch(ranks, program, &[]),
            Self::OnMpich | Self::OursUnderHydra => Library::Mpich.launch_as(ranks, pinned, program, &[]),
        }
    }

    /// Why a program does not run here: MPICH or its mpiexec would hang or end it, whatever our library does.
    fn obstacle(self, name: &str) -> Option<&'static str> {
        match (self, name) {
            (Self::OnMpich | Self::OursUnderHydra, "dynamic_spawn") => {
                Some("Hydra does not answer a spawn of a program that does not exist")
            }
            (Self::OnMpich | Self::OursUnderHydra, "dynamic_parted") => {
                Some("Hydra ends the whole job when a started world aborts")
            }
            (Self::OnMpich, "dynamic_ports") => {
                Some("MPICH has other error classes for ports, and Hydra ends the job at an unknown name")
            }
            (Self::OnMpich, name) => reason(HANGING, name),
            _ => None,
        }
    }
}

pub(super) fn run(options: &CommonOptions) -> Result<()> {
    Library::Mpich.prepare()?;
    let ours = our_prefix()?;
    let mut tally = Tally::default();
    for source in programs::sources()? {
        let name = programs::name(&source);
        if name.starts_with("fatal") || !options.wants(&name) {
            continue;
        }
        let program = directory(Library::Ayatori).join("abi").join(&name);
        if let Some(why) = build(&source, &program)? {
            tally.leave_out(&name, 0, &why);
            continue;
        }
        let expected = programs::expected(&std::fs::read_to_string(&source)?)?;
        for ranks in options.ranks_or(&RANKS) {
            for place in Place::ALL {
                let what = format!("{name} on {}", place.name());
                if let Some(why) = place.obstacle(&name) {
                    tally.leave_out(&what, ranks, why);
                    continue;
                }
                let mut command = place.launch(&name, ranks, &program);
                if place != Place::OnMpich {
                    command.env("LD_LIBRARY_PATH", ours.join("lib"));
                }
                let outcome = process::capture(&mut command, options.limit())?;
                let verdict = match (programs::judge(&expected, &outcome), place) {
                    (Verdict::Failed(why), Place::OnMpich) => match different(&name) {
                        Some(known) => Verdict::LeftOut(format!("MPICH: {known}")),
                        None => Verdict::Failed(why),
                    },
                    (verdict, _) => verdict,
                };
                tally.add(&what, ranks, verdict, &outcome);
            }
        }
    }
    tally.close("conformance mpich-abi")
}

/// Compiles a program. Returns why it is left out: MPICH's header lacks what it uses.
fn build(source: &Path, program: &Path) -> Result<Option<String>> {
    let prefix = Library::Mpich.prefix();
    let wrapper = Command::new(prefix.join("bin/mpicc_abi"));
    translated::compile(wrapper, source, &prefix.join("lib/libmpi_abi.so"), program)
}

fn reason(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

/// What MPICH does otherwise than this program wants.
fn different(name: &str) -> Option<&'static str> {
    // What waits cost and how messages go on is promised by us, not by the standard.
    let ours = name.starts_with("progress_").then_some("does not promise what waits cost");
    reason(DIFFERENT, name).or(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_that_is_listed_exists_and_runs_on_ours() {
        let names: Vec<String> =
            programs::sources().unwrap().iter().map(|path| programs::name(path)).collect();
        for (name, _) in DIFFERENT.iter().chain(HANGING) {
            assert!(names.iter().any(|known| known == name), "{name}");
            assert_eq!(Place::OnOurs.obstacle(name), None, "{name}");
        }
    }
}
