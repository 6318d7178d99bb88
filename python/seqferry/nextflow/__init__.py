"""The doors for Nextflow: the ``aws`` and ``s5cmd`` that its task wrappers call, and the helper of its plugin.

They must start at once: nothing here imports the database, the workflow engine or the command line's framework.
"""
