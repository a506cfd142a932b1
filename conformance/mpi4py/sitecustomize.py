"""Notes what became of each test in a file of its rank, for `cargo xtask conformance mpi4py`: a line
`OUTCOME<tab>test<tab>words`. Python imports a module of this name at its start."""

import os
import unittest

_path = os.environ.get("AYATORI_MPI4PY_LOG")


def _note(outcome, test, words=""):
    words = " ".join(str(words).split())[:300]
    name = test.id() if hasattr(test, "id") else str(test)
    with open("%s.%s" % (_path, os.environ.get("PMI_RANK", "0")), "a", encoding="utf-8") as log:
        log.write("%s\t%s\t%s\n" % (outcome, name, words))


def _wrap(method, outcome, words):
    original = getattr(unittest.TestResult, method)

    def noting(self, test, *args, **kwargs):
        _note(outcome, test, words(*args))
        return original(self, test, *args, **kwargs)

    setattr(unittest.TestResult, method, noting)


def _error(error=None, *_):
    return "%s: %s" % (error[0].__name__, error[1]) if error else ""


# Not in processes that a test has started: those run no tests.
if _path and os.environ.get("PMI_SPAWNED", "0") == "0":
    _wrap("addSuccess", "ok", lambda *_: "")
    _wrap("addSkip", "skipped", lambda reason="", *_: reason)
    _wrap("addFailure", "failed", _error)
    _wrap("addError", "failed", _error)
    _wrap("addExpectedFailure", "ok", lambda *_: "")
    _wrap("addUnexpectedSuccess", "failed", lambda *_: "an unexpected success")
