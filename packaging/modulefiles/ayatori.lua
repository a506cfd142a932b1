-- Ayatori, for Lmod: module use PREFIX/share/modulefiles; module load ayatori

-- The prefix is found from this file's own place: PREFIX/share/modulefiles/ayatori/VERSION.lua.
local prefix = myFileName():match("^(.*)/share/modulefiles/ayatori/[^/]*$")

whatis("Name: ayatori")
whatis("Version: @VERSION@")
whatis("Description: MPI library with the standard ABI, fabric planner, interconnect simulator")
help("mpicc, mpicxx, mpifort, mpiexec and ayatori @VERSION@; try: ayatori info")

-- One MPI at a time.
family("mpi")

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
setenv("MPI_HOME", prefix)
