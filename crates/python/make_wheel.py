"""Writes a wheel from an installation and the extension module; `cargo xtask wheel` calls it.

A wheel is a zip file with a list of its files and their hashes (packaging.python.org, "Binary distribution
format"). What lies under NAME.data/scripts and NAME.data/data goes to bin/ and to the prefix of the
environment, so an environment looks like any other installation and everything finds the rest from its own
place. Wheels hold no symbolic links: programs become scripts that call the program, libraries' short names
scripts of the linker.

The platform tag is what the files need: the newest glibc whose symbols one of them asks for, and
`linux_...` if one needs a library that the manylinux policies do not name.
"""

import argparse
import base64
import hashlib
import io
import pathlib
import re
import stat
import subprocess
import sys
import zipfile

# PEP 600's policies allow these, among others that nothing here needs.
ALLOWED = {
    "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",
    "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}  # fmt: skip
LAUNCHER = """\
#!/bin/sh
# NAME: `ayatori run`, from this file's own place.
here=$0
while [ -L "$here" ]; do
    target=$(readlink "$here")
    case $target in /*) here=$target ;; *) here=${here%/*}/$target ;; esac
done
case $here in */*) ;; *) here=$(command -v "$here") ;; esac
exec "${here%/*}/ayatori" run "$@"
"""
SUMMARY = "An MPI library with the standard ABI, a network planner and an interconnect simulator"


def readelf(option: str, path: pathlib.Path) -> str:
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def platform_tag(files: list[pathlib.Path], machine: str) -> str:
    """What the files need of the system they run on."""
    newest, foreign = (2, 17), set()
    own = {file.name for file in files}
    for file in files:
        for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("-V", file)):
            newest = max(newest, (int(major), int(minor)))
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", file)))
        foreign |= {f"{file.name} needs {library}" for library in needed - ALLOWED - own}
    for line in sorted(foreign):
        print(f"not of manylinux: {line}", file=sys.stderr)
    return f"linux_{machine}" if foreign else f"manylinux_{newest[0]}_{newest[1]}_{machine}"


class Wheel:
    def __init__(self, version: str) -> None:
        self.bytes = io.BytesIO()
        self.zip = zipfile.ZipFile(self.bytes, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.info = f"ayatori-{version}.dist-info"
        self.data = f"ayatori-{version}.data"
        self.record: list[str] = []

    def add(self, name: str, content: bytes, *, executable: bool = False) -> None:
        # The same files make the same wheel.
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self) -> bytes:
        record = f"{self.info}/RECORD"
        lines = "\n".join([*self.record, f"{record},,", ""])
        self.zip.writestr(zipfile.ZipInfo(record, (1980, 1, 1, 0, 0, 0)), lines)
        self.zip.close()
        return self.bytes.getvalue()


def add_installation(wheel: Wheel, prefix: pathlib.Path) -> None:
    for path in sorted(path for path in prefix.rglob("*") if not path.is_dir()):
        relative = path.relative_to(prefix)
        folder = relative.parts[0]
        place = f"scripts/{relative.name}" if folder == "bin" else f"data/{relative}"
        place = f"{wheel.data}/{place}"
        if path.is_symlink() and folder == "bin" and is_elf(path):
            wheel.add(place, LAUNCHER.replace("NAME", path.name).encode(), executable=True)
        elif path.is_symlink() and folder == "lib":
            wheel.add(place, f"/* GNU ld script */\nINPUT({path.readlink()})\n".encode())
        else:
            wheel.add(place, path.read_bytes(), executable=bool(path.stat().st_mode & stat.S_IXUSR))


def metadata(version: str, readme: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: ayatori",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "License: MIT OR Apache-2.0",
        "Requires-Python: >=3.10",
        "Provides-Extra: arrays",
        'Requires-Dist: numpy; extra == "arrays"',
        'Requires-Dist: pandas; extra == "arrays"',
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--machine", required=True, help="what it is for, as in `uname -m`")
    parser.add_argument("--prefix", type=pathlib.Path, required=True, help="an installation")
    parser.add_argument("--extension", type=pathlib.Path, required=True, help="the extension module")
    parser.add_argument("--package", type=pathlib.Path, required=True, help="the Python sources")
    parser.add_argument("--licence", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--readme", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder for the wheel")
    args = parser.parse_args()
    files = [path for path in args.prefix.rglob("*") if path.is_file() and not path.is_symlink()]
    files = [path for path in files if is_elf(path)]
    tag = f"cp310-abi3-{platform_tag([*files, args.extension], args.machine)}"
    wheel = Wheel(args.version)
    for path in sorted(args.package.iterdir()):
        if path.is_file():
            wheel.add(f"ayatori/{path.name}", path.read_bytes())
    wheel.add("ayatori/_native.abi3.so", args.extension.read_bytes(), executable=True)
    add_installation(wheel, args.prefix)
    wheel.add(f"{wheel.info}/METADATA", metadata(args.version, args.readme.read_text()).encode())
    about = f"Wheel-Version: 1.0\nGenerator: ayatori\nRoot-Is-Purelib: false\nTag: {tag}\n"
    wheel.add(f"{wheel.info}/WHEEL", about.encode())
    for path in args.licence:
        wheel.add(f"{wheel.info}/licenses/{path.name}", path.read_bytes())
    args.out.mkdir(parents=True, exist_ok=True)
    for old in args.out.glob(f"ayatori-*_{args.machine}.whl"):
        old.unlink()
    target = args.out / f"ayatori-{args.version}-{tag}.whl"
    target.write_bytes(wheel.close())
    print(target)


if __name__ == "__main__":
    main()
