//! The `ayatori` command as its users run it.

mod run;
