"""The experiment of the AWS Storage Blog on gateways with different disks, on any folders, by ``dd`` and ``fio``.

``experiments`` (what is run), ``disks`` (whether folders can be compared), ``tools`` (one run of a program),
``comparison`` (all runs, in turns), ``report``, ``advice``, ``charts``, ``page``.
"""
