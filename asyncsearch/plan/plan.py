"""Naive stub."""
from __future__ import annotations
import msgspec
from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId

class PlannedStage(msgspec.Struct, frozen=True):
    node: NodeKey
    start: int
    stop: int
    trials: tuple[TrialId, ...]

class Batch(msgspec.Struct, frozen=True):
    load: CheckpointRef | None
    stages: tuple[PlannedStage, ...]

def node_of(path, r):
    best = path[0].node
    for s in path:
        if s.start < r: best = s.node
    return best

class SearchPlan:
    def __init__(self):
        self.req = {}; self.ck = set(); self.run = {}; self.saves = {}
    def request(self, trial, path, target, *, is_urgent=False):
        self.req[trial] = (path, target, is_urgent)
    def withdraw(self, trial): self.req.pop(trial, None)
    def target_of(self, trial): return self.req[trial][1] if trial in self.req else None
    def add_checkpoint(self, ref): self.ck.add(ref)
    def remove_checkpoint(self, ref): self.ck.discard(ref)
    def nearest(self, path, resource):
        best = None
        for i, s in enumerate(path):
            end = path[i+1].start if i+1 < len(path) else 2**62
            for c in self.ck:
                if c.node == s.node and s.start < c.resource <= min(end, resource) and (best is None or c.resource > best.resource):
                    best = c
        return best
    def begin(self, lease, batch): self.run[lease] = batch; self.saves[lease] = []
    def end(self, lease): self.run.pop(lease, None); self.saves.pop(lease, None)
    def cut(self, lease, stop):
        b = self.run[lease]
        st = [s for s in b.stages if s.start < stop]
        st[-1] = PlannedStage(st[-1].node, st[-1].start, min(stop, st[-1].stop), st[-1].trials)
        self.run[lease] = Batch(b.load, tuple(st))
    def add_save_point(self, lease, node, resource): self.saves[lease].append((node, resource))
    def readers_at(self, node, resource):
        return sorted(t for t, (p, target, _) in self.req.items() if target >= resource and node_of(p, resource) == node)
    def targets_at(self, node, resource):
        return sorted(t for t, (p, target, _) in self.req.items() if target == resource and node_of(p, resource) == node)
    def leases_on(self, path):
        keys = {s.node for s in path}
        return [l for l, b in self.run.items() if any(s.node in keys for s in b.stages)]
    def targets(self):
        out = set()
        for t, (p, target, _) in self.req.items():
            out.add((node_of(p, target), target))
            for s in p[1:]:
                if s.start < target: out.add((node_of(p, s.start), s.start))
        return out
    def wanted_stop(self, lease):
        want = 0
        for st in self.run[lease].stages:
            for t, (p, target, _) in self.req.items():
                if any(s.node == st.node for s in p) and target > st.start:
                    i = [s.node for s in p].index(st.node)
                    end = p[i+1].start if i+1 < len(p) else 2**62
                    want = max(want, min(target, end, st.stop))
        return want
    def splits(self, lease):
        tg = self.targets()
        return sorted((n, r) for st in self.run[lease].stages for n, r in tg if n == st.node and st.start < r < st.stop and (n, r) not in self.saves[lease] and CheckpointRef(n, r) not in self.ck)
    def next_batch(self, held=()):
        best = None
        run = [(s.node, s.start, s.stop) for b in self.run.values() for s in b.stages]
        for t, (p, target, urgent) in sorted(self.req.items()):
            if CheckpointRef(node_of(p, target), target) in self.ck: continue
            load = self.nearest(p, target)
            start = load.resource if load else 0
            blocked = False
            for i, s in enumerate(p):
                end = p[i+1].start if i+1 < len(p) else 2**62
                lo, hi = max(s.start, start), min(end, target)
                if lo < hi and any(n == s.node and a < hi and b > lo for n, a, b in run): blocked = True
            if blocked: continue
            key = (not urgent, t)
            if best is None or key < best[0]: best = (key, t, load, start)
        if best is None: return None
        _, t, load, start = best
        p, target, _ = self.req[t]
        tg = self.targets()
        stages = []
        pos = start
        for i, s in enumerate(p):
            end = p[i+1].start if i+1 < len(p) else 2**62
            for r in sorted(r for n, r in tg if n == s.node and r <= min(target, end)):
                if r > pos:
                    stages.append(PlannedStage(s.node, pos, r, tuple(self.readers_at(s.node, r)))); pos = r
        return Batch(load, tuple(stages))
    def set_cost(self, node, cost): self.__dict__.setdefault("_costs", {})[node] = cost
    def costs(self): return self.__dict__.get("_costs", {})
