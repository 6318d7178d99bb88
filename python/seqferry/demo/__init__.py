"""``seqferry demo``: the whole story on an embedded S3 server. Needs the extra packages of ``seqferry[demo]``."""
