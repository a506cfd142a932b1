//! Work that several threads take in turn.

use std::sync::Mutex;

/// What `body` gives for each of `all`, on so many threads, in the order in which they end.
pub(crate) fn on_threads<T: Sync, R: Send>(count: usize, all: &[T], body: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (to_do, done) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                loop {
                    let next = to_do.lock().expect("nobody panics with it").next();
                    let Some(next) = next else { break };
                    let one = body(next);
                    done.lock().expect("nobody panics with it").push(one);
                }
            });
        }
    });
    done.into_inner().expect("nobody panics with it")
}

#[cfg(test)]
mod tests {
    use super::on_threads;

    #[test]
    fn each_is_taken_once_however_many_threads_there_are() {
        let all: Vec<usize> = (0..50).collect();
        for count in [1, 3, 80] {
            let mut done = on_threads(count, &all, |one| one * 2);
            done.sort_unstable();
            assert!(done.iter().copied().eq((0..50).map(|one| one * 2)));
        }
    }
}
