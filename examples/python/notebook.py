"""Mirror a delivery from a notebook: run the cells from top to bottom (VS Code and Jupytext know ``# %%``).

SEQFERRY_URL and SEQFERRY_TOKEN name the server and the token.
"""

# %%
import sys

from seqferry import Client

source, target = sys.argv[1:3] if len(sys.argv) > 2 else ("s3://vendor/run42/", "s3://ours/run42/")
client = Client()

# %% Start it, once however often this cell runs
transfer_id = client.submit(source, target, idempotency_key=f"notebook {source} {target}")

# %% Wait, and show how far it is
transfer = client.wait(transfer_id, progress=lambda now: print(now["state"], now["totals"]), check=False)

# %% What became of each object
for one in client.objects(transfer_id):
    print(one["state"], one["size"], one["source_key"], one["verified"])

# %% Why some failed, if they did
for one in client.objects(transfer_id, state="failed"):
    print(one["source_key"], one["error_code"], one["error_message"])
