"""Scripts as Nextflow writes them for tasks whose work folder is in S3.

``nxf_parallel``, ``nxf_cp_retry`` and what they call come unmodified from the jar on Maven Central. The two functions
for S3 belong to nf-amazon, which is on no public registry: here are ours, which make the same calls word for word, as
the contract in docs/use/nextflow.md names them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_AWS: Final = r"""
nxf_s3_upload() {
    local name=$1 s3path=$2
    if [[ "$name" == - ]]; then
        CLI s3 cp --only-show-errors UPLOAD--storage-class STANDARD - "$s3path"
    elif [[ -d "$name" ]]; then
        CLI s3 cp --only-show-errors --recursive UPLOAD--storage-class STANDARD "$name" "$s3path/$name"
    else
        CLI s3 cp --only-show-errors UPLOAD--storage-class STANDARD "$name" "$s3path/$name"
    fi
}
nxf_s3_download() {
    local source=$1 target=$2
    local file_name=$(basename $1)
    local is_dir=$(CLI s3 ls $source | grep -F "PRE ${file_name}/" -c)
    if [[ $is_dir == 1 ]]; then
        CLI s3 cp --only-show-errors --recursive "$source" "$target"
    else
        CLI s3 cp --only-show-errors "$source" "$target"
    fi
}
"""

_S5CMD: Final = r"""
nxf_s3_upload() {
    local name=$1 s3path=$2
    if [[ "$name" == - ]]; then
        local tmp=$(nxf_mktemp)
        cp /dev/stdin $tmp/$name
        CLI cp UPLOAD--storage-class STANDARD $tmp/$name "$s3path"
    elif [[ -d "$name" ]]; then
        CLI cp UPLOAD--storage-class STANDARD "$name/" "$s3path/$name/"
    else
        CLI cp UPLOAD--storage-class STANDARD "$name" "$s3path/$name"
    fi
}
nxf_s3_download() {
    local source=$1 target=$2
    local file_name=$(basename $1)
    local is_dir=$(CLI ls $source | grep -F "DIR  ${file_name}/" -c)
    if [[ $is_dir == 1 ]]; then
        CLI cp "$source/*" "$target"
    else
        CLI cp "$source" "$target"
    fi
}
"""

DIALECTS: Final = {"aws": _AWS, "s5cmd": _S5CMD}


def script(functions: str, prefix: Path, dialect: str, body: str, *, upload: str = "", region: str = "") -> str:
    """A task's wrapper: the functions with this command, and what the task does with them."""
    command = f"{prefix}/bin/{dialect}" + (f" --region {region}" if region else "")
    ours = DIALECTS[dialect].replace("CLI", command).replace("UPLOAD", upload)
    return f"set -e\nset -u\n{functions}\n{ours}\n{body}\n"


def run(
    text: str, *, cwd: Path, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run it with nothing in its environment but what Nextflow gives its tasks."""
    return subprocess.run(
        ["/bin/bash", "-c", text, "wrapper", *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
