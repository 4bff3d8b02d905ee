"""Our own application in Ray Serve, as docs/kubernetes.md says: one replica a core, behind Serve's HTTP proxy."""

import json
import os
import sys
import tempfile
from pathlib import Path

from model import CORES, PORT

if __name__ == "__main__":
    configuration = {
        "http_options": {"host": "127.0.0.1", "port": PORT},
        "applications": [
            {
                "name": "nonneg",
                "route_prefix": "/",
                "import_path": "nonneg_server.ray:app",
                "deployments": [{"name": "nonneg", "num_replicas": CORES, "autoscaling_config": None}],
            }
        ],
    }
    place = Path(tempfile.mkdtemp(), "serve.yaml")
    place.write_text(json.dumps(configuration))  # which is YAML too
    os.execv(sys.executable, [sys.executable, "-c", "from ray.serve.scripts import cli; cli()", "run", str(place)])
