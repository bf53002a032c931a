"""Lines that `blindspot judge` prints about a judge: its quality, and the cost of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blindspot.backend.text.number_words import duration, noun_form, quantity

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.judges.judge import JudgeCard
    from blindspot.backend.judges.llm.judging import LLMPlan


def quality_lines(judge_manifest: dict[str, Any]) -> list[str]:
    """Return the judge's quality as lines of text, measured on training questions that it did not learn from (out of
    fold).
    """
    drop, settings = judge_manifest["drop"], judge_manifest["settings"]
    lines = [
        f"AUC {judge_manifest['auc']:.3f}, average precision {judge_manifest['average_precision']:.3f} "
        f"({judge_manifest['positives']:,} positives, base rate {judge_manifest['base_rate']:.1%}; {judge_manifest['measured_on']})"
    ]
    if unknown := judge_manifest.get("unknown", 0):
        lines.append(
            f"left out: {quantity(unknown, 'pair')} ({unknown / judge_manifest['pairs']:.1%}) contain an answer or are "
            "disputed, and nobody settled them; they teach nothing and set no threshold for negatives"
        )
    if drop["value"] is None:
        lines.append(
            f"no threshold keeps known positives under {settings['false_negatives']:.1%}: label more questions"
        )
    else:
        lines.append(
            f"keep as negatives below {drop['value']:.3f}: up to {_worst_group(drop):.1%} of them could be false{_left_out(drop)}; "
            f"{drop['share']:.1%} of the kept are known positives [{drop['low']:.1%}, {drop['high']:.1%}], n = {drop['pairs']:,} pairs"
        )
    with_answer = judge_manifest.get("drop_with_answer") or {"value": None}
    if with_answer["value"] is None:
        lines.append("passages that contain an answer: kept as negatives only if people label them so")
    else:
        lines.append(
            f"passages that contain an answer: keep as negatives below {with_answer['value']:.3f}; "
            f"{with_answer['share']:.1%} of the kept are known positives "
            f"[{with_answer['low']:.1%}, {with_answer['high']:.1%}], n = {with_answer['pairs']:,} pairs"
        )
    for key, which in (("add", "passages"), ("add_with_answer", "passages that contain an answer")):
        add = judge_manifest[key]
        if add["value"] is None:
            lines.append(f"{which}: no threshold reaches a precision of positives of {settings['precision']:.0%}")
        else:
            lines.append(
                f"{which}: add as positives from {add['value']:.3f}; precision {add['share']:.1%} "
                f"[{add['low']:.1%}, {add['high']:.1%}], n = {add['pairs']:,} pairs"
            )
    return lines


def _worst_group(drop: dict[str, Any]) -> float:
    """Return the upper bound of the share of false negatives if every pair that the threshold leaves out is one."""
    left_out = drop.get("left_out", 0)
    return float((drop["high"] * drop["pairs"] + left_out) / (drop["pairs"] + left_out))


def _left_out(drop: dict[str, Any]) -> str:
    left_out = drop.get("left_out", 0)
    if not left_out:
        return ""
    return f", with {quantity(left_out, 'pair')} that contain an answer and are not labelled (the policy does not keep them)"


def asked_lines(result: dict[str, Any], limit: int | None, max_cost: float | None) -> list[str]:
    """Say which pairs have no score of the language model and why, from the result of `judge_with_llm`."""
    lines = []
    if result["unknown"]:
        lines.append(
            f"{quantity(result['unknown'], 'pair')} got no valid grade, twice; the last such answer: "
            f"{result['unreadable']!r}. Run the same command again to ask for these pairs."
        )
    if result["failed"]:
        lines.append(f"{quantity(result['failed'], 'pair')} got no answer; the same command asks again.")
    if result["refused_options"]:
        lines.append(
            f"The endpoint refuses {' and '.join(result['refused_options'])}; it was asked without, or by the newer name."
        )
    if result["too_dear"]:
        lines.append(
            f"{quantity(result['too_dear'], 'pair')} left, because --max-cost {max_cost:g} is for all calls together: the "
            f"answers of this judge cost {result['spent']:,.4f} so far."
        )
    if limit is not None and result["scored"] >= limit:
        lines.append(
            f"{quantity(result['scored'], 'pair')} {noun_form(result['scored'], 'has', 'have')} a score of this judge; --limit "
            "is for all calls together, raise it for more."
        )
    return lines


def plan_lines(plan: LLMPlan, max_cost: float | None = None) -> list[str]:
    """Say how many questions a language model would get, what that costs, and which server receives the texts."""
    how = "from earlier answers" if plan.measured else "estimated from the length of the texts"
    lines = [
        f"{quantity(plan.pairs, 'pair')} to judge: {quantity(plan.requests, 'request')}, "
        f"{quantity(plan.stored, 'answer')} stored already.",
        f"{plan.tokens_in:,} input and {plan.tokens_out:,} output tokens{cost_words(plan.cost)}, "
        f"{duration(plan.seconds)} ({how}).",
        f"Texts go to {plan.destination}. Nothing was sent.",
    ]
    if plan.spent:
        lines.append(f"The answers of this judge cost {plan.spent:,.4f} so far.")
    if max_cost is not None and (plan.spent or 0.0) + (plan.cost or 0.0) > max_cost:
        lines.append(f"--max-cost {max_cost:g} is for all calls together and is too little for all these pairs.")
    return [*lines, plan.how_to_allow] if plan.how_to_allow else lines


def cost_words(cost: float | None) -> str:
    """Return the part of a sentence that names the cost."""
    return ", cost unknown (no price given)" if cost is None else f", cost {cost:,.4f}"


def language_model_line(open_study: Study, card: JudgeCard) -> str:
    """Describe a language model: its kind, models, host and prompt."""
    from blindspot.backend.judges.judge import kind_title
    from blindspot.backend.judges.llm.endpoint import destination
    from blindspot.backend.judges.llm.judge import LLMJudge

    judge = LLMJudge.load(open_study, card.name)
    words = [
        f"{kind_title(card.kind)}, {judge.model} at {destination(judge.about['endpoint']).host}",
        f"prompt {judge.prompt.name}",
    ]
    return ", ".join(words) + (
        "" if card.scored else f"; no scores yet, run: blindspot judge run {card.name} --run RUN"
    )
