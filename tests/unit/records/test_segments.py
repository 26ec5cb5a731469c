from cutover.records.reading.segments import MOST, NEAR, OffsetSpan, reads


def span(partition: int, first: int, last: int) -> OffsetSpan:
    return OffsetSpan(partition=partition, first=first, last=last)


def test_nothing_to_read_needs_no_read() -> None:
    assert reads([]) == ()


def test_ranges_that_overlap_or_lie_near_are_read_as_one() -> None:
    assert reads([span(0, 5, 9), span(0, 0, 6), span(0, 9 + NEAR, 9 + NEAR)]) == ({0: (0, 10 + NEAR)},)


def test_a_range_far_away_is_another_read_with_the_other_partitions_in_the_first() -> None:
    far = 10 * NEAR

    assert reads([span(0, 0, 9), span(0, far, far), span(1, 3, 3)]) == (
        {0: (0, 10), 1: (3, 4)},
        {0: (far, far + 1)},
    )


def test_of_many_ranges_those_with_the_smallest_gaps_become_one() -> None:
    far = [span(0, i * 10 * NEAR, i * 10 * NEAR) for i in range(MOST)]
    near = span(0, 2 * NEAR, 2 * NEAR)

    found = reads([*far, near])

    assert len(found) == MOST
    assert found[0] == {0: (0, 2 * NEAR + 1)}
