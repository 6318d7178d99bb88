"""The durable flows: what their steps do, and (``durable``) how DBOS runs them."""
