"""Arithmetic of costs by the prices of ``seqferry.model.prices``: no storage, no clock, no output.

``lines`` (priced lines, offers and their comparison), ``requests`` (requests that copies ask), and a module for each
question: ``gateway``, ``mirror``, ``stage``, ``store``; ``transfer`` prices one transfer.
"""
