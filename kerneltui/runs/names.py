"""Names for runs that nobody named."""

from __future__ import annotations

import secrets

_ADJECTIVES = (
    "brave brisk bright calm clear clever cosy eager early fair fleet fresh gentle glad golden happy jolly keen kind "
    "late light lively lucky mellow merry mild neat nimble noble patient plucky polite proud quick quiet rapid ready "
    "serene sharp shiny silver sleek smart smooth snug solid spry steady sunny swift tidy tranquil warm wise witty"
).split()
_ANIMALS = (
    "badger beaver bison bobcat crane curlew deer dolphin eagle egret falcon ferret finch fox gecko gibbon hare hawk "
    "heron ibex ibis jackdaw jay kestrel kite koala lark lemur lynx magpie marmot marten mole moose newt ocelot orca "
    "osprey otter owl panda pelican petrel pika plover puffin quail raven robin seal shrew skylark sparrow stoat stork "
    "swallow swan tapir tern thrush toad vole walrus weasel wombat wren yak zebra"
).split()


def new_name() -> str:
    """Return a name of two words that is easy to say and to type, such as `calm-otter`."""
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_ANIMALS)}"
