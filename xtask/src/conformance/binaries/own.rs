//! The MPIs that programs were built for, unpacked in a folder: how a job is started there.

use std::path::{Path, PathBuf};

/// Where Debian has its libraries.
pub(super) const TRIPLET: &str = "x86_64-linux-gnu";

/// An MPI that programs in package archives are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(super) enum Mpi {
    /// Debian's MPICH.
    #[serde(rename = "mpich")]
    Mpich,
    /// Debian's Open MPI.
    #[serde(rename = "openmpi")]
    Open,
    /// Intel's, of the Python package index, which brings programs built for it.
    #[serde(rename = "impi")]
    Intel,
}

impl Mpi {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mpich => "MPICH",
            Self::Open => "Open MPI",
            Self::Intel => "Intel MPI",
        }
    }

    /// The translator that its programs need.
    pub(super) fn abi(self) -> &'static str {
        if self == Self::Open { "openmpi" } else { "mpich" }
    }

    /// Debian's packages that have it; they are kept apart from what our run sees.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Mpich => &["libmpich12", "mpich"],
            Self::Open => &["libopenmpi3", "openmpi-bin", "openmpi-common"],
            Self::Intel => &[],
        }
    }

    pub(super) fn launcher(self) -> &'static str {
        match self {
            Self::Mpich => "mpiexec.mpich",
            Self::Open => "mpiexec.openmpi",
            Self::Intel => "mpiexec",
        }
    }

    /// Its programs, in the folder where it is unpacked.
    pub(super) fn bin(self) -> &'static str {
        if self == Self::Intel { "bin" } else { "usr/bin" }
    }

    pub(super) fn libraries(self, own: &Path) -> Vec<PathBuf> {
        match self {
            Self::Intel => vec![own.join("lib")],
            _ => vec![own.join("usr/lib").join(TRIPLET)],
        }
    }

    /// What makes it work away from `/usr`, on a machine with fewer CPUs than ranks.
    pub(super) fn environment(self, own: &Path, root: &Path) -> Vec<(&'static str, String)> {
        let path = |base: &Path, below: &str| base.join(below).display().to_string();
        let set = |name: &'static str, value: &str| (name, value.to_owned());
        match self {
            Self::Mpich => Vec::new(),
            Self::Intel => vec![set("I_MPI_FABRICS", "shm"), set("I_MPI_PIN", "0")],
            Self::Open => {
                let lib = format!("usr/lib/{TRIPLET}/openmpi");
                let mut all = vec![
                    ("OPAL_PREFIX", path(own, &lib)),
                    ("OPAL_LIBDIR", path(own, &format!("{lib}/lib"))),
                    ("OPAL_BINDIR", path(own, "usr/bin")),
                    ("OPAL_DATADIR", path(own, "usr/share")),
                    ("OPAL_PKGDATADIR", path(own, "usr/share/openmpi")),
                    ("OPAL_SYSCONFDIR", path(own, "etc/openmpi")),
                    ("OMPI_MCA_mca_base_component_path", path(own, &format!("{lib}/lib/openmpi3"))),
                    set("OMPI_MCA_pml", "ob1"),
                    set("OMPI_MCA_btl", "self,vader"),
                    set("OMPI_MCA_hwloc_base_binding_policy", "none"),
                    set("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                    set("OMPI_MCA_mpi_yield_when_idle", "1"),
                    // No ssh is there, and none is needed.
                    set("OMPI_MCA_plm_rsh_agent", ""),
                    set("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ];
                // PMIx may be this system's or may have been got with the rest.
                let pmix = root.join(format!("usr/lib/{TRIPLET}/pmix2"));
                if pmix.is_dir() {
                    all.push(("PMIX_INSTALL_PREFIX", pmix.display().to_string()));
                    let parts = pmix.join("lib/pmix").display().to_string();
                    all.push(("PMIX_MCA_mca_base_component_path", parts));
                }
                all
            }
        }
    }
}
