"""Planted faults: plausible slips in the product, each with the tests that must see it.

    python -m tests.planted_faults [--root FOLDER] [--sources FOLDER] [NUMBER ...]

Each fault is a sentence about what somebody would suffer, and a patch. The sources are copied to a temporary folder, a fault
is put in, its tests run and must fail, and the fault is taken out. The same tests run once without any fault, and must pass.
A patch that no longer applies counts as unseen: move the patch to where the code went, and keep the sentence.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 600  # limit of the tests of one fault


class Edit(NamedTuple):
    """A literal replacement in one file. The old text must occur exactly once."""

    file: str
    old: str
    new: str


class Fault(NamedTuple):
    """What somebody would suffer, the tests that see it, and the edits that cause it."""

    sentence: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]


def fault(sentence: str, tests: str, *edits: tuple[str, str, str]) -> Fault:
    """Return a fault. tests: separated by spaces, without the folder and the ending: `labels::test_x`."""
    ids = (each.partition("::") for each in tests.split())
    return Fault(
        sentence,
        tuple(f"tests/test_{file}.py{mark}{name}" for file, mark, name in ids),
        tuple(Edit(*each) for each in edits),
    )


FAULTS = (
    # Labels, people, rights
    fault(
        "A label that a browser sends twice is stored twice.",
        "labels::test_the_same_gesture_sent_again_is_stored_once",
        (
            "db/event_writer.py",
            '    if _is_stored(connection, annotator, event):\n        return Receipt(event.id, "known")\n    annotating',
            '    _is_stored(connection, annotator, event)\n    event = replace(event, id=f"{event.id}-{now}")\n    annotating',
        ),
    ),
    fault(
        "A question that needs one person is given to two.",
        "queue::test_everybody_gets_other_questions_in_the_order_of_the_batch queue::test_a_question_goes_to_as_many_people_as_it_needs",
        (
            "db/queue.py",
            "    AND (:practice OR {OTHERS} < i.people_needed)\n    AND (:practice OR :again",
            "    AND (:practice OR {OTHERS} <= i.people_needed)\n    AND (:practice OR :again",
        ),
    ),
    fault(
        "An acknowledged label is lost because somebody else undoes it.",
        "labels::test_an_undo_is_ones_own_done_once_and_cannot_be_undone",
        (
            "db/event_writer.py",
            "    if undone[0].annotator != annotator:\n",
            "    if undone[0].annotator != annotator and False:\n",
        ),
    ),
    fault(
        "On a full disk a label is refused for good, and the browser forgets it, instead of sending it again.",
        "store_faults::test_nothing_is_saved_is_raised_for_the_whole_outbox",
        (
            "db/labels.py",
            "        except DatabaseUnavailable:\n            raise  # no fault of this event: the whole outbox is sent again\n",
            "",
        ),
    ),
    fault(
        "A label is acknowledged before the disk has it.",
        "questions::test_connections_are_set_up_as_the_design_says",
        ("db/connection.py", "PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF"),
    ),
    fault(
        "Cards of Judge show the run, rank and score of a passage before its label.",
        "blindness::test_cards_hold_ranks_and_settled_labels_only_of_passages_that_are_labelled",
        ("backend/judging/cards.py", 'shown if shown["passage"] in labels else shown | {"where": ""}', "shown"),
    ),
    fault(
        "An annotator makes themselves a lead.",
        "rights::test_every_attempt_is_refused_or_taken_as_the_table_says",
        (
            "db/people.py",
            '            require(connection, actor, "manage people")\n            person(connection, name)\n            if actor == name',
            "            person(connection, name)\n            if actor == name",
        ),
    ),
    fault(
        "An annotator sees a lead's buttons and the labels of others.",
        "rights::test_pages_hide_what_would_be_refused rights::test_nobody_sees_the_labels_of_others_without_the_right",
        ("app/who.py", "    return person.is_allowed(action)\n", "    return True\n"),
    ),
    fault(
        "The secret of a personal link stays in the address and in the browser's history.",
        "personal_links::test_a_link_becomes_a_session_and_leaves_the_address",
        ("app/link_keys.py", "if pair[0] not in (KEY, LINK)]", "if pair[0] != LINK]"),
    ),
    fault(
        "Somebody whose link was replaced stays signed in.",
        "personal_links::test_revoking_or_replacing_a_link_ends_its_sessions",
        ("db/people.py", "s.expires > ? AND s.invitation = annotator.invitation", "s.expires > ?"),
    ),
    fault(
        "A dispute that an adjudicator settled stays open.",
        "labels::test_consensus_is_adjudicated_else_agreed_else_open",
        (
            "db/schema.py",
            "coalesce(adjudicated, CASE WHEN labels = 1 THEN label END) AS label",
            "CASE WHEN labels = 1 THEN label END AS label",
        ),
    ),
    fault(
        "A label that people disagree on counts as settled.",
        "labels::test_consensus_is_adjudicated_else_agreed_else_open labels::test_corrected_relevance_is_the_label_else_the_gold_and_open_in_dispute",
        (
            "db/schema.py",
            "coalesce(adjudicated, CASE WHEN labels = 1 THEN label END) AS label",
            "coalesce(adjudicated, label) AS label",
        ),
    ),
    fault(
        "The imported labels of a machine count as a person's.",
        "machine_annotators::test_imported_qrels_are_a_machines_and_count_for_nothing_that_people_agree_on",
        (
            "db/schema.py",
            "    WHERE e.kind = 'label' AND e.practice = 0 AND a.kind = 'person')",
            "    WHERE e.kind = 'label' AND e.practice = 0)",
        ),
    ),
    # Measures, tests, intervals
    fault(
        "Gold that people rejected counts as relevant.",
        "measures::test_gold_that_people_reject_has_grade_0",
        ("backend/evaluation/relevance.py", "{} if as_imported else Labels(study.labels_path).rejected_gold())", "{})"),
    ),
    fault(
        "Success@k does not count a passage at rank k.",
        "accuracy::test_success_reciprocal_rank_and_recall_equal_ir_measures",
        ("analysis/accuracy.py", "(ranks <= _checked_cutoff(k))", "(ranks < _checked_cutoff(k))"),
    ),
    fault(
        "nDCG takes passages of grade 2 for grade 1.",
        "measures::test_every_measure_over_graded_gold_equals_ir_measures",
        (
            "backend/evaluation/relevance.py",
            "for pair, grade in qrels.items() if grade > 1}",
            "for pair, grade in qrels.items() if grade > 2}",
        ),
    ),
    fault(
        "A passage that qrels call not relevant becomes gold.",
        "measures::test_every_measure_over_graded_gold_equals_ir_measures",
        ("db/questions.py", "(match.score is None or match.score > 0)", "(match.score is None or match.score >= 0)"),
    ),
    fault(
        "Of 20 comparisons one is called significant by chance: no correction for their number.",
        "comparison::test_p_is_adjusted_for_every_test_of_the_table significance::test_holms_correction_equals_that_of_statsmodels",
        (
            "analysis/significance.py",
            "np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))",
            "p[order]",
        ),
    ),
    fault(
        "Two runs over the same questions are tested as if the questions were different ones.",
        "significance::test_a_difference_carries_everything significance::test_a_family_is_adjusted_together",
        (
            "analysis/significance.py",
            "        p = sign_flip(values, units, resamples, seed)\n",
            "        from scipy.stats import ttest_ind\n\n        p = float(ttest_ind(values_a.astype(float), values_b.astype(float)).pvalue)\n",
        ),
    ),
    fault(
        "Intervals ignore that two questions ask one fact, and are too narrow.",
        "intervals::test_every_question_twice_says_no_more_than_once",
        (
            "analysis/intervals.py",
            "    units = np.arange(len(values)) if units is None else renumber_units(units)\n",
            "    units = np.arange(len(values))\n",
        ),
    ),
    fault(
        "The test ignores that two questions ask one fact, and finds too much.",
        "intervals::test_the_signs_of_a_unit_flip_together",
        (
            "analysis/significance.py",
            "    if units is not None and len(differences):\n",
            "    if units is None and len(differences):\n        units = np.arange(len(differences))\n",
        ),
    ),
    fault(
        "Subjects with 9 mentions stand among those with 10 to 29.",
        "buckets::test_mention_groups_are_those_of_frequency_group",
        ("analysis/buckets.py", 'frequency, side="left")', 'frequency, side="right")'),
    ),
    fault(
        "The average over relations weights large relations more.",
        "accuracy::test_macro_average_is_the_mean_of_the_groups_means",
        (
            "analysis/intervals.py",
            "    return float((np.bincount(member, values) / np.bincount(member)).mean())\n",
            "    return float(values.mean())\n",
        ),
    ),
    fault(
        "The share of false labels ignores that suspicious pairs were drawn more often.",
        "rate_sequence::test_the_estimate_is_right_on_average",
        (
            "analysis/rate_sequence.py",
            "(of_seen * self.found / np.maximum(self.seen, 1)).sum(axis=1) / of_seen.sum(axis=1)",
            "self.found.sum(axis=1) / self.seen.sum(axis=1)",
        ),
    ),
    fault(
        "The interval of the share of false labels holds at one look only.",
        "rate_sequence::test_the_intervals_cover_at_every_stop_together",
        ("analysis/rate_sequence.py", "logs = (self.wealth + self.begun).reshape", "logs = self.wealth.reshape"),
    ),
    fault(
        "An audit takes the first questions instead of drawing them.",
        "batches::test_the_audit_is_a_uniform_draw_of_questions_and_of_passages",
        (
            "backend/judging/batch_builder.py",
            "self.random.choice(len(free), count, replace=False).tolist() if count else ()",
            "range(count)",
        ),
    ),
    # Answers and retrieval
    fault(
        "DPR's answer match takes no answer that is written with another capital letter.",
        "answers::test_dpr_by_hand answers::test_equals_the_plain_rule",
        (
            "backend/text/answers/rules.py",
            """    return f" {' '.join(tokens(text))} ".lower()""",
            """    return f" {' '.join(tokens(text))} \"""",
        ),
    ),
    fault(
        "BM25 ignores b, the share of the correction for length, in large batches.",
        "bm25::test_the_postings_equal_lucene_where_many_passages_compete",
        (
            "backend/retrieval/postings/arrays.py",
            "((one - b) + b * on_jvm(length_table) / average)",
            "((one - np.float32(0.4)) + np.float32(0.4) * on_jvm(length_table) / average)",
        ),
    ),
    fault(
        "BM25 takes the default b, whatever study.toml says.",
        "bm25::test_the_postings_equal_lucene_where_many_passages_compete",
        ("backend/retrieval/bm25.py", "settings.b if b is None else b)", "0.4)"),
    ),
    fault(
        "Equal scores come in any order, so that two searches differ.",
        "search::test_top_k_orders_ties_by_ordinal_and_puts_padding_last hybrid::test_rrf_ties_are_ordered_by_ordinal",
        (
            "backend/retrieval/retriever.py",
            "    order = np.lexsort((last, -scores), axis=1)[:, :k]\n",
            "    order = np.argsort(-scores, axis=1)[:, :k]\n",
        ),
    ),
    fault(
        "Exact search orders equal scores by anything but the passage's row.",
        "search::test_keys_have_the_order_of_scores_and_rows search::test_equal_vectors_are_ordered_by_ordinal_even_beyond_the_margin",
        (
            "backend/retrieval/exact/keys.py",
            ".astype(np.int64) << 32 | rows\n",
            ".astype(np.int64) << 32 | (LAST_ROW - rows)\n",
        ),
        (
            "backend/retrieval/exact/keys.py",
            "    return (keys & LAST_ROW).astype(np.int32)\n",
            "    return (LAST_ROW - (keys & LAST_ROW)).astype(np.int32)\n",
        ),
    ),
    fault(
        "Dense search encodes titles and no texts.",
        "encoder::test_dpr_text_gives_the_ids_of_a_title_and_text_pair_with_segments_all_zero dense::test_vectors_made_elsewhere prompts::test_vectors_are_the_librarys_own",
        (
            "backend/retrieval/encoder.py",
            "format(title=passage.title, text=passage.text)",
            'format(title=passage.title, text="")',
        ),
    ),
    fault(
        "Questions are encoded without the prompt with which the model was trained.",
        "prompts::test_vectors_are_the_librarys_own",
        (
            "backend/retrieval/encoder.py",
            "self._encode(self.model.encode_query, list(questions))",
            "self._encode(self.model.encode, list(questions))",
        ),
    ),
    fault(
        "Hybrid search weights BM25 instead of the dense scores.",
        "hybrid::test_weighted_by_hand",
        (
            "backend/retrieval/hybrid.py",
            "candidates.sparse + np.float32(weight) * candidates.dense",
            "np.float32(weight) * candidates.sparse + candidates.dense",
        ),
    ),
    fault(
        "A shard whose encoding was broken off is merged as if it were whole.",
        "shards::test_each_shard_goes_on_where_it_was_interrupted",
        (
            "backend/retrieval/dense_shards.py",
            "manifests = {shard: manifest for shard, path in paths.items() if (manifest := read_manifest(path)) is not None}",
            "manifests = {shard: read_manifest(path) for shard, path in paths.items()}",
        ),
    ),
    fault(
        "A run or index that a kill left half written is listed as finished.",
        "study::test_a_part_without_a_manifest_is_not_there",
        (
            "backend/core/study.py",
            "(manifest := read_manifest(part)) is not None\n",
            "(manifest := read_manifest(part) or {}) is not None\n",
        ),
    ),
    # Training sets and training
    fault(
        "A mined passage that people call positive stays a negative of the training set.",
        "denoising::test_what_people_say_becomes_of_a_passage training_set_policies::test_labels_relabel_keep_and_drop",
        (
            "backend/training_sets/denoising.py",
            '        return "positive", RELABELLED if is_mined else PEOPLE_POSITIVE\n',
            '        return ("negative" if is_mined else "positive"), RELABELLED if is_mined else PEOPLE_POSITIVE\n',
        ),
    ),
    fault(
        "A passage that people call related is taken as a negative.",
        "denoising::test_what_people_say_becomes_of_a_passage",
        (
            "backend/training_sets/denoising.py",
            '("negative" if related_policy == "negative" else "dropped"), PEOPLE_RELATED',
            '"negative", PEOPLE_RELATED',
        ),
    ),
    fault(
        "A question that is in the dev set trains.",
        "mining::test_leaks_stay_out_and_are_counted",
        (
            "backend/data/leaks.py",
            """"WHERE split IN ('dev', 'test') OR bucket IS NOT NULL\"""",
            """"WHERE split = 'test' OR bucket IS NOT NULL\"""",
        ),
    ),
    fault(
        "Check does not report training questions that are in the dev set.",
        "check::test_dev_questions_that_leak_are_found",
        (
            "backend/checking/facts.py",
            "questions.all() if words_key(question.text) in keys]",
            "questions.all() if question.text.encode() in keys]",
        ),
    ),
    fault(
        "An export for DPR has no hard negatives.",
        "training_exports::test_dpr_is_read_by_our_reader_and_by_datasets",
        (
            "backend/training_sets/exports/dpr.py",
            '"hard_negative_ctxs": _contexts(row.hard)',
            '"hard_negative_ctxs": _contexts(row.easy)',
        ),
    ),
    fault(
        "Training pushes a question away from another of its known positives.",
        "losses::test_a_known_positive_is_no_negative_whoever_brought_it losses::test_what_is_masked_gets_no_gradient",
        (
            "backend/training/losses.py",
            'left_out = left_out | is_known_positive(ids, own_labels["positives"])',
            "left_out = left_out | (ids == PAD)",
        ),
    ),
    fault(
        "On several GPUs the passages of other processes get no gradient.",
        "distributed::test_two_processes_give_the_gradient_of_one",
        (
            "backend/training/distributed.py",
            "all_gather_with_grad(rows) if rows.is_floating_point() else all_gather(rows)",
            "all_gather(rows)",
        ),
    ),
    fault(
        "On several GPUs a process takes the passages of the first one as its own positives.",
        "losses::test_each_process_teaches_its_own_questions distributed::test_two_processes_give_the_gradient_of_one",
        ("backend/training/losses.py", 'first = rank() * len(labels["passages"])', "first = 0"),
    ),
    fault(
        "A training that was killed begins again at step 0.",
        "dual_encoder::test_broken_off_it_ends_with_the_same_bytes dual_encoder::test_broken_off_after_its_last_step_it_only_keeps_the_best",
        (
            "backend/training/trainer.py",
            "resume_from_checkpoint=str(checkpoint) if checkpoint else None",
            "resume_from_checkpoint=None",
        ),
    ),
    # Hostile and broken input
    fault(
        "A text that begins with = runs as a formula when a saved table is opened.",
        "terminal::test_numbers_stay_numbers_and_formulas_become_text labels_io::test_no_cell_of_the_csv_is_a_formula",
        ("backend/core/spreadsheets.py", 'FORMULA = ("=", "+",', 'FORMULA = ("+",'),
    ),
    fault(
        "A click on a link in the guidelines runs a script.",
        "app_parts::test_links_of_the_guidelines_lead_to_web_pages_alone",
        (
            "backend/judging/guidelines.py",
            '.enable(["table", "strikethrough"])\n',
            '.enable(["table", "strikethrough"])\n    parser.validateLink = lambda address: True\n',
        ),
        ("backend/judging/guidelines.py", '    if address.startswith(("https://", "http://")):\n', "    if address:\n"),
    ),
    fault(
        "HTML in the title of a passage becomes part of the page.",
        "app_question::test_data_never_becomes_markup",
        (
            "app/components/hit_lists.py",
            'span(found.passage.title or "untitled", cls="title"',
            'span(Html(found.passage.title or "untitled"), cls="title"',
        ),
    ),
    fault(
        "A file of an archive is read from outside of it.",
        "formats_questions::test_a_member_that_points_outside",
        ("backend/data/formats/archive.py", 'name.is_absolute() or ".." in name.parts or ', "name.is_absolute() or "),
    ),
    fault(
        "The name of a part leads out of the study's folder.",
        "study::test_no_path_leaves_the_study",
        ("backend/core/study.py", 'if any(part in ("", ".", "..") or', 'if any(part in ("", ".") or'),
    ),
    fault(
        "Pickled weights of a stranger are loaded, and run their code.",
        "model_files::test_a_folder_that_would_run_code_is_refused_wherever_models_are_loaded",
        (
            "backend/core/model_files.py",
            '    return sources + [f"{name}: pickled weights" for name in _pickles(files)]\n',
            "    return sources\n",
        ),
        (
            "backend/core/model_files.py",
            '{"use_safetensors": None if self.trusted else True, "trust_remote_code"',
            '{"use_safetensors": None, "trust_remote_code"',
        ),
    ),
    fault(
        "A study that names a server has its texts sent there without anybody's consent.",
        "strangers::test_a_judge_that_came_with_a_study_sends_nothing llm_judge::test_nothing_leaves_the_machine_before_somebody_allowed_it",
        (
            "backend/core/consent.py",
            "    if consent is not None:\n        return consent\n    server = server_of(url)\n",
            '    if consent is None:\n        consent = Consent(str(study.folder), "", server_of(url), "", "")\n    return consent\n    server = server_of(url)\n',
        ),
    ),
    fault(
        "An import that fails in the middle leaves half of its questions.",
        "questions::test_rows_and_record_come_together_or_not_at_all importing::test_a_stop_while_saving_questions",
        (
            "db/questions.py",
            "        with write_transaction(self.connection) as connection:\n            position = ",
            '        with __import__("contextlib").nullcontext(self.connection) as connection:\n            position = ',
        ),
    ),
    # Jobs
    fault(
        "A job whose process was killed is shown as running.",
        "jobs::test_killed_before_its_process_began_is_found_dead",
        ("backend/core/job_process.py", "    if not is_locked(folder):\n        return False\n", ""),
    ),
    fault(
        "A job that somebody cancelled goes on.",
        "jobs::test_cancelling",
        (
            "backend/core/job_reports.py",
            "        if self._cancel_file.exists():\n            raise Cancelled(CANCELLED)\n",
            "",
        ),
    ),
    # Pages
    fault(
        "An annotator opens a page of results while they judge.",
        "blindness::test_an_annotator_who_opens_any_page_gets_judge",
        (
            "app/main.py",
            'if sees_judge_alone and page.title != "Judge":',
            'if sees_judge_alone and page.title == "Home":',
        ),
    ),
)


def problems(root: Path = ROOT) -> list[str]:
    """Return what keeps faults from being planted: a patch that does not apply, or a test that is not there."""
    found = []
    for number, each in enumerate(FAULTS, 1):
        for edit in each.edits:
            text = (root / edit.file).read_text(encoding="utf-8") if (root / edit.file).is_file() else ""
            if text.count(edit.old) != 1:
                found.append(
                    f"{number}: {edit.file} has {text.count(edit.old)} times {edit.old.strip()!r}: {each.sentence}"
                )
        found += [f"{number}: there is no {test}: {each.sentence}" for test in each.tests if not _exists(root, test)]
    return found


def _exists(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    return (root / file).is_file() and f"def {name}(" in (root / file).read_text(encoding="utf-8")


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Yield a temporary copy of the tracked files of a checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        for name in filter(None, listed.split("\0")):
            if (root / name).is_symlink() or (root / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, Path(folder) / name, follow_symlinks=False)
        yield Path(folder)


@contextmanager
def planted(folder: Path, edits: Sequence[Edit]) -> Iterator[None]:
    """Make the edits, and take them back. Raises ValueError for a patch that does not apply."""
    before = {folder / edit.file: os.stat(folder / edit.file) for edit in edits if (folder / edit.file).is_file()}
    texts = {path: path.read_text(encoding="utf-8") for path in before}
    changed = dict(texts)
    for edit in edits:
        text = changed.get(folder / edit.file, "")
        if text.count(edit.old) != 1:
            raise ValueError(f"{edit.file} has {text.count(edit.old)} times {edit.old.strip()!r}")
        changed[folder / edit.file] = text.replace(edit.old, edit.new)
    try:
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
            # Python takes a compiled file for one of this source by the time and the size of the source.
            os.utime(path, (time.time(), before[path].st_mtime + 1000 + time.monotonic_ns() % 10**6))
        yield
    finally:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
            os.utime(path, (before[path].st_atime, before[path].st_mtime))


class Outcome(NamedTuple):
    """What became of some tests: the exit status of pytest, those that failed, and the last lines that it printed."""

    status: int
    failed: list[str]
    lines: str


def run_tests(folder: Path, root: Path, tests: Sequence[str], stop: bool = True) -> Outcome:
    """Run tests of a copy, in a process forked from this one, which has imported what takes seconds to import."""
    options = ["-q", "-m", "", "-p", "no:cacheprovider", "--tb=line", "-rfE", *(["-x"] if stop else [])]
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            _begin_tests(folder, root, [*options, *dict.fromkeys(tests)], output.fileno())
        status = _status_of(child, SECONDS if stop else 10 * SECONDS)
        output.seek(0)
        text = output.read()
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/\S+)", text, re.MULTILINE)
    return Outcome(status, failed, text[-2500:])


def _begin_tests(folder: Path, root: Path, options: Sequence[str], output: int) -> None:
    """Run pytest in this forked process, as if Python had been started in the folder, and end the process."""
    status = 70
    atexit._clear()  # what the other process deletes at its end is not this one's
    try:
        os.setsid()
        for number in (1, 2):
            os.dup2(output, number)
        os.chdir(folder)
        data = root.parent / "shared" / "data" / "entityquestions-wiki"
        os.environ.setdefault("BLINDSPOT_REAL_DATA", str(data))
        os.environ["PYTHONPATH"] = str(folder / "src")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        sys.path[:] = [str(folder), str(folder / "src"), *(each for each in sys.path if each not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "blindspot")]:
            del sys.modules[name]
        status = int(pytest.main(list(options)))
        atexit._run_exitfuncs()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _status_of(child: int, seconds: float) -> int:
    """Wait for a process, and end its session after some seconds. Return its exit status."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 124


def import_libraries() -> None:
    """Import what the tests would import again and again, with the settings of tests/conftest.py."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in (
        "hypothesis",
        "torch",
        "transformers",
        "sentence_transformers",
        "streamlit.testing.v1",
        "pandas",
        "pyarrow.parquet",
        "sklearn",
        "scipy.stats",
    ):
        importlib.import_module(name)


def verdict_on(fault: Fault, folder: Path, root: Path, failing: Sequence[str]) -> tuple[str, str]:
    """Plant a fault in a copy and run its tests. Return "seen", "UNSEEN" or "does not apply", and the first test that
    failed, or a remark. failing: the tests that fail without a fault, which see nothing.
    """
    broken = {test.partition("[")[0] for test in failing}
    tests = [test for test in fault.tests if _exists(folder, test) and test not in broken]
    if not tests:
        return "UNSEEN", "each of its tests is absent, or fails without the fault too"
    try:
        with planted(folder, fault.edits):
            outcome = run_tests(folder, root, tests)
    except ValueError as error:
        return "does not apply", str(error)
    if outcome.status == pytest.ExitCode.TESTS_FAILED:
        return "seen", outcome.failed[0].removeprefix("tests/test_").replace(".py", "")
    if outcome.status == pytest.ExitCode.OK:
        return "UNSEEN", "all of its tests pass"
    return "UNSEEN", f"pytest ended with {outcome.status}: {outcome.lines.strip().splitlines()[-1:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, help="the faults to plant (default: all)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose code and tests are tried")
    chosen = parser.parse_args(arguments)
    root, numbers = chosen.root.resolve(), chosen.numbers or list(range(1, len(FAULTS) + 1))
    unseen = []
    import_libraries()
    with copied(root) as folder:
        begun = time.monotonic()
        tests = [test for number in numbers for test in FAULTS[number - 1].tests if _exists(folder, test)]
        clean = run_tests(folder, root, tests, stop=False)
        print(
            f"without a fault: {'all pass' if clean.status == 0 else clean.lines} ({time.monotonic() - begun:.0f} s)",
            flush=True,
        )
        for number in numbers:
            begun = time.monotonic()
            verdict, remark = verdict_on(FAULTS[number - 1], folder, root, clean.failed)
            unseen += [number] * (verdict != "seen")
            print(
                f"{number:3}  {verdict:14} {time.monotonic() - begun:5.0f} s  {FAULTS[number - 1].sentence}\n{'':29}{remark}",
                flush=True,
            )
    print(
        f"{len(numbers) - len(unseen)} of {len(numbers)} faults seen"
        + (f"; not: {', '.join(map(str, unseen))}" if unseen else "")
    )
    return int(bool(unseen) or clean.status != 0)


if __name__ == "__main__":
    sys.exit(main())
