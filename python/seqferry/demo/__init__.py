"""``seqferry demo``: copy, kill, resume and verify on an embedded S3 server. Needs the extra ``seqferry[demo]``."""
