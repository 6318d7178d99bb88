"""The name by which the engine imports the texts of its next steps when it is loaded (``crates/py/src/lib.rs``)."""

from seqferry.model.messages.steps import ADVICE as ADVICE
from seqferry.model.messages.steps import SERVING as SERVING
