"""Which rank ended a launch: a pure function of what is known of each.

One rank fails and the others fail after it, mostly with a lost connection or a timeout, and often their word
comes first. So evidence is weighed before time: that everything was told to end from outside comes first;
what a rank did by itself (it raised, it exited, it was killed, its host is gone, it stopped) comes before
what happened to it in a collective, and a rank that says nothing while others waited for it comes before
those that waited.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from suite.errors import ErrorReport
from suite.launchers.deadlines import GONE_S, LOST_S, STOPPED_S
from suite.launchers.rank_process import RankStatus
from suite.launchers.reporter import position_text


def fell_by_itself(status: RankStatus) -> bool:
    """Whether the rank failed or ended in a way of its own."""
    if status.failure is not None:
        return not status.failure.communication
    return status.exit_code is not None and not _finished(status) and not _watchdog(status)


def fell_with_another(status: RankStatus) -> bool:
    """Whether a collective failed under it, as it does when another rank is gone or late."""
    if status.failure is not None:
        return status.failure.communication
    return _watchdog(status)


def is_stopped(status: RankStatus, now: float) -> bool:
    """Whether its process is stopped, and has been for long enough to be no passing matter."""
    return status.is_alive and status.state == "T" and now - status.heard_at > STOPPED_S


def was_told_to_end(status: RankStatus) -> bool:
    """Whether what watches it on its host was told to end before the rank had."""
    return status.watch is not None and status.watch.told_to_end and not _finished(status)


def is_lost(status: RankStatus, now: float) -> bool:
    """Whether nothing is heard any more of what watches it on its host."""
    watch = status.watch
    if watch is None or status.exit_code is not None:
        return False
    if watch.gone_at is not None:
        return now - watch.gone_at > GONE_S
    return now - watch.heard_at > LOST_S


def root_cause(ranks: Sequence[RankStatus], now: float) -> ErrorReport:
    """The error of a launch that has to be ended at time ``now``."""
    if told := [r for r in ranks if was_told_to_end(r)]:
        return _told_to_end(told)
    if fallen := [r for r in ranks if fell_by_itself(r)]:
        return _fall(min(fallen, key=_fell_at))
    if lost := [r for r in ranks if is_lost(r, now)]:
        return _lost(lost[0], ranks, now)
    if stopped := [r for r in ranks if is_stopped(r, now)]:
        return _stalled(stopped[0], now)
    suffered = [r for r in ranks if fell_with_another(r)]
    silent = [r for r in ranks if r.is_alive]
    if not silent:
        # They may have been in different collectives: the one that got less far is the one waited for.
        behind = min(rank.position for rank in suffered)
        return _fall(min((r for r in suffered if r.position == behind), key=_fell_at))
    named = _waited_for(silent)
    return _stalled(named, now) if named is not None else _all_stalled(silent)


def rank_text(status: RankStatus) -> str:
    """The rank's name, with its host where there are several."""
    return f"Rank {status.rank}" + (f" on {status.host}" if status.host is not None else "")


def ranks_text(statuses: Sequence[RankStatus]) -> str:
    """Several ranks' names, host by host."""
    by_host: dict[str | None, list[str]] = {}
    for status in statuses:
        by_host.setdefault(status.host, []).append(str(status.rank))
    return "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" + (f" on {host}" if host else "")
        for host, ranks in by_host.items()
    )


def _finished(status: RankStatus) -> bool:
    return status.exit_code == 0 and status.finished_at is not None


def _watchdog(status: RankStatus) -> bool:
    # NCCL's watchdog ends a rank whose collective timed out or lost its peer by abort(). gloo raises
    # instead: on CPU an abort is the rank's own.
    return status.nccl and status.exit_code == -signal.SIGABRT and status.failure is None


def _fell_at(status: RankStatus) -> float:
    times = [t for t in (status.failed_at, status.exited_at) if t is not None]
    return min(times)


def _where(status: RankStatus) -> str:
    return position_text(status.phase, status.step, status.steps)


def _waited_for(silent: Sequence[RankStatus]) -> RankStatus | None:
    """Of the ranks that are alive and do not get further, the one that the others wait for, if it shows.

    One that is behind the others; or, where all are in the same step, the only one that is outside
    torch: the others wait inside a collective.
    """
    behind = [r for r in silent if r.position == min(s.position for s in silent)]
    if len(behind) > 1:
        behind = [r for r in behind if "/torch/" not in r.frame and "/torchrec/" not in r.frame]
    return behind[0] if len(behind) == 1 else None


def _fall(status: RankStatus) -> ErrorReport:
    if status.failure is not None:
        report = status.failure.report
        where = "" if status.host is None or status.host in report.message else f" (on {status.host})"
        return report.model_copy(update={"log": status.log, "message": f"{report.message}{where}"})
    code = status.exit_code
    assert code is not None
    if code >= 0:
        return ErrorReport(
            kind="rank_exited",
            rank=status.rank,
            message=f"{rank_text(status)} exited with code {code}, last heard {_where(status)}.",
            remedy="Its log has what it printed; look for a call that ends the process.",
            log=status.log,
        )
    name = _signal_name(-code)
    guess = ", possibly because the host ran out of memory" if code == -signal.SIGKILL else ""
    if status.oom_kills:
        killed = f"{status.oom_kills} killed for that"
        guess = f", possibly out of memory: its control group reached its limit ({killed})"
    return ErrorReport(
        kind="rank_killed",
        rank=status.rank,
        message=f"{rank_text(status)} was killed by {name}{guess}, last heard {_where(status)}.",
        remedy="Look at the kernel's log (dmesg) and at the limits of the container or job."
        if guess
        else "Its log may have the stack it was killed in.",
        log=status.log,
    )


def _told_to_end(told: Sequence[RankStatus]) -> ErrorReport:
    first = told[0]
    return ErrorReport(
        kind="cancelled",
        rank=first.rank,
        message=f"Told to end from outside (SIGTERM): {ranks_text(told)}; last heard {_where(first)}.",
        remedy="The job or its step was cancelled, preempted or over its time.",
        log=first.log,
    )


def _lost(first: RankStatus, ranks: Sequence[RankStatus], now: float) -> ErrorReport:
    assert first.watch is not None
    # Those that were heard a heartbeat later than the first are lost, too.
    same_host = [
        r
        for r in ranks
        if r.host == first.host and r.watch and (r.watch.gone_at or now - r.watch.heard_at > LOST_S / 2)
    ]
    first = same_host[0]
    assert first.watch is not None
    if first.watch.gone_at is not None:
        what = "the connection to what watches it was closed"
        remedy = "Look whether the host is up, and in its kernel's log for processes killed for memory."
    else:
        what = f"nothing has been heard from there for {now - first.watch.heard_at:.0f} s"
        remedy = "Look whether the host is up and its network link works."
    return ErrorReport(
        kind="host_lost",
        rank=first.rank,
        message=f"Host {first.host} was lost with {ranks_text(same_host).split(' on ')[0]}: {what}; "
        f"last heard {_where(first)}.",
        remedy=remedy,
        log=first.log,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between the first and the last have no name
        return f"signal {number}"


def _stalled(status: RankStatus, now: float) -> ErrorReport:
    silent_s = now - status.heard_at
    if status.state == "T":
        message = f"{rank_text(status)} is stopped (process state T), last heard {_where(status)}."
        remedy = "Look for what stopped it: SIGSTOP, job control or a debugger."
    elif silent_s > STOPPED_S:
        message = (
            f"{rank_text(status)} has not been heard for {silent_s:.0f} s (process state {status.state}), "
            f"last {_where(status)}."
        )
        remedy = "State D means waiting for a disk or a device. Its log has its stack."
    else:
        message = f"{rank_text(status)} made no progress {_where(status)}; it is in {status.frame}."
        remedy = "Its log has its stack. Raise --stall-timeout if it only needs longer."
    return ErrorReport(kind="rank_stalled", rank=status.rank, message=message, remedy=remedy, log=status.log)


def _all_stalled(silent: Sequence[RankStatus]) -> ErrorReport:
    ranks = ", ".join(str(r.rank) for r in silent)
    return ErrorReport(
        kind="rank_stalled",
        message=f"Ranks {ranks} all made no progress {_where(silent[0])}; which is to blame does not show.",
        remedy="Compare the stacks in their logs: ranks may be in different collectives.",
        log=silent[0].log.rpartition("/")[0],
    )
