"""``seqferry bench``: measurements on the user's own storage. Needs the extra packages of ``seqferry[bench]``.

``compare`` is the command, ``transfer`` the whole run; below them, each by itself: ``workload`` (what is moved),
``methods`` (the programs, and how each is called), ``client`` (the process that boto3 and the CRT are measured in),
``measure`` (what a process costs), ``storage`` (an independent client that prepares, reads back and removes),
``verify``, ``spread`` and ``recommend`` (what the figures say), ``prices`` and ``datasync`` (what AWS would charge),
``report``, ``table``, ``plots`` and ``page`` (the output). ``gateway`` compares folders and needs no storage,
``merged`` puts reports side by side; ``output``, ``html`` and ``stopping`` are shared. Nothing else imports this
package, so no other command starts slower.
"""
