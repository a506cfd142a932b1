//! The `ayatori` command as its users run it.

mod info;
mod run;
