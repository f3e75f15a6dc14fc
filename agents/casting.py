"""Gives each role its models: resolved by name, priced, paid from the run's purse, in the order of preference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from agents.models.catalogue import Catalogue
from agents.models.connections import Connections
from agents.models.failover import Candidate, Lineup, Rests
from agents.models.money import Paid, Purse
from agents.models.registry import LOCAL, resolve
from agents.models.spec import is_built_in, parse_spec
from agents.secrets import Scrubber
from agents.settings import ROLES, Role, RunSettings
from memory.calibration import bound_of
from memory.tokens import COUNTER, Corrected
from tools.errors import KernelError, WarpsmithError
from tools.task import TaskSource


@dataclass(frozen=True)
class Reach:
    """Where providers are reached, and what is known of models."""

    connections: Connections
    catalogue: Catalogue


ReadAgain: TypeAlias = Callable[[Sequence[str], Sequence[str]], Reach]
"""Reads all settings as they are now: for these models, and with these addresses (`PROVIDER=URL`) over all else.

Raises WarpsmithError for settings that can't be used."""


@dataclass
class Casting:
    """A run's models. All that were ever cast are closed at the end, since a call may still be in flight."""

    settings: RunSettings
    connections: Connections | None
    catalogue: Catalogue
    purse: Purse
    scrubber: Scrubber
    read_again: ReadAgain | None = None
    """None: what was set when the run began holds to its end."""
    _addresses: list[str] = field(default_factory=list)
    _all: list[Lineup] = field(default_factory=list)
    _rests: Rests = field(default_factory=Rests)

    def roles(self) -> dict[Role, Lineup]:
        """As the settings name them. Raises UnknownModel, and ModelError where a key is missing."""
        return {role: self.lineup(self.settings.models.of(role)) for role in ROLES}

    def lineup(self, specs: Sequence[str]) -> Lineup:
        """The models of these names, preferred first; a name that stands twice counts once."""
        lineup = Lineup([self._candidate(spec) for spec in dict.fromkeys(specs)], self._rests)
        for candidate in lineup.candidates:
            self._rests.end(candidate)
        self._all.append(lineup)
        return lineup

    def chosen(self, specs: Sequence[str], address: str | None = None) -> Lineup:
        """As `lineup`, of models that a person chose meanwhile, with the settings as they are now.

        address: of the server of the first one that has any. Raises WarpsmithError too, for settings that can't be
        used; then all is as before.
        """
        remote = [spec for spec in specs if parse_spec(spec).provider not in LOCAL]
        if not remote:
            return self.lineup(specs)
        if self.read_again is None and address is not None:
            raise WarpsmithError(
                "this run takes no address of a server", "Name it in warpsmith.toml before the run is resumed."
            )
        if self.read_again is None:
            return self.lineup(specs)
        before = self.connections, self.catalogue
        named = [] if address is None else [f"{parse_spec(remote[0]).provider}={address}"]
        reach = self.read_again(remote, [*self._addresses, *named])
        self.connections, self.catalogue = reach.connections, reach.catalogue
        self.scrubber.learn(reach.connections)
        try:
            lineup = self.lineup(specs)
        except WarpsmithError:
            self.connections, self.catalogue = before
            raise
        self._addresses += named
        return lineup

    def told_of(self, specs: Sequence[str]) -> dict[str, JsonValue]:
        """How the providers of these models are reached, as `config.json` says it."""
        providers = {parse_spec(spec).provider for spec in specs} - LOCAL.keys()
        connections = self.connections or Connections()
        return {name: self.scrubber.json(connections.of(name).told) for name in sorted(providers)}

    async def aclose(self) -> None:
        for lineup in self._all:
            await lineup.aclose()

    def _candidate(self, spec: str) -> Candidate:
        facts = self.catalogue.of(spec)
        model = resolve(spec, self.settings.seed, connections=self.connections)
        counter = Corrected(COUNTER, bound_of(model.name))  # a reservation may be too large, never too small
        output = (self.connections or Connections()).output(parse_spec(spec).provider, facts.output)
        paid = Paid(model, facts.price, self.purse, counter, self.scrubber)
        return Candidate(paid, output, endpoint=self._endpoint(spec))

    def _endpoint(self, spec: str) -> str:
        """Where the model is asked; empty for one that is asked nowhere."""
        provider = parse_spec(spec).provider
        if provider in LOCAL:
            return ""
        return (self.connections or Connections()).of(provider).base_url or provider


def refuse_without_start(task: TaskSource, settings: RunSettings) -> None:
    """KernelError when `builtin:autotune` has no starting kernel to tune."""
    named = [spec for role in ROLES for spec in settings.models.of(role)]
    if settings.language not in task.start and any(is_built_in(spec) for spec in named):
        raise KernelError(
            f"the task {task.name} has no starting kernel in {settings.language}, and builtin:autotune only tunes one",
            "Pass one with --start, or name a model that writes code with --model.",
        )
