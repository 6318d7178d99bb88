"""Examples of each command: for ``--help`` and the manual pages. A test parses each of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cp": (
        ("seqferry cp s3://vendor/run42/ s3://ours/run42/", "mirror a prefix"),
        ("seqferry cp 's3://vendor/run42/*.fastq.gz' /data/", "download what matches"),
        ("seqferry cp /data/run42 s3://ours/ --exclude '*' --include '*.bam'", "upload some files"),
        ("seqferry cp --files-from list.csv s3://vendor/ s3://ours/", "copy what a list names"),
        ("seqferry cp s3://v/run/ s3://ours/ --rename 's/_R([12])_001/.\\1/'", "change names"),
        ("seqferry cp s3://vendor/run42/ s3://ours/run42/ --dry-run", "what would happen, and its cost"),
    ),
    "sync": (
        ("seqferry sync s3://vendor/run42/ s3://ours/run42/", "copy what is missing or differs"),
        ("seqferry sync /data/run42 s3://ours/run42/ --delete --max-delete 100", "remove what is gone"),
    ),
    "mv": (("seqferry mv s3://inbox/run42/ s3://archive/run42/", "copy, verify, then remove"),),
    "rm": (
        ("seqferry rm s3://ours/tmp/ --recursive --dry-run", "what would be removed"),
        ("seqferry rm s3://ours/run42/a.bam", "remove an object"),
    ),
    "check": (("seqferry check s3://vendor/run42/ s3://ours/run42/", "compare and change nothing"),),
    "verify": (("seqferry verify 20261123-8f3a", "is what the receipt says still at the target?"),),
    "prune": (("seqferry prune --older-than 365d --dry-run", "which transfers would keep only their receipts"),),
    "run": (("seqferry run commands.txt", "do the commands of a file as one transfer"),),
    "pack": (("seqferry pack s3://ours/run42/ s3://archive/run42.tar", "one tar of a prefix"),),
    "unpack": (("seqferry unpack s3://archive/run42.tar s3://ours/run42/", "unpack a tar"),),
    "tar": (),
    "tar ls": (("seqferry tar ls s3://archive/run42.tar", "the members"),),
    "tar verify": (("seqferry tar verify s3://archive/run42.tar", "compare with the index"),),
    "tar index": (("seqferry tar index s3://archive/run42.tar", "write the index beside it"),),
    "status": (
        ("seqferry status", "the recent transfers"),
        ("seqferry status 3f2a --failed", "what failed, and why"),
    ),
    "watch": (("seqferry watch 3f2a", "follow a transfer"),),
    "share": (
        ("seqferry share 3f2a --expires 30d", "a link that shows how the delivery is doing"),
        ("seqferry share --label project=X", "one for all deliveries of a project"),
        ("seqferry share --list", "who made which links"),
    ),
    "resume": (("seqferry resume 3f2a", "go on after Ctrl-C or a crash"),),
    "cancel": (("seqferry cancel 3f2a", "stop it"),),
    "doctor": (
        ("seqferry doctor", "this machine and its database"),
        ("seqferry doctor s3://vendor/run42/ s3://ours/run42/", "and both places"),
        ("seqferry doctor s3://ours/run42/ --refresh", "ask again what the storage can do"),
    ),
    "preflight": (("seqferry preflight s3://vendor/run42/ s3://ours/run42/", "what would fail, by cause"),),
    "iam-policy": (
        ("seqferry iam-policy s3://vendor/run42/ s3://ours/run42/", "the least rights for a copy"),
        (
            "seqferry iam-policy s3://inbox/ s3://archive/ --operation move --side source",
            "those of the source's identity",
        ),
    ),
    "workers": (("seqferry workers", "which processes work, and where"),),
    "notify": (),
    "notify test": (("seqferry notify test", "send a test to each channel"),),
    "notify list": (("seqferry notify list", "channels and what is undelivered"),),
    "pause": (("seqferry pause 3f2a", "stop for a while"),),
    "retry": (("seqferry retry 3f2a", "copy again what failed"),),
    "label": (('seqferry label 3f2a --name "Run 43" --label project=X', "name it for people and filters"),),
    "set": (("seqferry set 3f2a --max-bandwidth 50MB", "change limits under way"),),
    "schedule": (),
    "schedule add": (
        ("seqferry schedule add '0 2 * * *' sync s3://vendor/run42/ s3://ours/run42/", "each night"),
        ("seqferry schedule add '*/15 6-18 * * mon-fri' cp s3://v/in/ s3://ours/ --timezone Europe/Berlin", "by day"),
    ),
    "schedule list": (("seqferry schedule list", "what runs when, and how the last run went"),),
    "schedule show": (("seqferry schedule show nightly", "its latest runs, and who changed it"),),
    "schedule edit": (("seqferry schedule edit nightly --cron '30 3 * * *'", "another time"),),
    "schedule pause": (("seqferry schedule pause nightly", "not until it is resumed"),),
    "schedule resume": (("seqferry schedule resume nightly", "from the next time on"),),
    "schedule run": (("seqferry schedule run nightly", "its transfer, at once"),),
    "schedule rm": (("seqferry schedule rm nightly", "its transfers stay"),),
    "report": (("seqferry report 3f2a", "what arrived, and how it was verified"),),
    "audit": (("seqferry audit", "check the records"),),
    "ls": (
        ("seqferry ls s3://vendor/run42/", "one level"),
        ("seqferry ls s3://vendor/run42/ --recursive --json", "all below, for scripts"),
    ),
    "du": (("seqferry du s3://vendor/run42/", "count and size by storage class"),),
    "cat": (
        ("seqferry cat s3://ours/run42/SampleSheet.csv", "print an object"),
        ("seqferry cat s3://ours/run42/L1.gz s3://ours/run42/L2.gz > all.gz", "several, in their order"),
        ("seqferry cat --range 0-1023 s3://ours/run42/a.bam", "print its first bytes"),
    ),
    "head": (("seqferry head s3://ours/run42/a.bam", "size, metadata, checksum"),),
    "presign": (("seqferry presign s3://ours/run42/a.bam", "a link for a while"),),
    "mb": (("seqferry mb s3://new-bucket", "make a bucket"),),
    "rb": (("seqferry rb s3://old-bucket", "remove an empty bucket"),),
    "cleanup": (("seqferry cleanup s3://ours/ --dry-run", "uploads that were left open"),),
    "mount": (("seqferry mount s3://reference/hg38/ /mnt/hg38", "a read-only folder"),),
    "umount": (("seqferry umount /mnt/hg38", "unmount it"),),
    "mounts": (("seqferry mounts", "what is mounted"),),
    "cache": (),
    "cache warm": (("seqferry cache warm --cache /scratch/cache s3://reference/hg38/", "read ahead"),),
    "cache ls": (("seqferry cache ls --cache /scratch/cache", "what is kept"),),
    "cache verify": (("seqferry cache verify --cache /scratch/cache", "check the blocks"),),
    "cache rm": (("seqferry cache rm --cache /scratch/cache s3://reference/hg38/", "make room"),),
    "gateway": (),
    "gateway serve": (("seqferry gateway serve --cache /var/cache/seqferry", "the shares of the configuration file"),),
    "gateway status": (("seqferry gateway status --cache /var/cache/seqferry", "what is not in the bucket yet?"),),
    "gateway ls": (("seqferry gateway ls --cache /var/cache/seqferry /runs/run42", "is my run safe?"),),
    "gateway flush": (("seqferry gateway flush --cache /var/cache/seqferry --wait /runs/run42", "until it is safe"),),
    "gateway refresh": (
        ("seqferry gateway refresh --cache /var/cache/seqferry /runs", "show what others have written"),
    ),
    "gateway conflicts": (("seqferry gateway conflicts --cache /var/cache/seqferry", "files that lost"),),
    "gateway drain": (("seqferry gateway drain --cache /var/cache/seqferry", "before the machine goes"),),
    "serve": (("seqferry serve --port 8080", "HTTP API and a worker"),),
    "worker": (("seqferry worker", "do what is recorded"),),
    "config": (),
    "config show": (("seqferry config show", "each setting, and where it comes from"),),
    "config check": (("seqferry config check", "before the server is started again"),),
    "token": (),
    "token create": (("seqferry token create dashboard", "a token of its own"),),
    "token list": (("seqferry token list", "all of them"),),
    "token revoke": (("seqferry token revoke dashboard", "end one"),),
    "aws": (("seqferry aws s3 cp s3://ours/a.bam a.bam", "as Nextflow calls it"),),
    "s5cmd": (("seqferry s5cmd cp s3://ours/a.bam a.bam", "as Nextflow calls it"),),
    "nextflow": (),
    "cost": (),
    "cost gateway": (
        ("seqferry cost gateway --disks io1:4000 --against gp2", "are provisioned disks worth their money?"),
        ("seqferry cost gateway --hours 732 --against gp2 --against gp3:4000,gp3", "several, side by side"),
    ),
    "cost mirror": (("seqferry cost mirror --size 11.88TiB --objects 448", "beside DataSync and S3Mirror"),),
    "cost stage": (("seqferry cost stage --size 1GB --objects 10000 --tasks 100 --fraction 5", "files, tar, mount"),),
    "cost store": (("seqferry cost store --size 12TiB --objects 448 --months 24 --against GLACIER_IR", "two classes"),),
    "cost prices": (("seqferry cost prices > prices.toml", "your own file for --prices"),),
    "bench": (),
    "bench gateway": (
        ("seqferry bench gateway io1=/mnt/alpha gp2=/mnt/beta", "two shares, as the post does"),
        ("seqferry bench gateway /mnt/share /data --size 64MiB", "smaller, in minutes"),
    ),
    "bench merge": (("seqferry bench merge monday.json tuesday.json", "reports side by side"),),
    "demo": (("seqferry demo", "the whole story on this machine"),),
    "man": (
        ("seqferry man cp | man -l -", "the manual page of a command"),
        ("seqferry man --dir ~/.local/share/man/man1", "write all pages"),
    ),
    "completion": (
        ('eval "$(seqferry completion bash)"', "in ~/.bashrc"),
        ("seqferry completion zsh > ~/.zfunc/_seqferry", "for zsh"),
        ("seqferry completion fish > ~/.config/fish/completions/seqferry.fish", "for fish"),
    ),
}
"""Command lines by command, each with what it is for."""


def of(command: str) -> tuple[tuple[str, str], ...]:
    """The examples of a command: of ``tar ls``, say, without the program's name."""
    return EXAMPLES.get(command, ())


def lines(command: str, width: int) -> list[str]:
    """The examples as lines of at most ``width`` columns; the purpose stands beside a line, or above it."""
    found = of(command)
    widest = max((len(line) for line, _ in found), default=0)
    beside = all(len(line) <= widest and widest + 3 + len(what) <= width for line, what in found)
    if beside:
        return [f"{line:<{widest}}  {what}".rstrip() for line, what in found]
    return [text for line, what in found for text in (f"# {what}", line)]
