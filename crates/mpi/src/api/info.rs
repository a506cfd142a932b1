//! Chapter "info" (MPI-5.0 §10). All of it works before MPI_Init and after MPI_Finalize, from any thread.

use crate::abi::*;
use crate::arguments::*;
use crate::fault::fault;
use crate::info::{Info, change, check_key, check_not_environment, give, infos, with};
use std::ffi::{CStr, c_char, c_int};

api! {
    /// An empty info object.
    fn MPI_Info_create(info: Out<MPI_Info>) {
        give(Info::default(), "info", info)
    }

    /// The content of MPI_INFO_ENV in a process started with these arguments.
    fn MPI_Info_create_env(argc: c_int, argv: InOut<*mut c_char>, info: Out<MPI_Info>) {
        let mut made = Info::environment();
        let mut words = Vec::new();
        for i in 0..usize::try_from(argc).unwrap_or(0) {
            let word = argv.get_at("argv", i)?;
            if word.is_null() {
                break;
            }
            // SAFETY: an element of argv, not null: a string, as the caller of a function with argc and argv
            // promises.
            words.push(unsafe { CStr::from_ptr(word) }.to_string_lossy().into_owned());
        }
        if let Some((command, rest)) = words.split_first() {
            made.put("command", command);
            made.put("argv", &rest.join(" "));
        }
        give(made, "info", info)
    }

    /// A key that is not there is MPI_ERR_INFO_NOKEY.
    fn MPI_Info_delete(info: MPI_Info, key: Text) {
        let key = key.get("key")?;
        change(info, |info| info.delete(key))
    }

    /// A copy with the same order of keys.
    fn MPI_Info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) {
        let copy = with(info, |info| Ok(info.clone()))?;
        give(copy, "newinfo", newinfo)
    }

    /// MPI-5.0 §10
    fn MPI_Info_free(info: InOut<MPI_Info>) {
        let handle = info.get("info")?;
        check_not_environment(handle)?;
        infos().remove(handle, "info")?;
        info.set("info", MPI_INFO_NULL)
    }

    /// Deprecated since MPI-4.0. `valuelen` does not count the end of the string.
    fn MPI_Info_get(info: MPI_Info, key: Text, valuelen: c_int, value: OutText, flag: Out<c_int>) {
        let key = check_key(key.get("key")?)?;
        let length = usize::try_from(valuelen)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument valuelen is negative ({valuelen})")))?;
        let found = with(info, |info| Ok(info.get(key).map(<[u8]>::to_vec)))?;
        if let Some(text) = &found {
            value.set("value", text, length + 1)?;
        }
        flag.set("flag", c_int::from(found.is_some()))
    }

    /// `buflen` comes with the room there is and goes with the room needed, the end of the string counted.
    fn MPI_Info_get_string(info: MPI_Info, key: Text, buflen: InOut<c_int>, value: OutText, flag: Out<c_int>) {
        let key = check_key(key.get("key")?)?;
        let room = buflen.get("buflen")?;
        let room = usize::try_from(room)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument buflen is negative ({room})")))?;
        let found = with(info, |info| Ok(info.get(key).map(<[u8]>::to_vec)))?;
        if let Some(text) = &found {
            value.set("value", text, room)?;
            buflen.set("buflen", text.len() as c_int + 1)?;
        }
        flag.set("flag", c_int::from(found.is_some()))
    }

    /// MPI-5.0 §10
    fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) {
        let count = with(info, |info| Ok(info.len()))?;
        nkeys.set("nkeys", count as c_int)
    }

    /// Keys are numbered from 0 in the order they were set.
    fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: OutText) {
        let text = with(info, |info| {
            let count = info.len();
            let found = usize::try_from(n).ok().and_then(|n| info.key(n)).map(<[u8]>::to_vec);
            found.ok_or_else(|| fault(MPI_ERR_ARG, format_args!("argument n is {n}, the info object has {count} keys")))
        })?;
        key.set("key", &text, MPI_MAX_INFO_KEY as usize)?;
        Ok(())
    }

    /// Deprecated since MPI-4.0. The length does not count the end of the string.
    fn MPI_Info_get_valuelen(info: MPI_Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>) {
        let key = check_key(key.get("key")?)?;
        let length = with(info, |info| Ok(info.get(key).map(<[u8]>::len)))?;
        if let Some(length) = length {
            valuelen.set("valuelen", length as c_int)?;
        }
        flag.set("flag", c_int::from(length.is_some()))
    }

    /// MPI-5.0 §10
    fn MPI_Info_set(info: MPI_Info, key: Text, value: Text) {
        let (key, value) = (key.get("key")?, value.get("value")?);
        change(info, |info| info.set(key, value))
    }
}
