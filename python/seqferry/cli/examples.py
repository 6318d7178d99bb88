"""Examples of each command: for ``--help`` and the manual pages. A test parses each of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cp": (
        ("seqferry cp s3://vendor/run42/ s3://ours/run42/", "mirror a prefix"),
        ("seqferry cp 's3://vendor/run42/*.fastq.gz' /data/", "download matching objects"),
        ("seqferry cp /data/run42 s3://ours/ --exclude '*' --include '*.bam'", "upload matching files"),
        ("seqferry cp --files-from list.csv s3://vendor/ s3://ours/", "copy the keys of a list"),
        ("seqferry cp s3://v/run/ s3://ours/ --rename 's/_R([12])_001/.\\1/'", "rename"),
        ("seqferry cp s3://vendor/run42/ s3://ours/run42/ --dry-run", "show actions and cost"),
    ),
    "sync": (
        ("seqferry sync s3://vendor/run42/ s3://ours/run42/", "copy new and changed objects"),
        ("seqferry sync /data/run42 s3://ours/run42/ --delete --max-delete 100", "delete removed objects"),
    ),
    "mv": (("seqferry mv s3://inbox/run42/ s3://archive/run42/", "copy, verify, delete"),),
    "rm": (
        ("seqferry rm s3://ours/tmp/ --recursive --dry-run", "show the objects"),
        ("seqferry rm s3://ours/run42/a.bam", "delete an object"),
    ),
    "check": (("seqferry check s3://vendor/run42/ s3://ours/run42/", "compare two prefixes"),),
    "verify": (("seqferry verify 20261123-8f3a", "compare the target with the receipt"),),
    "prune": (("seqferry prune --older-than 365d --dry-run", "show the transfers"),),
    "run": (("seqferry run commands.txt", "run the commands of a file"),),
    "pack": (("seqferry pack s3://ours/run42/ s3://archive/run42.tar", "pack a prefix"),),
    "unpack": (("seqferry unpack s3://archive/run42.tar s3://ours/run42/", "unpack a tar"),),
    "tar": (),
    "tar ls": (("seqferry tar ls s3://archive/run42.tar", "list members"),),
    "tar verify": (("seqferry tar verify s3://archive/run42.tar", "verify against the index"),),
    "tar index": (("seqferry tar index s3://archive/run42.tar", "write the index"),),
    "status": (
        ("seqferry status", "recent transfers"),
        ("seqferry status 3f2a --failed", "failed objects and causes"),
    ),
    "watch": (("seqferry watch 3f2a", "follow a transfer"),),
    "share": (
        ("seqferry share 3f2a --expires 30d", "link to one transfer"),
        ("seqferry share --label project=X", "link to all transfers with a label"),
        ("seqferry share --list", "list links"),
    ),
    "resume": (("seqferry resume 3f2a", "continue after Ctrl-C or a crash"),),
    "cancel": (("seqferry cancel 3f2a", "cancel a transfer"),),
    "doctor": (
        ("seqferry doctor", "check this machine and the database"),
        ("seqferry doctor s3://vendor/run42/ s3://ours/run42/", "also check both buckets"),
        ("seqferry doctor s3://ours/run42/ --refresh", "test the storage again"),
    ),
    "preflight": (("seqferry preflight s3://vendor/run42/ s3://ours/run42/", "failures by cause"),),
    "iam-policy": (
        ("seqferry iam-policy s3://vendor/run42/ s3://ours/run42/", "policy for a copy"),
        (
            "seqferry iam-policy s3://inbox/ s3://archive/ --operation move --side source",
            "policy for the source",
        ),
    ),
    "workers": (("seqferry workers", "list workers"),),
    "notify": (),
    "notify test": (("seqferry notify test", "test all channels"),),
    "notify list": (("seqferry notify list", "list channels"),),
    "pause": (("seqferry pause 3f2a", "pause a transfer"),),
    "retry": (("seqferry retry 3f2a", "retry failed objects"),),
    "label": (('seqferry label 3f2a --name "Run 43" --label project=X', "set name and label"),),
    "set": (("seqferry set 3f2a --max-bandwidth 50MB", "change the limit"),),
    "schedule": (),
    "schedule add": (
        ("seqferry schedule add '0 2 * * *' sync s3://vendor/run42/ s3://ours/run42/", "every night"),
        (
            "seqferry schedule add '*/15 6-18 * * mon-fri' cp s3://v/in/ s3://ours/ --timezone Europe/Berlin",
            "every 15 minutes by day",
        ),
        ("seqferry schedule add @weekly verify 20261123-8f3a", "verify it each week"),
    ),
    "schedule list": (("seqferry schedule list", "next and last runs"),),
    "schedule show": (("seqferry schedule show nightly", "runs and history"),),
    "schedule edit": (("seqferry schedule edit nightly --cron '30 3 * * *'", "change the time"),),
    "schedule pause": (("seqferry schedule pause nightly", "pause"),),
    "schedule resume": (("seqferry schedule resume nightly", "resume"),),
    "schedule run": (("seqferry schedule run nightly", "start now"),),
    "schedule rm": (("seqferry schedule rm nightly", "remove"),),
    "report": (("seqferry report 3f2a", "write the receipt"),),
    "audit": (("seqferry audit", "check the records"),),
    "ls": (
        ("seqferry ls s3://vendor/run42/", "one level"),
        ("seqferry ls s3://vendor/run42/ --recursive --json", "all objects as JSON"),
    ),
    "du": (("seqferry du s3://vendor/run42/", "count and size by storage class"),),
    "cat": (
        ("seqferry cat s3://ours/run42/SampleSheet.csv", "print an object"),
        ("seqferry cat s3://ours/run42/L1.gz s3://ours/run42/L2.gz > all.gz", "concatenate objects"),
        ("seqferry cat --range 0-1023 s3://ours/run42/a.bam", "print the first KiB"),
    ),
    "head": (("seqferry head s3://ours/run42/a.bam", "size, metadata, checksum"),),
    "presign": (("seqferry presign s3://ours/run42/a.bam", "URL valid for an hour"),),
    "mb": (("seqferry mb s3://new-bucket", "make a bucket"),),
    "rb": (("seqferry rb s3://old-bucket", "remove an empty bucket"),),
    "cleanup": (("seqferry cleanup s3://ours/ --dry-run", "show incomplete uploads"),),
    "mount": (("seqferry mount s3://reference/hg38/ /mnt/hg38", "mount read-only"),),
    "umount": (("seqferry umount /mnt/hg38", "unmount it"),),
    "mounts": (("seqferry mounts", "list mounts"),),
    "cache": (),
    "cache warm": (("seqferry cache warm --cache /scratch/cache s3://reference/hg38/", "fill the cache"),),
    "cache ls": (("seqferry cache ls --cache /scratch/cache", "list cached objects"),),
    "cache verify": (("seqferry cache verify --cache /scratch/cache", "verify cached blocks"),),
    "cache rm": (("seqferry cache rm --cache /scratch/cache s3://reference/hg38/", "remove a prefix"),),
    "gateway": (),
    "gateway serve": (("seqferry gateway serve --cache /var/cache/seqferry", "serve the configured shares"),),
    "gateway status": (
        ("seqferry gateway status --cache /var/cache/seqferry", "pending uploads"),
        ("seqferry gateway status --cache /var/cache/seqferry /runs/run42", "files of a folder that are in S3"),
    ),
    "gateway ls": (("seqferry gateway ls --cache /var/cache/seqferry /runs/run42", "upload state of a folder"),),
    "gateway flush": (
        ("seqferry gateway flush --cache /var/cache/seqferry --wait /runs/run42", "wait until it is in S3"),
    ),
    "gateway refresh": (("seqferry gateway refresh --cache /var/cache/seqferry /runs", "reload a folder"),),
    "gateway conflicts": (("seqferry gateway conflicts --cache /var/cache/seqferry", "list conflicts"),),
    "gateway drain": (("seqferry gateway drain --cache /var/cache/seqferry", "stop after all uploads"),),
    "serve": (("seqferry serve --port 8080", "HTTP API and a worker"),),
    "worker": (("seqferry worker", "run a worker"),),
    "config": (),
    "config show": (("seqferry config show", "settings and their origin"),),
    "config check": (("seqferry config check", "check before a restart"),),
    "token": (),
    "token add": (("seqferry token add dashboard", "create a token"),),
    "token list": (("seqferry token list", "list tokens"),),
    "token remove": (("seqferry token remove dashboard", "remove a token"),),
    "aws": (("seqferry aws s3 cp s3://ours/a.bam a.bam", "as in a Nextflow task"),),
    "s5cmd": (("seqferry s5cmd cp s3://ours/a.bam a.bam", "as in a Nextflow task"),),
    "nextflow": (),
    "cost": (),
    "cost gateway": (
        ("seqferry cost gateway --disks io1:4000 --against gp2", "compare io1 with gp2 volumes"),
        ("seqferry cost gateway --hours 732 --against gp2 --against gp3:4000,gp3", "compare several volumes"),
    ),
    "cost mirror": (("seqferry cost mirror --size 11.88TiB --objects 448", "compare with DataSync and S3Mirror"),),
    "cost stage": (
        ("seqferry cost stage --size 1GB --objects 10000 --tasks 100 --fraction 5", "compare files, tar and mount"),
    ),
    "cost store": (
        (
            "seqferry cost store --size 12TiB --objects 448 --months 24 --against GLACIER_IR",
            "compare two storage classes",
        ),
    ),
    "cost prices": (("seqferry cost prices > prices.toml", "write a price file"),),
    "bench": (),
    "bench gateway": (
        ("seqferry bench gateway io1=/mnt/alpha gp2=/mnt/beta", "compare two shares"),
        ("seqferry bench gateway /mnt/share /data --size 64MiB", "smaller files"),
    ),
    "bench merge": (("seqferry bench merge monday.json tuesday.json", "combine reports"),),
    "demo": (("seqferry demo", "run the demo"),),
    "completion": (
        ('eval "$(seqferry completion bash)"', "in ~/.bashrc"),
        ("seqferry completion zsh > ~/.zfunc/_seqferry", "for zsh"),
        ("seqferry completion fish > ~/.config/fish/completions/seqferry.fish", "for fish"),
    ),
}
"""Command lines by command, each with what it is for."""


def find_examples(command: str) -> tuple[tuple[str, str], ...]:
    """The examples of a command: of ``tar ls``, say, without the program's name."""
    return EXAMPLES.get(command, ())


def format_examples(command: str, width: int) -> list[str]:
    """The examples as lines of at most ``width`` columns; the purpose stands beside a line, or above it."""
    found = find_examples(command)
    widest = max((len(line) for line, _ in found), default=0)
    beside = all(len(line) <= widest and widest + 3 + len(what) <= width for line, what in found)
    if beside:
        return [f"{line:<{widest}}  {what}".rstrip() for line, what in found]
    return [text for line, what in found for text in (f"# {what}", line)]
