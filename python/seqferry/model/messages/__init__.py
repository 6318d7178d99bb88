"""The catalogue of messages: events, next steps after failures, and causes for recipients of a delivery.

A message is a stable code with typed parameters: the kind and the data of an event; the class, code and message of a
failure; the number of files that are missing. Its text depends on the reader alone, and stands in one place, here.

- A reader of the command line can run a command again, and gives options as ``--name``.
- A reader of the page, a receipt or a mail can retry, or start a new transfer in a form that has labels.
- A process that serves (a gateway, a mount) goes on after a failure, so that its log names no command to run again.

A text names an act by a placeholder (``{again}``) and an option as ``--name``; ``steps.Reader`` has what each reader
sees for them. The HTTP API sends code, parameters and the text for the page, which shows it as it is.
"""
