"""The loopback Hub: a server on 127.0.0.1 that speaks the Hugging Face Hub's API, with faults as switches."""

from tests.hub.repositories import Repository, installed_torch, machine_variant
from tests.hub.server import Fault, LoopbackHub

__all__ = ["Fault", "LoopbackHub", "Repository", "installed_torch", "machine_variant"]
