"""The application of `nonneg serve` in replicas of Ray Serve: `serve run nonneg_server.ray:app`.

A replica is one process with the models of the settings, each of which is verified and tested before it takes
requests. Ray Serve's proxy takes connections in the place of our own server. What that bounds (bytes that arrive,
slow clients, refusals before a body has come) is the proxy's work there. Routes, answers, errors, keys, queue and
metrics are the same.

Settings are those of the environment, NONNEG_..., where the application is started; they travel to every replica.
"""

import asyncio
import os
from importlib import import_module
from typing import Any

from fastapi import FastAPI

from nonneg_core.errors import NonnegError
from nonneg_core.terminal.installing import needing
from nonneg_server.engine.canary import Canaries
from nonneg_server.models.served_models import check_alive, check_canaries
from nonneg_server.observation.logs import configure
from nonneg_server.startup.app import create_app
from nonneg_server.startup.serve_command import repository_of
from nonneg_server.startup.server_settings import Settings, variable
from nonneg_server.startup.setting_sources import read_settings

REPLICAS = 16  # at most
ONGOING = 4  # requests in work for each thread of a replica, beyond which another replica comes


def application() -> FastAPI:
    """Return the application with its models loaded, in the process of a replica."""
    settings = settings_of_a_replica()
    configure(settings.log_format, settings.log_level)
    repository = repository_of(settings)
    repository.load_all()
    return create_app(repository.registry, settings, repository=repository)


def settings_of_a_replica() -> Settings:
    """Return the settings, with one thread where none are asked for: replicas share the cores of their machine.

    Where requests come from is the proxy's to say: what is served on loopback alone is not served by a replica.
    """
    threads = {} if variable("threads") in os.environ else {"threads": 1}
    return read_settings(host="0.0.0.0", **threads)


class Replica:
    """What Ray keeps of the application's process, and asks for its health every ten seconds."""

    app: FastAPI  # which serve.ingress keeps

    def __init__(self) -> None:
        self.canaries = Canaries()

    async def check_health(self) -> None:
        """Send a canary if it is time; fail where /livez fails or a canary was answered wrong."""
        registry = self.app.state.registry
        try:
            check_alive(self.app.state)
            check_canaries(registry)
        except NonnegError as error:
            raise RuntimeError(str(error)) from None
        self.canaries.look(asyncio.get_running_loop().time(), registry.all())


def deployed() -> Any:
    """Return the deployment, ready to be run."""
    with needing("Ray Serve", package="ray[serve]"):
        serve: Any = import_module("ray.serve")
    settings = settings_of_a_replica()
    threads = settings.threads or 1
    known = {variable(name) for name in Settings.model_fields}

    made = serve.deployment(
        name="nonneg",
        max_ongoing_requests=settings.queue,
        autoscaling_config={"min_replicas": 1, "max_replicas": REPLICAS, "target_ongoing_requests": ONGOING * threads},
        graceful_shutdown_timeout_s=settings.grace,
        ray_actor_options={
            "num_cpus": threads,
            "runtime_env": {
                "env_vars": {name: value for name, value in os.environ.items() if name in known},
            },
        },
    )(serve.ingress(application)(Replica))
    return made.bind()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return deployed()
