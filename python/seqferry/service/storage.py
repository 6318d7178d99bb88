"""Storage: checks, previews and single requests for a user, without a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from seqferry.db import objects
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import PlannedCopy, ResolvedSpec, TransferSpec
from seqferry.places import paths
from seqferry.service import lazy
from seqferry.spec import identity

if TYPE_CHECKING:
    # Imported by the verb that needs them: a command takes longer to import than to do its work.
    from seqferry.engine.engine import LevelPage, ObjectInfo
    from seqferry.planning import cleanup, listing, removals
    from seqferry.planning.decision import KeyRules
    from seqferry.planning.removal_rules import RemovalRefusal
    from seqferry.preflight import report
    from seqferry.preflight.forecast import Estimate, Forecast

from seqferry.service.queries import Queries

_EARLIER: Final = 200
"""Transfers whose rates an estimate reads."""


class Storage(Queries):
    """Verbs that query the storage, or change it without a transfer."""

    def remove_bucket(self, place: S3Location) -> None:
        """Remove an empty bucket.

        Raises:
            StorageError: the bucket is not empty, or cannot be removed.
        """

        lazy.buckets.delete_bucket(self.engine, place)

    def abort_uploads(self, place: Location) -> None:
        """Abort all open uploads whose key starts with the place's.

        Raises:
            StorageError: an upload could not be aborted.
        """

        found = lazy.buckets.list_uploads(self.engine, place)
        for why in lazy.buckets.abort_uploads(self.engine, place, [(one.key, one.upload_id) for one in found]):
            if why is not None:
                raise why

    def check(self, spec: TransferSpec) -> listing.KnownObjects:
        """Check that both buckets can be used, and that a single source object exists.

        Raises:
            UsageError: the spec is not valid, or the object is not there.
            StorageError: a bucket cannot be used, or the storage not be reached.
        """

        return lazy.start.check(self.engine, identity.resolve(spec))

    def preview(
        self, spec: TransferSpec, findings: report.PreflightReport | None = None, *, for_client: bool = False
    ) -> Iterator[PlannedCopy]:
        """Planned copies of a transfer, object by object, in no order and bounded memory; nothing stays at the target.

        Args:
            findings: gets why the target refuses to be written; without it, no object is tried.
            for_client: as a transfer requested over HTTP.

        Raises:
            UsageError, StorageError: as ``check``, when the first object is requested.
        """

        return lazy.dry_run.plan_copies(
            self.engine, identity.resolve(spec), self._key_rules(for_client=for_client), findings
        )

    def _key_rules(self, *, for_client: bool = False) -> KeyRules:
        confined = for_client and self.settings.policy.confines_writes
        return lazy.decision.KeyRules(str(self.settings.state_dir), confined=confined, nul=self.database.is_sqlite)

    def estimate(self, forecast: Forecast, price: str | None = None) -> Estimate:
        """Estimate of a transfer's requests, time and cost, with the rates of earlier ones where there are any.

        Args:
            price: region of AWS whose prices hold, whatever the storage is.

        Raises:
            UsageError: there are no prices of that region.
        """
        return forecast.estimate(self.transfers(_EARLIER), self.settings.max_bandwidth.now(), price)

    def nearest_keys(self, spec: ResolvedSpec) -> list[str]:
        """Keys of the source most similar to requested ones that do not exist."""

        return lazy.suggestions.nearest_keys(self.engine, spec)

    def inspect(self, spec: ResolvedSpec, *, at_most: int | None) -> report.PreflightReport:
        """Inspect objects of a transfer, up to ``at_most``, for what would make them fail; nothing is written.

        Raises:
            StorageError: the source cannot be listed.
        """

        return lazy.inspection.inspect(self.engine, spec, self._key_rules(), at_most=at_most)

    def preview_target_removals(self, spec: ResolvedSpec, forecast: Forecast) -> Iterator[str | RemovalRefusal]:
        """Keys that ``sync --delete`` would remove at the target after all has arrived, or the reason why it would not.

        ``forecast`` has all objects of ``preview``. Memory is bounded.
        """

        own = str(self.settings.state_dir)
        return lazy.dry_run.plan_removals(
            self.engine, spec, own, objects=forecast.source_objects, failed=forecast.refused
        )

    def preview_cleanup(self, spec: TransferSpec) -> Iterator[list[cleanup.StaleUpload]]:
        """Pages of the uploads that a cleanup would abort, and those that it would keep; nothing is aborted."""

        spec = identity.resolve(spec)
        lazy.start.check_buckets(self.engine, spec)

        def in_use(ids: Sequence[str]) -> set[str]:
            with self.database.read() as connection:
                return objects.uploads_in_use(connection, ids)

        return lazy.cleanup.check_count(lazy.cleanup.find_stale(self.engine, spec, in_use), spec)

    def preview_removal(self, spec: TransferSpec) -> Iterator[list[removals.RemovalCandidate]]:
        """Pages of what a removal would remove; nothing is removed or recorded."""

        spec = identity.resolve(spec)
        lazy.start.check_buckets(self.engine, spec)
        return lazy.removals.find_counted(self.engine, spec, [])

    def free_space(self, spec: TransferSpec) -> int | None:
        """Bytes that may still be written at the target; None where that is unknown, as of S3."""
        return paths.free_bytes(spec.target.path) if isinstance(spec.target, LocalFolder) else None

    def list_directory(self, location: S3Location, *, limit: int, continuation: str | None = None) -> LevelPage:
        """One page of a listing with delimiter "/": objects and common prefixes directly below a location.

        Raises:
            StorageError: the place cannot be listed.
        """
        return self.engine.level_page(location, limit=limit, continuation=continuation)

    def list_buckets(self, account: S3Location) -> Sequence[str]:
        """Names of the buckets that the identity of this process may list.

        Raises:
            StorageError: they cannot be listed.
        """

        return [name for name, _ in lazy.buckets.list_buckets(self.engine, account)]

    def list_objects(self, location: Location) -> Iterator[list[ObjectInfo]]:
        """Pages of all objects whose key starts with the location's, in no order; empty pages while waiting.

        Raises:
            StorageError: the listing failed.
        """
        return self.engine.list(location)
