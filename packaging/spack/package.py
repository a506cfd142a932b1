# Spack package of Ayatori. Put this folder into a repository of your own:
#
#   spack repo create my-repo; mkdir -p my-repo/packages/ayatori; cp package.py my-repo/packages/ayatori/
#   spack repo add my-repo; spack install ayatori
#
# There is no release yet: `spack dev-build ayatori@main` builds the source tree that it is called in.
# NOT RUN: see docs/packages.md.
#
# SPDX-License-Identifier: MIT OR Apache-2.0

import os

from spack.package import *


class Ayatori(Package):
    """MPI library with the standard ABI of MPI 5.0, fabric planner and interconnect simulator for clusters of
    commodity parts."""

    license("MIT OR Apache-2.0", checked_by="ayatori")

    version("main")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("binutils", type="build")

    conflicts("platform=darwin", msg="it needs Linux")
    conflicts("platform=windows", msg="it needs Linux")

    # The wrapper has the compiler that the modules are for: not Spack's wrapper of it.
    filter_compiler_wrappers("mpifort", relative_root="bin")

    # Crates come from the registry; `cargo vendor` beside the source makes a build without network.
    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("xtask", "install", "--prefix", prefix)

    def setup_build_environment(self, env):
        env.set("CARGO_TARGET_DIR", join_path(self.stage.path, "target"))

    def setup_run_environment(self, env):
        env.set("MPICC", join_path(self.prefix.bin, "mpicc"))
        env.set("MPICXX", join_path(self.prefix.bin, "mpicxx"))
        for name in ("MPIFC", "MPIF90", "MPIF77"):
            env.set(name, join_path(self.prefix.bin, "mpifort"))

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
        # What the wrappers call: the dependent's compilers, which Spack wraps.
        for ours, name in (("AYATORI_CC", "CC"), ("AYATORI_CXX", "CXX"), ("AYATORI_FC", "FC")):
            if name in os.environ:
                env.set(ours, os.environ[name])

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpifc = join_path(self.prefix.bin, "mpifort")
        self.spec.mpif77 = join_path(self.prefix.bin, "mpifort")

    @property
    def headers(self):
        return find_headers("mpi", self.prefix.include, recursive=False)

    @property
    def libs(self):
        names = ["libmpi_abi"]
        if "fortran" in self.spec.last_query.extra_parameters:
            names.insert(0, "libmpi_abi_fortran")
        return find_libraries(names, self.prefix.lib, shared=True, recursive=False)
