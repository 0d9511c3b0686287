#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the bench's own logic, without any contestant."""
import contextlib
import io
import itertools
import json
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import against
import box
import contest
import instructions
import jobs
import main
import models
import plot
import report
import seal
import soak
import targets
import wire
from contest import (KIB, MIB, Case, Contest, Markers, Result, Round, Side, size_name, times_for,
                     tune)
from place import Broken, NotHere

RAR, TCP = "rar-in-place", "host:tcp-ring"


def result_of(case, rounds, missing=None):
    """A result of rounds, each {label: ns}, with quiet markers"""
    result = Result(case)
    result.markers = Markers()
    for ns in rounds:
        marks = {str(side): 100 for side in case.sides}
        for side in marks:
            result.markers.add(side, 100)
        result.rounds.append(Round(dict(ns), marks))
    result.missing = missing or {}
    return result


class FakePlace:
    """Every operation takes the time of a table; the marker comes from a list"""
    cpus, counts = 1, False

    def __init__(self, ns, marks=(), name="uml"):
        self.ns, self.marks, self.name = ns, list(marks), name
        self.started, self.log = {}, []

    def topology(self, n, mtu, gso, links="", form=""):
        del links, form
        self.log.append(("topology", n, mtu, gso))
        self.started = {}

    def start(self, name):
        self.started[name] = None if name in self.ns or name == "marker" else "not here"
        return self.started[name]

    def stop(self, name):
        self.log.append(("stop", name))
        self.started.pop(name, None)

    def run(self, name, job, do="run"):
        self.log.append((do, name))
        if name == "marker":
            return {"ns": self.marks.pop(0) if self.marks else 100}
        ns = self.ns[name]
        if callable(ns):
            ns = ns(job)
        if isinstance(ns, Exception):
            self.started[name] = str(ns)
            raise ns
        return {"ns": ns * job["times"], "counts": {"TxAck": 3 * job["times"]}}


class TestContest(unittest.TestCase):
    case = Case(4, (MIB,), (Side("uml", RAR), Side("uml", "tcp-ring")), rounds=3)

    def contest(self, place):
        """The knobs are known: the markers are those of the rounds"""
        found = Contest({"uml": place}, lambda text: None)
        found.knobs = {(side, self.case.topology, self.case.size): ([0], True)
                       for side in self.case.sides}
        return found

    def measure(self, place, case=None):
        return self.contest(place).measure(case or self.case)

    def test_turns(self):
        place = FakePlace({RAR: 10, "tcp-ring": 40})
        result = self.measure(place)
        self.assertEqual(len(result.rounds), 3)
        self.assertEqual(place.log[-6:], [("run", "marker"), ("run", RAR), ("run", "marker"),
                                          ("run", "tcp-ring"), ("run", "marker"),
                                          ("count", RAR)])
        self.assertEqual(result.ratio("tcp-ring", RAR), 4)

    def test_bad_rounds_are_discarded_and_replaced(self):
        for bad in ([500, 900, 100], [900, 100, 100], [100, 100, 900]):     # of a round
            marks = [100, 100, 100, *bad, *[100] * 9]
            result = self.measure(FakePlace({RAR: 10, "tcp-ring": 40}, marks))
            self.assertEqual((len(result.good), result.discarded), (3, 1))

    def test_no_quiet_round(self):
        markers = Markers()
        for _ in range(40):
            for side in (*self.case.sides, "after uml tcp-ring"):
                markers.add(str(side), 100)
        contest = self.contest(FakePlace({RAR: 10, "tcp-ring": 40}, [300] * 99))
        contest.markers = markers
        result = contest.measure(self.case)
        self.assertEqual((len(result.good), len(result.rounds)), (0, 9))
        self.assertEqual(result.ns(RAR), 10)

    def test_late(self):
        contest = Contest({"uml": FakePlace({RAR: 10, "tcp-ring": 40})}, lambda text: None)
        self.assertEqual(len(contest.measure(self.case, -1).rounds), 3)

    def test_counts_are_of_an_operation(self):
        result = self.measure(FakePlace({RAR: 10, "tcp-ring": 40}))
        self.assertEqual(result.counts, {RAR: {"TxAck": 3}})

    def test_missing_is_not_faked(self):
        result = self.measure(FakePlace({"tcp-ring": 40}))
        self.assertFalse(result.has(RAR))
        self.assertEqual(result.missing, {RAR: "not here"})
        self.assertEqual(result.ns("tcp-ring"), 40)

    def test_a_contestant_that_breaks_is_out(self):
        for error in (Broken("wrong sum"), NotHere("no such mode")):
            result = self.measure(FakePlace({RAR: error, "tcp-ring": 40}))
            self.assertEqual(result.missing, {RAR: str(error)})
            self.assertEqual(len(result.rounds), 3)

    def test_the_absent_give_memory_back(self):
        place = FakePlace({RAR: 10, "tcp-ring": 40, "gloo": 1})
        contest = Contest({"uml": place}, lambda text: None)
        contest.measure(Case(4, (4 * KIB,), (Side("uml", "gloo"),)))
        contest.measure(Case(4, (16 * MIB,), (Side("uml", RAR),)))
        self.assertIn(("stop", "gloo"), place.log)

    def test_medians_of_ratios(self):
        rounds = [{RAR: 10, "tcp-ring": 20}, {RAR: 100, "tcp-ring": 400}, {RAR: 1, "tcp-ring": 3}]
        self.assertEqual(result_of(self.case, rounds).ratio("tcp-ring", RAR), 3)

    def test_tune(self):
        cost = {(1, 5): 9, (2, 5): 7, (3, 5): 8, (2, 6): 4, (1, 6): 5, (3, 6): 4}
        asked = []
        self.assertEqual(tune(lambda k: asked.append(tuple(k)) or cost[tuple(k)],
                              [[1, 2, 3], [5, 6]]), [2, 6])
        self.assertEqual(sorted(asked), sorted(cost))
        cost[3, 6] = 3
        self.assertEqual(tune(lambda k: cost[tuple(k)], [[1, 2, 3], [5, 6]]), [3, 6])

    def tuned(self, place, end=None):
        """What is found for TCP, and the verdict on it"""
        contest = Contest({"uml": place}, lambda text: None)
        contest.markers.seen["tuning uml"] = [100] * 40
        result = contest.measure(self.case, *([] if end is None else [end]))
        return result.knobs["tcp-ring"], result

    def test_noise_is_no_sample(self):
        """The first value of a knob is the best one, but was disturbed"""
        def ns(job):
            disturbed = len(place.marks) in range(95, 99)
            return 1e6 * (30 if disturbed else 10 if job["knobs"][0] == 64 * KIB else 20)

        place = FakePlace({RAR: 10, "tcp-ring": ns}, [300] * 4 + [100] * 95)
        knobs, result = self.tuned(place)
        self.assertEqual((knobs[0], result.untuned), (64 * KIB, []))

    def test_the_median_sample_counts(self):
        samples = itertools.count()

        def ns(job):
            lucky = job["knobs"][0] == 16 * KIB and next(samples) % 4 == 1
            return 1e6 * (1 if lucky else 20 if job["knobs"][0] == 16 * KIB else 10)

        self.assertEqual(self.tuned(FakePlace({RAR: 10, "tcp-ring": ns}))[0][0], 64 * KIB)

    def test_noisy_tuning_is_no_verdict(self):
        place = FakePlace({RAR: 10, "tcp-ring": 40}, [300] * 9)
        result = self.tuned(place)[1]
        self.assertEqual((result.untuned, len(result.good)), (["tcp-ring"], 3))
        verdict = targets.compare("P6", result, (RAR,), ("tcp-ring",), 1)
        self.assertEqual(str(verdict), "P6 N=4 size=1MiB ratio=4.00 need=1.00 INVALID"
                                       " peer=tcp-ring noisy=tuning-of-tcp-ring")

    def test_slow_ones_are_tuned_with_a_smaller_size(self):
        for ns, tuned in ((3e8, 16 * MIB), (1.2e9, 4 * MIB)):
            sizes = set()

            def spent(job, ns=ns, sizes=sizes):
                sizes.add(job["bytes"][0])
                return ns * job["bytes"][0] / (16 * MIB)

            place = FakePlace({RAR: 10, "tcp-ring": spent})
            Contest({"uml": place}, lambda text: None).measure(
                Case(4, (16 * MIB,), self.case.sides, rounds=1))
            self.assertEqual(sizes, {16 * MIB, tuned})

    def test_nothing_disturbs_a_clock_that_counts(self):
        asked = []
        for counts in (False, True):
            place = FakePlace({RAR: 10, "tcp-ring": 40}, [300] * 999)
            place.counts = counts
            self.assertEqual(bool(self.tuned(place)[1].untuned), not counts)
            asked.append(sum(entry == ("run", "tcp-ring") for entry in place.log))
        self.assertGreater(asked[0], 3 * asked[1])

    def test_late_tuning_does_not_wait(self):
        asked = []
        for end in (None, -1):
            place = FakePlace({RAR: 10, "tcp-ring": 40}, [300] * 999)
            self.tuned(place, end)
            asked.append(sum(entry == ("run", "tcp-ring") for entry in place.log))
        self.assertGreater(asked[0], 2 * asked[1])

    def test_times(self):
        self.assertEqual([times_for(ns) for ns in (1, 5e6, 1e9)], [16, 4, 1])

    def test_size_name(self):
        self.assertEqual([size_name(s) for s in (4096, MIB, 3 * MIB, 100)],
                         ["4KiB", "1MiB", "3MiB", "100B"])


class Loading(FakePlace):
    """The loaded module decides how long operations take; half of it is CPU time"""

    def __init__(self, ns):
        super().__init__({RAR: None})
        self.by_module, self.spent = ns, 0

    def load(self, module):
        self.log.append(("load", module))
        self.ns = {RAR: self.by_module[module]}

    def run(self, name, job, do="run"):
        answer = super().run(name, job, do)
        self.spent += answer["ns"] / 2
        return answer

    def cpu_ns(self):
        return self.spent


class TestAgainst(unittest.TestCase):
    def compare(self, ns, *more):
        args = main.parse(["--against", "HEAD", "--rounds", "2", "--contestants", RAR,
                           "--sizes", "4k,1M", *more])
        turns = against.Turns(Loading(ns), {b: b for b in against.BUILDS}, args,
                              lambda text: None)
        turns.compare([2, 4])
        return turns

    def test_turns(self):
        turns = self.compare({"before": 1e6, "after": 1.5e6})
        self.assertEqual([m for what, m, *_ in turns.place.log if what == "load"],
                         ["after", "before", "before", "after"] * 2)
        self.assertEqual(len(turns.cells), 4)
        for got in turns.cells.values():
            self.assertEqual((len(got.rounds), got.ratio("cpu")), (2, (1.5, 1.5, 1.5)))
            self.assertEqual((got.us("before", "wall"), got.us("before", "cpu")), (1000, 500))

    def test_a_mode_that_is_not_there(self):
        turns = self.compare({"before": 1, "after": 1}, "--contestants", "rar-copy")
        self.assertEqual(turns.cells, {})
        self.assertIn((2, "rar-copy"), turns.missing)

    def test_files(self):
        with tempfile.TemporaryDirectory() as out:
            text = against.write(out, {}, self.compare({"before": 2e6, "after": 1e6}))
            self.assertIn("0.500", text)
            with open(f"{out}/result.json", encoding="utf-8") as f:
                self.assertEqual(len(json.load(f)["cells"]), 4)


class TestTargets(unittest.TestCase):
    def lines(self, name, case, ns, missing=None, rounds=3):
        result = result_of(case, [ns] * rounds, missing)
        return [str(v) for v in targets.TARGETS[name].verdicts(result)]

    @staticmethod
    def case(name, n, size, kind="f32"):
        return next(c for c in targets.TARGETS[name].cases(5)
                    if (c.n, c.size, c.type) == (n, size, kind))

    def test_line(self):
        case = self.case("P2", 4, MIB)
        ns = {RAR: 120, "rar-registered": 100, "tcp-ring": 231, "tcp-chain": 300, "rar-local": 50}
        self.assertEqual(self.lines("P2", case, ns), [
            "P2 N=4 size=1MiB ratio=2.31 need=2.50 FAIL mode=registered peer=tcp-ring",
            "P2 N=4 size=1MiB ratio=4.62 need=4.00 PASS peer=tcp-ring one namespace"])

    def test_the_best_of_each_counts(self):
        case = self.case("P4", 8, 4 * KIB)
        line, = self.lines("P4", case, {RAR: 50, "rar-registered": 60, "rar-copy": 40,
                                        "tcp-ring": 300, "tcp-chain": 160})
        self.assertEqual(line, "P4 N=8 size=4KiB ratio=4.00 need=3.00 PASS"
                               " mode=copy peer=tcp-chain")

    def test_a_mode_that_is_not_there(self):
        why = "mode=registered not in this module"
        case = self.case("P1", 2, 64 * MIB)
        self.assertEqual(self.lines("P1", case, {RAR: 200, "light": 50},
                                    {"rar-registered": why})[1],
                         f"P1 N=2 size=64MiB ratio=none need=0.45 INVALID ({why}) stretch=0.60")

    def test_too_few_good_rounds_say_nothing(self):
        case = self.case("P6", 4, MIB)
        ns = {RAR: 10, "rar-registered": 10, "tcp-ring": 40, "tcp-chain": 40}
        self.assertIn("PASS", self.lines("P6", case, ns)[0])
        line, = self.lines("P6", case, ns, rounds=2)
        self.assertIn("INVALID", line)
        self.assertIn("noisy=2-of-2-rounds-good", line)

    def test_light(self):
        lines = self.lines("P1", self.case("P1", 4, 64 * MIB),
                           {"rar-registered": 100, "light-packets": 61, "light": 40,
                            "light-nary": 30})
        self.assertEqual([line.split()[3:6] for line in lines],
                         [["ratio=0.61", "need=0.60", "PASS"], ["ratio=0.40", "need=0.45", "FAIL"],
                          ["ratio=0.30", "need=0.00", "PASS"]])
        lines = self.lines("P3", self.case("P3", 4, MIB), {"rar-local": 100, "light": 91,
                                                           "mpich-local": 190,
                                                           "openmpi-local": 210})
        self.assertIn("ratio=1.90 need=2.00 FAIL peer=mpich-local", lines[0])
        self.assertIn("ratio=0.91 need=0.90 PASS", lines[1])

    def test_ceiling(self):
        case = self.case("P5", 4, MIB, "i32")
        slow = {RAR: 100, "tcp-ring": 200, "tcp-chain": 180, "gloo": 200, "light": 90}
        self.assertEqual(self.lines("P5", case, slow),
                         ["P5 N=4 size=1MiB type=i32 ratio=1.80 need=1.50 PASS"
                          " mode=in-place peer=tcp-chain bound=emulation"])
        self.assertIn("need=3.00 FAIL", self.lines("P5", case, slow | {"light": 9})[0])

    def test_networks(self):
        case = next(c for c in targets.P9.cases(5) if c.what == "vgg16")
        ns = {"rar-registered": 15, "rar-copy": 40, "tcp-ring": 101, "tcp-chain": 120, "gloo": 60,
              "openmpi": 30}
        lines = self.lines("P9", case, ns)
        self.assertEqual([line.split()[4:7] for line in lines],
                         [["ratio=6.73", "need=6.67", "PASS"], ["ratio=2.52", "need=3.33", "FAIL"],
                          ["ratio=2.00", "need=3.03", "FAIL"]])
        self.assertIn("peer=openmpi", lines[2])

    def test_flat(self):
        results = [result_of(c, [{RAR: 10 * (c.n - 1), "rar-copy": 10 * c.n}] * 3)
                   for c in targets.P8.cases(5)]
        self.assertEqual(str(targets.P8.together(results)),
                         "P8 N=2..64 size=8MiB ratio=1.00 need=0.70 PASS copy=0.51")
        results[2].rounds = results[2].rounds[:1]
        self.assertEqual(targets.P8.together(results).word, "INVALID")
        self.assertIn("FAIL", str(targets.P8.memory((100, 1600), None)))
        self.assertIn("ratio=none", str(targets.P8.memory(None, "mode")))

    def test_all_have_cases_and_no_figures_is_no_pass(self):
        for name, target in targets.TARGETS.items():
            for case in target.cases(3):
                if name != "P8":
                    for verdict in target.verdicts(result_of(case, [])):
                        self.assertFalse(verdict.passed, str(verdict))

    def test_one_case_serves_several_targets(self):
        both = set(targets.P1.cases(3)) & set(targets.P2.cases(3)) & set(targets.P3.cases(3))
        self.assertEqual(len(both), len(targets.RANKS))


class TestModels(unittest.TestCase):
    published = {"alexnet": 61100840, "vgg16": 138357544, "resnet50": 25557032,
                 "bert-base": 109482240}

    def test_parameters(self):
        for name, count in self.published.items():
            self.assertEqual(sum(models.MODELS[name]()), count, name)
            self.assertEqual(sum(models.operations(name)), 4 * count, name)
            self.assertLessEqual(max(models.operations(name)), models.PIECE)

    def test_backward(self):
        self.assertEqual(models.operations("resnet50")[0], 4 * (2048 * 1000 + 1000))


class TestReport(unittest.TestCase):
    def results(self):
        sides = (Side("uml", RAR), Side("host", "tcp-ring"))
        return [result_of(Case(4, (size,), sides), [{RAR: size, TCP: 3 * size}] * 2)
                for size in (4 * KIB, MIB)]

    def test_files(self):
        with tempfile.TemporaryDirectory() as out:
            results = self.results()
            results[0].counts[RAR] = dict(RxIngress=3463, RxEncap=0, RxXdp=0, RxData=103680,
                                          TxData=103680, TxForward=51840, TxAck=2, TxCtl=5)
            text, files = report.write(out, results,
                                       [targets.Verdict("P1", "N=2", 1.0, 0.5)], {})
            self.assertEqual(files, ["table.txt", "result.json", "plot.svg"])
            self.assertIn("host:tcp-ring", text)
            with open(f"{out}/result.json", encoding="utf-8") as f:
                data = json.load(f)
            self.assertEqual(data["results"][1]["ns"], {RAR: MIB, TCP: 3 * MIB})
            self.assertTrue(data["targets"][0]["pass"])
            self.assertIn("3456     30.0    50%        2.0\n", text)
            root = xml.etree.ElementTree.parse(f"{out}/plot.svg").getroot()
            self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 4)

    def test_one_size_makes_no_plot(self):
        self.assertEqual(report.groups(self.results()[:1]), {})

    def test_many_groups(self):
        groups = {f"group {i}": {"a": [(1, 1), (4, 2)]} for i in range(7)}
        root = xml.etree.ElementTree.fromstring(plot.svg(groups))
        self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 14)

    def test_axis(self):
        axis = plot.Axis([3, 900], 10, 100)
        self.assertEqual(axis.ticks(), [1, 10, 100, 1000])
        self.assertAlmostEqual(axis.at(1000), 100)


class TestBox(unittest.TestCase):
    def lines(self, n, size, ns, **options):
        case = Case(n, (size,), targets.at("uml", *ns), links="100mbit", **options)
        return [str(v) for v in box.Box().verdicts(result_of(case, [ns] * 3))]

    def test_lines(self):
        lines = self.lines(4, 16 * MIB, {RAR: 15, "rar-box": 10, "tcp-ring": 20, "tcp-server": 22,
                                         "tcp-server-fast": 9})
        self.assertEqual([line.split(" links")[0] for line in lines],
                         [f"{t} N=4 size=16MiB" for t in ("B4", "B3", "B2")])
        self.assertIn("ratio=2.20 need=2.28 FAIL", lines[0])
        self.assertIn("ratio=1.50 need=1.40 PASS", lines[2])

    def test_overhead(self):
        lines = self.lines(4, MIB, {RAR: 100, "rar-box-dead": 104, "rar-box-tight": 106})
        self.assertIn("ratio=0.96 need=0.95 PASS", lines[0])
        self.assertIn("ratio=0.94 need=0.95 FAIL", lines[1])

    def test_broadcast(self):
        lines = self.lines(9, 64 * KIB, {RAR: 10, "rar-copy": 12, "tcp-loop": 70, "udp-loop": 90},
                           type="bcast")
        self.assertEqual(len(lines), 1)
        self.assertTrue(lines[0].startswith("B5 N=9 size=64KiB"))
        self.assertIn("ratio=7.00 need=6.45 PASS", lines[0])

    def test_networks(self):
        for n, word in ((4, "need=0.00"), (8, "need=1.70 FAIL")):
            line, = self.lines(n, 16 * MIB, {"rar-box": 10, "tcp-ring": 16}, what="alexnet")
            self.assertTrue(line.startswith("B3"))
            self.assertIn(word, line)

    def test_flat(self):
        targets_of = box.Box()
        for n, ns, word in ((2, 100, "PASS"), (8, 480, "PASS"), (32, 2400, "FAIL")):
            case = Case(n, (MIB,), targets.at("uml", "rar-box", RAR), links=box.ANY)
            result = result_of(case, [{"rar-box": ns, RAR: 1}] * 3)
            self.assertIn(word, str(targets_of.verdicts(result)[0]))

    def test_cases(self):
        cases = box.Box.cases(5)
        self.assertEqual(len({c for c in cases}), len(cases))
        self.assertTrue(all(c.links and c.places == ["uml"] for c in cases))
        self.assertTrue(all(len(c.ops) <= 512 for c in cases))


class JobsPlace(FakePlace):
    """Each policy also tells what it counted"""

    def __init__(self, ns, marks=()):
        super().__init__(ns, marks)
        self.asked = []

    def run(self, name, job, do="run"):
        answer = super().run(name, job, do)
        if name != "marker":
            self.asked.append((name, job["knobs"]))
            answer |= {"box": 300, "ring": 100, "returned": 7, "busy": 250}
        return answer


class TestJobs(unittest.TestCase):
    case = next(c for c in jobs.cases(3) if (c.jobs, c.pool) == (8, 25))
    ns = {"box-static": 2e9, "box-fcfs": 1.4e9, "box-reclaim": 0.9e9, "box-preempt": 1e9}

    def measure(self, ns, marks=()):
        self.place = JobsPlace(ns, marks)
        self.contest = jobs.Sharing({"uml": self.place}, lambda text: None)
        for side in self.case.sides:
            self.contest.markers.seen[str(side)] = [100] * 40
        return self.contest.measure(self.case)

    def test_lines(self):
        lines = [str(v) for v in box.Box().verdicts(self.measure(self.ns))]
        self.assertEqual(lines[1], "B1 J=8 N=4 pool=25% links=20mbit/8192us policy=fcfs"
                         " ratio=1.40 need=1.35 PASS 1.40 s, box 75%, returned 7, CPU 25%"
                         " / preempt: 1.00 s, box 75%, returned 7, CPU 25%")
        self.assertIn("policy=static ratio=2.00 need=0.97 PASS", lines[0])
        self.assertIn("policy=reclaim ratio=0.90 need=0.97 FAIL", lines[2])

    def test_policies_have_the_same_seed(self):
        self.measure(self.ns)
        mem = jobs.box_mem(8, 25)
        for number in (1, 2):
            asked = self.place.asked[4 * number - 4:4 * number]
            self.assertEqual({name for name, _ in asked}, set(jobs.POLICIES))
            self.assertTrue(all(k == [8, mem, jobs.SLOT_NS, number] for _, k in asked))
        self.assertNotEqual(self.place.asked[0][0], self.place.asked[4][0])

    def test_noise_is_no_verdict(self):
        result = self.measure(self.ns, [300] * 99)
        self.assertEqual(len(result.rounds), 3 + jobs.SPARE_ROUNDS)
        self.assertEqual({v.word for v in jobs.verdicts(result)}, {"INVALID"})

    def test_a_wrong_sum_is_no_verdict_and_only_of_its_cell(self):
        result = self.measure(self.ns | {"box-fcfs": Broken("wrong elements")})
        words = [v.word for v in jobs.verdicts(result)]
        self.assertEqual(words, ["PASS", "INVALID", "FAIL"])
        self.place.ns["box-fcfs"] = 1.4e9
        self.assertTrue(self.contest.measure(self.case).has("box-fcfs"))

    def test_memory(self):
        self.assertEqual((jobs.rows(4, 10), jobs.rows(8, 100)), (5, 96))
        for count in jobs.JOBS:
            for pool in jobs.POOLS:
                room = jobs.box_mem(count, pool) * 7 / 8
                self.assertGreater(room, jobs.rows(count, pool) * jobs.ROW)
                self.assertLess(room, (jobs.rows(count, pool) + 4) * jobs.ROW)

    def test_links(self):
        round_trip = 2 * (jobs.DELAY_US * 1000 + jobs.SLOT_NS)
        self.assertAlmostEqual(round_trip / jobs.SLOT_NS, jobs.ON_THE_WAY, places=2)


class CountingPlace(FakePlace):
    """The clock counts instructions: the first round takes more, and some take a little more"""

    def __init__(self, ns, rounds):
        super().__init__(ns)
        self.rounds, self.asked = list(rounds), []

    def run(self, name, job, do="run"):
        answer = super().run(name, job, do)
        self.asked.append(job)
        return {"ns": answer["ns"] + job["times"] * self.rounds.pop(0)}


class TestInstructions(unittest.TestCase):
    def count(self, *rounds, n=4, size=64):
        """Instructions of an operation that takes 8000, and in each round so many more"""
        self.place = CountingPlace({RAR: 8000}, rounds)
        return instructions.of_operation(self.place, RAR, n, size, len(rounds) - 1)

    def test_of_a_rank(self):
        self.assertEqual(self.count(0, 0), 2000)
        self.assertEqual(self.count(0, 0, n=8), 1000)

    def test_the_first_round_does_not_count(self):
        self.assertEqual(self.count(10**6, 40, 40, 40), 2010)

    def test_the_median_counts(self):
        self.assertEqual(self.count(0, 10**6, 80, 40, 0, 80), 2020)
        self.assertEqual(self.count(0, 40, 80), 2015)

    def test_job(self):
        self.count(0, 0, 0, size=4 * KIB)
        self.assertEqual(self.place.log, [("run", RAR)] * 3)
        for job in self.place.asked:
            self.assertEqual((job["bytes"], job["times"]), ([4 * KIB], instructions.TIMES))

    def test_the_absent(self):
        self.place = FakePlace({RAR: NotHere("no such mode")})
        self.assertEqual(instructions.figure(self.place, RAR, 4, 64, 1), f"{'-':>11}")


class TestSoak(unittest.TestCase):
    """Rank 7 has an operation from 0 to 200 ms after second 5; task 99 is another program"""

    @staticmethod
    def switch(ms, prev, state, then):
        return (f"<...>-{prev} [000] d..2. 5.{ms * 1000:06}: sched_switch: prev_comm=a"
                f" prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=b"
                f" next_pid={then} next_prio=120")

    @staticmethod
    def wakeup(ms, pid):
        return f"<idle>-0 [000] d..2. 5.{ms * 1000:06}: sched_wakeup: comm=a pid={pid} prio=120"

    def explain(self, *lines):
        first = "x-1 [000] d..2. 4.000000: rar_tx: group 1"
        last = "x-1 [000] d..2. 5.199000: rar_rx: group 1"
        return soak.explain([first, *lines, last], 5000000, 200000, {7})

    def test_starved(self):
        self.assertTrue(self.explain(self.switch(1, 7, "S", 99), self.wakeup(2, 7),
                                     self.switch(198, 99, "R", 7)))

    def test_lost(self):
        self.assertFalse(self.explain(self.switch(1, 7, "S", 99), self.wakeup(120, 7),
                                      self.switch(198, 99, "R", 7)))

    def test_preempted(self):
        self.assertTrue(self.explain(self.switch(1, 7, "R+", 99), self.switch(198, 99, "R", 7)))

    def test_a_trace_that_begins_later_explains_nothing(self):
        line = self.switch(100, 99, "R", 7)
        self.assertFalse(soak.explain([line], 5000000, 200000, {7}))


class TestWire(unittest.TestCase):
    ns = {"rar-blocking": 100, "rar-registered": 80, RAR: 90, "rar-copy": 200, "tcp-ring": 400,
          "tcp-chain": 500, "tcp-halving": 360}

    def lines(self, form, size, ns=None, counts=None, mtu=1500, n=4, rounds=3):
        case = wire.case_of(form, mtu, n, size, 5)
        result = result_of(case, [ns or self.ns] * rounds)
        result.counts = counts or {}
        return [str(v) for v in wire.Wire.verdicts(result)]

    def test_nic(self):
        self.assertEqual(self.lines("nic", 64 * MIB), [
            "W1 N=4 size=64MiB form=nic mtu=1500 ratio=4.50 need=5.00 FAIL mode=registered"
            " peer=tcp-halving",
            "W1 N=4 size=64MiB form=nic mtu=1500 ratio=4.00 need=4.00 PASS peer=tcp-halving"
            " send+recv",
            "W4 N=4 size=64MiB form=nic mtu=1500 ratio=1.80 need=2.00 FAIL peer=tcp-halving copy"])
        self.assertEqual([line.split()[0] for line in self.lines("nic", 64 * KIB)], ["W1", "W1"])

    def test_plain(self):
        line, = self.lines("plain", 64 * KIB, mtu=9000, n=8)
        self.assertEqual(line, "W2 N=8 size=64KiB form=plain mtu=9000 ratio=4.50 need=1.50 PASS"
                               " mode=registered peer=tcp-halving")

    def test_instructions(self):
        line, = self.lines("xdp", MIB, {name: ns * 10**6 for name, ns in self.ns.items()})
        self.assertIn("need=2.50 PASS", line)
        self.assertTrue(line.endswith(" instructions-per-MiB=80.0M/360.0M"))

    def test_more_than_packets(self):
        for counter, word in (("RxLocal", "INVALID"), ("RxWhole", "INVALID"), ("RxData", "PASS")):
            line = self.lines("plain", MIB, counts={RAR: {counter: 2}})[0]
            self.assertIn(word, line)

    def test_too_few_good_rounds_say_nothing(self):
        self.assertTrue(all("INVALID" in line for line in self.lines("nic", MIB, rounds=2)))

    def test_each_cell_has_a_line(self):
        """Also where there are no figures"""
        cases = wire.Wire.cases(5)
        self.assertEqual(len(cases), len(set(cases)))
        for case in cases:
            lines = [str(v) for v in wire.Wire.verdicts(main.without_figures(case, "no memory"))]
            self.assertTrue(lines)
            for line in lines:
                self.assertIn("ratio=none", line)
                self.assertIn("INVALID (no memory)", line)

    def test_forms(self):
        cases = wire.Wire.cases(5)
        self.assertEqual({(c.form, c.gso, *c.places) for c in cases},
                         {("nic", True, "uml"), ("plain", False, "uml"),
                          ("xdp", False, "counted")})
        self.assertEqual(cases[0].form, "xdp")

    def test_choice(self):
        args = ["--wire", "--forms", "plain,nic", "--n", "4", "--sizes", "4k", "--mtu", "1500"]
        cases, names = main.plan(main.parse(args))
        self.assertEqual(([c.form for c in cases], names), (["plain", "nic"], ["wire"]))
        self.assertEqual(wire.Wire.verdicts(result_of(cases[0], [self.ns] * 3)), [])


class TestRun(unittest.TestCase):
    cases = wire.Wire.cases(3, ["plain"], [1500], [2], [64 * KIB, MIB])

    def lines(self):
        run = main.Run(self.cases, ["wire"], None)
        run.prepare = lambda: None
        run.everything()
        return [str(v).split("ratio=")[1].split(" need=1.50 ") for v in run.verdicts]

    def test_a_place_that_breaks(self):
        with unittest.mock.patch("main.opened", side_effect=Broken("no answer")):
            self.assertEqual(self.lines(), [["none", "INVALID (no answer)"]] * 2)

    def test_too_little_memory(self):
        with unittest.mock.patch("main.available_mib", return_value=800):
            for ratio, why in self.lines():
                self.assertEqual(ratio, "none")
                self.assertIn("INVALID (needs ", why)


class TestSeal(unittest.TestCase):
    """Targets of seals: a lower ratio is better, but for the speed beside an attacker"""
    flat = [100, 100, 100]

    def test_rest(self):
        self.assertEqual(seal.ratio(seal.rest([30, 62, 30], [20, 40, 19]), [10, 20, 10]), 1.1)

    def row(self, n, size, ours, cipher):
        found = {seal.PLAIN: self.flat, "light-auth": cipher, "light-encrypt": cipher,
                 "rar-auth": ours, "rar-encrypt": [x + 50 for x in ours]}
        with contextlib.redirect_stdout(io.StringIO()):
            return seal.time_row(n, size, found)

    def test_time(self):
        big = 64 * MIB
        self.assertEqual([str(v) for v in self.row(4, big, [310] * 3, [200] * 3)],
                         ["S2 N=4 size=64MiB level=auth ratio=1.10 need=1.10 PASS",
                          "S2 N=4 size=64MiB level=encrypt ratio=1.60 need=1.10 FAIL"])
        self.assertEqual([v.word for v in self.row(4, big, [310, 310, 500], [200] * 3)],
                         ["INVALID", "INVALID"])
        self.assertEqual(self.row(2, big, [310] * 3, [200] * 3), [])
        self.assertEqual(self.row(4, MIB, [310] * 3, [200] * 3), [])

    def tunnel(self, ours, plain=(100, 100, 100), other=(400, 400, 400)):
        return seal.tunnel_verdict(9000, "auth", "wireguard",
                                   {"auth": ours, "plain": plain, "wireguard": other})

    def test_tunnels(self):
        self.assertEqual(str(self.tunnel([190, 190, 500])),
                         "S3 N=4 size=1MiB mtu=9000 level=auth ratio=0.30 need=0.30 INVALID "
                         "against WireGuard noisy=quartiles-differ-by-344.4%")
        self.assertEqual(self.tunnel([190] * 3).word, "PASS")
        self.assertEqual(self.tunnel([191] * 3).word, "FAIL")
        # of plain alone, which is little, nothing follows
        self.assertEqual(self.tunnel([190] * 3, (95, 100, 105)).word, "PASS")

    def test_off(self):
        """Rounds on both sides of what is needed decide nothing"""
        def word(*after):
            return seal.off_verdict(2, MIB, "m", [1000] * 4, after).word
        self.assertEqual(word(1009, 1008, 1010, 1050), "INVALID")
        self.assertEqual(word(1009, 1008, 1010, 1010), "PASS")
        self.assertEqual(word(1020, 1100, 1030, 1040), "FAIL")

    def beside(self, ns, rate=10000, came=1, late=0):
        def seen(values):
            return seal.Beside(values, rate, 10**9, round(came * rate), late)
        return seal.beside_verdict("auth", MIB, seen([80] * 3), seen(self.flat), seen(ns))

    def test_attack(self):
        self.assertEqual(str(self.beside([110] * 3)),
                         "S1 N=4 size=1MiB level=auth ratio=0.91 need=0.90 PASS without=0.73")
        self.assertEqual(self.beside([112] * 3).word, "FAIL")
        self.assertEqual(self.beside([80, 110, 140]).word, "INVALID")
        for what in {"rate": 9000}, {"came": 0.9}, {"late": 1}:
            self.assertEqual(self.beside([110] * 3, **what).word, "INVALID", what)

    def test_who_attacks(self):
        """The attacker is told where to send, and to end, around each sample"""
        asked, place = [], FakePlace({"rar-auth": 1000})
        place.ask = lambda **what: asked.append(what) or {
            "sent": 50, "sent_ns": 100000, "dropped": 40 * len(asked)}
        seen = seal.Beside()
        seen.measure(place, "rar-auth", MIB, 10, 1)
        seen.measure(place, "rar-auth", MIB, 10, None)
        seen.measure(place, "rar-auth", MIB, 200, 1)
        self.assertEqual([(a["rate"], a.get("to")) for a in asked],
                         [(10000, 1), (0, None), (0, None), (0, None), (10000, 1), (0, None)])
        self.assertEqual((seen.ns, seen.sent, seen.dropped, seen.late, seen.rate),
                         ([1000] * 3, 150, 120, 1, 500000))


class TestPlan(unittest.TestCase):
    def plan(self, *argv):
        return main.plan(main.parse(list(argv)))

    def test_default(self):
        cases, names = self.plan()
        self.assertEqual(names, list(targets.TARGETS))
        self.assertTrue(any(c.what == "resnet50" for c in cases))
        self.assertTrue(any(c.size == 4 * KIB and c.places == ["uml"] for c in cases))
        self.assertEqual(len(cases), len(set(cases)))

    def test_choice(self):
        cases, names = self.plan("--kernel", "native", "--n", "2,8", "--sizes", "4k,1M",
                                 "--gso", "on,off", "--mtu", "9000")
        self.assertEqual((len(cases), names), (8, []))
        self.assertEqual({c.topology for c in cases},
                         {(n, 9000, gso, "", "") for n in (2, 8) for gso in (True, False)})
        self.assertEqual(cases[0].places, ["host", "uml"])

    def test_some_targets(self):
        cases, names = self.plan("--targets", "P1,P7", "--rounds", "2")
        self.assertEqual((len(cases), names), (3, ["P1", "P7"]))

    def test_jobs(self):
        cases, names = self.plan("--box", "--jobs", "8", "--pools", "10,25", "--rounds", "1")
        self.assertEqual(names, ["box"])
        self.assertEqual([(c.jobs, c.pool, c.n, c.rounds) for c in cases],
                         [(8, 10, 32, 1), (8, 25, 32, 1)])
        self.assertEqual(sum(isinstance(c, jobs.JobsCase) for c in self.plan("--box")[0]), 8)
        self.assertFalse(any(isinstance(c, jobs.JobsCase)
                             for c in self.plan("--box", "--n", "32")[0]))

    def test_full_is_more(self):
        self.assertGreater(len(self.plan("--full")[0]), 2 * len(self.plan()[0]))

    def test_memory(self):
        case = Case(8, (64 * MIB,), targets.at("uml", RAR, "rar-copy", "light"))
        self.assertEqual(main.memory_mib(case, "uml"), 4 * 8 * 66)


if __name__ == "__main__":
    contest.PAUSE_S = contest.PATIENCE_S = 0
    unittest.main()
