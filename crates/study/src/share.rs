//! Processes that run one sweep together, on one host or on several that share a file system.
//!
//! They exchange no messages. A folder beside the results has a file for each point, and a process runs a
//! point while it holds the lock of its file (flock(2), which network file systems pass to the server). The
//! result is written into that file before the lock is released. The kernel releases the locks of a process
//! that dies, so a lost process costs the points that it was running, and another one takes them over.
//!
//! When all points are done one process renames the folder, which the others take as the sign that results
//! are complete.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The points of a sweep, shared.
#[derive(Debug)]
pub(crate) struct Share {
    folder: PathBuf,
}

/// What became of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// Its columns.
    Result(String),
    /// Why there are none.
    Failure(String),
}

/// What a process finds of a point.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Nobody runs it: this process does now.
    Mine(Claimed),
    /// Another process or thread runs it.
    Taken,
    /// It has been run.
    Done(Done),
    /// All points are done, and the results are written.
    Over,
}

/// A point that this process runs; dropped without a result, it is free again.
#[derive(Debug)]
pub(crate) struct Claimed {
    file: File,
}

/// So often something is tried with a folder that is found not to be empty, with this pause between.
const REMOVALS_MAX: u32 = 500;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

const RESULT: &str = "result ";
const FAILURE: &str = "failure ";

impl Share {
    fn folder(out: &Path, origin: &str) -> PathBuf {
        PathBuf::from(format!("{}.share-{origin}", out.display()))
    }

    /// Joins those that run the sweep `origin` with results in `out`; the first begins it.
    pub(crate) fn join(out: &Path, origin: &str) -> io::Result<Share> {
        let folder = Share::folder(out, origin);
        std::fs::create_dir_all(&folder)?;
        Ok(Share { folder })
    }

    /// Whether processes share the sweep now, or did and were all lost.
    pub(crate) fn is_begun(out: &Path, origin: &str) -> bool {
        Share::folder(out, origin).is_dir()
    }

    /// Discards what lost processes have left.
    pub(crate) fn discard(out: &Path, origin: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(Share::folder(out, origin)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes a point, if it is free.
    pub(crate) fn claim(&self, index: usize) -> io::Result<Claim> {
        let path = self.folder.join(index.to_string());
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = match file {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Claim::Over),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(Claim::Taken),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // Without its end a line was cut off when its process was lost.
        if let Some(line) = text.strip_suffix('\n') {
            if let Some(result) = line.strip_prefix(RESULT) {
                return Ok(Claim::Done(Done::Result(result.into())));
            }
            if let Some(why) = line.strip_prefix(FAILURE) {
                return Ok(Claim::Done(Done::Failure(why.into())));
            }
        }
        file.set_len(0)?;
        file.rewind()?;
        Ok(Claim::Mine(Claimed { file }))
    }

    /// All points are done and `write` writes the results. Whether this process was the one that did: it is
    /// called by one at a time, and only while no other has written them.
    pub(crate) fn finish(&self, write: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<bool> {
        let end = self.folder.join("end");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&end);
        let lock = match lock {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            lock => lock?,
        };
        lock.lock()?;
        // Of another file: the folder was renamed, and one who came later has made it again.
        let is_same =
            |there: &Metadata, mine: &Metadata| (there.dev(), there.ino()) == (mine.dev(), mine.ino());
        let mine = lock.metadata()?;
        if !std::fs::metadata(&end).is_ok_and(|there| is_same(&there, &mine)) {
            return Ok(false);
        }
        write()?;
        // First renamed, so that nobody finds a part of it.
        let aside = PathBuf::from(format!("{}.done", self.folder.display()));
        // One of an end just before may still be removed.
        until_empty(|| std::fs::rename(&self.folder, &aside))?;
        // Who had found it just before makes a file in it, once; and where the file system is a network's, a
        // file that somebody has open stays for as long. Two may remove the same.
        until_empty(|| match std::fs::remove_dir_all(&aside) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        })?;
        Ok(true)
    }
}

/// Does something to a folder that others are leaving, again while it is not empty.
fn until_empty(mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..REMOVALS_MAX {
        match work() {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => std::thread::sleep(REMOVAL_PAUSE),
            done => return done,
        }
    }
    work()
}

impl Claimed {
    /// The point is done.
    pub(crate) fn finish(mut self, done: &Done) -> io::Result<()> {
        let (word, text) = match done {
            Done::Result(text) => (RESULT, text),
            Done::Failure(text) => (FAILURE, text),
        };
        // One line: the first without its end counts as cut off.
        self.file.write_all(format!("{word}{}\n", text.replace('\n', " ")).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(share: &Share, index: usize) -> Claimed {
        match share.claim(index).unwrap() {
            Claim::Mine(claimed) => claimed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_point_is_run_by_one_and_again_when_that_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.csv");
        let [one, other] = [(); 2].map(|()| Share::join(&out, "a").unwrap());
        let running = claimed(&one, 0);
        assert!(matches!(other.claim(0).unwrap(), Claim::Taken));
        // As the kernel does for a process that dies.
        drop(running);
        let mut half = claimed(&other, 0);
        half.file.write_all(b"result 1").unwrap();
        drop(half);
        let done = Done::Result("1,2".into());
        claimed(&one, 0).finish(&done).unwrap();
        assert!(matches!(other.claim(0).unwrap(), Claim::Done(found) if found == done));
        claimed(&other, 1).finish(&Done::Failure("no\nway".into())).unwrap();
        assert!(
            matches!(one.claim(1).unwrap(), Claim::Done(found) if found == Done::Failure("no way".into()))
        );
    }

    /// One that had found the folder just before it was renamed made its file in it while it was removed.
    #[test]
    fn processes_that_end_together_do_not_hinder_the_removal() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.csv");
        for _ in 0..1_000 {
            let shares = [(); 4].map(|()| Share::join(&out, "a").unwrap());
            let wrote_count = std::thread::scope(|scope| {
                let ends = shares.each_ref().map(|share| scope.spawn(|| share.finish(|| Ok(())).unwrap()));
                ends.into_iter().map(|end| end.join().unwrap()).filter(|wrote| *wrote).count()
            });
            assert_eq!(wrote_count, 1);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn results_are_written_once_and_the_others_see_that() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.csv");
        let [one, other] = [(); 2].map(|()| Share::join(&out, "a").unwrap());
        let mut written = 0;
        for share in [&one, &other] {
            let wrote = share.finish(|| {
                written += 1;
                Ok(())
            });
            assert_eq!(wrote.unwrap(), std::ptr::eq(share, &one));
        }
        assert_eq!(written, 1);
        assert!(matches!(other.claim(0).unwrap(), Claim::Over));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
