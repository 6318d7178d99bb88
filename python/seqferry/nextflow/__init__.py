"""The interfaces for Nextflow: ``aws`` and ``s5cmd`` shims that its task wrappers call, and the helper of its plugin.

They must start fast: nothing here imports the database, the workflow engine or the command line's framework.
"""
