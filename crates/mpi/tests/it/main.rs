//! Integration tests of `libmpi_abi`: what a C program, a linker and another MPI see of it.

mod abi;
mod mpich;
mod programs;
mod support;
