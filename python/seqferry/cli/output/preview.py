"""Output of ``--dry-run``: the action for each object with its reason, totals, requests, time and cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from seqferry.cli import exits
from seqferry.cli.output import display, text
from seqferry.model.models import PlannedCopy, ResolvedSpec
from seqferry.spec.validation import data_path, is_empty_archive, streaming_reason

_KEYS: Final = 20
"""Keys that are named for each cause, where the objects are not listed."""

if TYPE_CHECKING:
    from seqferry.cli.session import Session
    from seqferry.preflight.forecast import Estimate, Forecast


def show_preview(session: Session, spec: ResolvedSpec, *, price: str | None = None) -> int:
    """Shows what would happen to each object, and why. Objects of equal size are compared by the transfer itself.

    Args:
        price: region of AWS whose prices hold, whatever the storage is.
    """
    from seqferry.preflight.forecast import Forecast  # it brings the engine, which --help need not wait for

    forecast = Forecast(spec)
    for planned in session.service.preview(spec, forecast.findings):
        forecast.add(planned)
        _show_object(session, spec, planned)
    kept = _removal(session, spec, forecast)
    free = session.service.free_space(spec)
    estimate = session.service.estimate(forecast, price)
    if session.as_json:
        display.emit(
            "dry_run",
            **forecast.totals(),
            **forecast.check_data(),
            way=data_path(spec),
            free_bytes=free,
            nearest=None if forecast.source_objects else session.service.nearest_keys(spec),
            estimate=estimate_facts(estimate),
        )
    elif not session.quiet:
        _show_totals(session, spec, forecast, estimate, free)
    if not session.as_json:
        show_findings(forecast, is_listed=not session.quiet)
    if kept is not None:
        display.say(text.printable(kept))
    if forecast.findings.causes or kept is not None:
        return exits.FAILED
    return exits.count_exit_code(spec, forecast.objects + forecast.skipped)


def _show_object(session: Session, spec: ResolvedSpec, planned: PlannedCopy) -> None:
    if planned.refusal is not None:
        if session.as_json:
            display.emit(
                "refused",
                source_key=planned.source_key,
                error_code=planned.code,
                operation=planned.operation,
                error_message=planned.refusal,
                left_out=planned.left_out,
            )
        elif not session.quiet:
            print(f"(dry run) {describe_refusal(spec, planned)}")
    elif session.as_json:
        display.emit(
            "planned",
            source_key=planned.source_key,
            target_key=planned.target_key,
            size=planned.size,
            action=planned.action,
            because=planned.reason,
        )
    elif not session.quiet:
        print(f"(dry run) {_describe_action(spec, planned)}")


def _removal(session: Session, spec: ResolvedSpec, forecast: Forecast) -> str | None:
    """Shows what would be removed, and counts it; returns why nothing would be, if so."""
    from seqferry.planning.removal_rules import RemovalRefusal  # it brings the engine, which --help need not wait for

    for key in session.service.preview_target_removals(spec, forecast):
        if isinstance(key, RemovalRefusal):
            return key.reason
        forecast.removed += 1
        if session.as_json:
            display.emit("planned_removal", target_key=key)
        elif not session.quiet:
            print(f"(dry run) remove {text.printable(spec.target.at(key))}")
    return None


def _show_totals(
    session: Session, spec: ResolvedSpec, forecast: Forecast, estimate: Estimate, free: int | None
) -> None:
    if (why := streaming_reason(spec)) is not None:
        display.say(f"The bytes would pass through the machine that does the work: {why}.")
    if free is not None and free < forecast.bytes:
        display.say(f"{text.printable(spec.target.container)} has only {text.size(free)} free.")
    also = f"; {text.count(forecast.compared, 'object')} of them would be compared first" if forecast.compared else ""
    also += f"; {text.count(forecast.skipped, 'object')} would be skipped" if forecast.skipped else ""
    also += f"; {text.count(forecast.refused, 'object')} would be refused" if forecast.refused else ""
    also += f", {text.count(forecast.removed, 'object')} to remove" if forecast.removed else ""
    counted = f"{text.count(forecast.objects, 'object')}, {text.size(forecast.bytes)}"
    display.say(f"Dry run: {counted}{also}. Nothing was copied or recorded.")
    if forecast.objects or forecast.removed:
        display.say(describe_estimate(estimate))
    if not forecast.source_objects and is_empty_archive(spec, 0):
        display.say(text.printable(f"No files are in {spec.source.uri}."))
    elif not forecast.source_objects:
        nearest = session.service.nearest_keys(spec)
        display.say(text.printable(f"Nothing is selected at {spec.source.uri}{describe_nearest(spec, nearest)}."))


def show_findings(forecast: Forecast, *, is_listed: bool) -> None:
    """Shows what would fail, by cause, and what of all that was tried.

    Args:
        is_listed: the objects were listed already, so that no key is named again.
    """
    from seqferry.preflight import report

    if (sampled := forecast.findings.looked_up) is not None:
        tried = forecast.objects + forecast.refused
        display.say(f"Sample: {sampled:,} of {text.count(tried, 'object')} were read to see whether they can be.")
    for line in report.format_causes(report.event_data(forecast.findings)["causes"], keys=0 if is_listed else _KEYS):
        display.say(text.printable(line))


def describe_refusal(spec: ResolvedSpec, planned: PlannedCopy) -> str:
    """One object of a dry run that would not be copied, as text."""
    source = text.printable(spec.source.at(planned.source_key))
    if planned.left_out:
        return f"leave out {source}: {text.printable(planned.refusal or '')}"
    return f"refuse {source}: {planned.code} ({planned.operation})"


def describe_nearest(spec: ResolvedSpec, nearest: list[str]) -> str:
    """Clause that ends a sentence with the nearest keys that exist; empty when there are none."""
    return f"; nearest: {', '.join(map(spec.source.at, nearest))}" if nearest else ""


def estimate_facts(estimate: Estimate) -> dict[str, Any]:
    """The estimate as values for JSON."""
    return asdict(estimate) | {"total_requests": estimate.total_requests}


def describe_estimate(estimate: Estimate) -> str:
    """The estimate in a sentence."""
    most = sorted(estimate.requests.items(), key=lambda one: (-one[1], one[0]))
    requests = ", ".join(f"{count:,} {name}" for name, count in most if count)
    takes = f"about {text.duration(max(estimate.seconds, 1.0))}, by {estimate.based_on}"
    return f"Estimate: {estimate.total_requests:,} requests ({requests}); {takes}{_cost(estimate)}."


def _cost(estimate: Estimate) -> str:
    """Clauses about money; empty where there are no prices."""
    cost = ""
    if estimate.request_dollars is not None:
        cost = f"; ${estimate.request_dollars:,.4f} for requests at list prices of {estimate.price_region}"
    if estimate.egress_dollars:
        cost += f", and up to ${estimate.egress_dollars:,.2f} for traffic if this machine is outside of the region"
    if estimate.month_dollars is not None:
        cost += f", and ${estimate.month_dollars:,.2f} for each month of storage"
    if estimate.datasync_enhanced_dollars is not None:
        basic, enhanced = estimate.datasync_basic_dollars, estimate.datasync_enhanced_dollars
        cost += f" (DataSync asks ${enhanced:,.2f} in Enhanced mode, ${basic:,.2f} in Basic mode)"
    return cost


def _describe_action(spec: ResolvedSpec, planned: PlannedCopy) -> str:
    """One object of a dry run, as text."""
    source = text.printable(spec.source.at(planned.source_key))
    target = text.printable(spec.target.at(planned.target_key))
    if planned.action == "skip":
        return f"skip {source}: {planned.reason}"
    why = "" if planned.because == "absent" else f" ({planned.reason})"
    return f"{spec.kind.verb if planned.action == 'copy' else planned.action} {source} to {target}{why}"
