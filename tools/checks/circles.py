"""Circles among things that use each other."""


def of(uses):
    """Yields circles of {name: the names that it uses}, each as a list that ends with its first
    name: at least one of names that reach each other, and none if there is none."""
    for name in uses:
        reached, ahead = set(), [(name, (name,))]
        while ahead:
            at, way = ahead.pop()
            for used in sorted(uses.get(at, set()) - {at}):
                if used == name and name == min(way):
                    yield [*way, name]
                if used not in reached:
                    reached.add(used)
                    ahead.append((used, (*way, used)))
