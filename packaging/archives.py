"""Archives whose bytes depend on their content only: sorted, owned by root, with one time for all."""

import gzip
import io
import os
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# How hard to compress: 1 to try packages, 9 for those that are downloaded.
EFFORT = int(os.environ.get("TURNWIRE_EFFORT", "9"))


def source_time() -> int:
    """The time of everything in a release: SOURCE_DATE_EPOCH, or that of the last commit."""
    if named := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(named)
    return int(subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True))


@dataclass(frozen=True)
class Entry:
    """A file of an archive."""

    name: str
    data: bytes
    mode: int = 0o644

    @staticmethod
    def of(name: str, path: Path, mode: int = 0o644) -> "Entry":
        return Entry(name, path.read_bytes(), mode)


def tar_gz(path: Path, entries: list[Entry]) -> Path:
    when = source_time()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in sorted(entries, key=lambda entry: entry.name):
            info = tarfile.TarInfo(entry.name)
            info.size, info.mode, info.mtime = len(entry.data), entry.mode, when
            info.uname = info.gname = "root"
            archive.addfile(info, io.BytesIO(entry.data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(packed.getvalue(), compresslevel=EFFORT, mtime=0))
    return path


def zip_file(path: Path, entries: list[Entry]) -> Path:
    """In the given order, because the last file of a wheel lists the others."""
    import time

    when = time.gmtime(max(source_time(), 315532800))[:6]
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=EFFORT) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, when)
            info.create_system = 3
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.data)
    return path
