"""Seqferry moves sequencing data between S3 buckets: fast, durable, observable, provable."""
